// A pipeline over a store in memory on a clock that the test moves, and answers that can be waited
// for.
#ifndef ONCE_TESTS_UNIT_PIPELINE_HARNESS_H_
#define ONCE_TESTS_UNIT_PIPELINE_HARNESS_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "core/decide.h"
#include "core/fingerprint.h"
#include "pipeline/pipeline.h"
#include "support/memory_store.h"
#include "unit/pipeline/manual_timing.h"

namespace once::pipeline {

inline constexpr absl::Duration kPatience = absl::Seconds(30);

// An answer to come. Copies share it.
template <typename Outcome>
class Answer {
 public:
  Done<Outcome> Receiver() const {
    return [state = state_](absl::StatusOr<Outcome> result) {
      if (state->answers.fetch_add(1) > 0) return;
      state->result = std::move(result);
      state->given.Notify();
    };
  }

  bool given() const { return state_->given.HasBeenNotified(); }
  int answers() const { return state_->answers.load(); }

  // The answer, waited for.
  const absl::StatusOr<Outcome>& Get() const {
    if (!state_->given.WaitForNotificationWithTimeout(kPatience)) {
      static const absl::StatusOr<Outcome> late(absl::UnknownError("no answer came"));
      return late;
    }
    return state_->result;
  }

  // The outcome's alternative, or null; `explain` says what came instead.
  template <typename Alternative>
  const Alternative* GetIf() const {
    const absl::StatusOr<Outcome>& result = Get();
    return result.ok() ? std::get_if<Alternative>(&*result) : nullptr;
  }

  // The error's reason; unset for an outcome.
  std::optional<base::ErrorReason> Reason() const {
    const absl::StatusOr<Outcome>& result = Get();
    if (result.ok()) return std::nullopt;
    return base::DetailsOf(result.status()).reason;
  }

 private:
  struct State {
    absl::Notification given;
    std::atomic<int> answers{0};
    absl::StatusOr<Outcome> result = absl::UnknownError("unset");
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Counts what happens and lets a test wait for it.
class CountingObserver final : public Observer {
 public:
  void OnBatch(size_t commands, absl::Duration) override {
    absl::MutexLock lock(&mutex_);
    batches_.push_back(commands);
    changed_.SignalAll();
  }
  void OnRetry(absl::string_view why) override {
    absl::MutexLock lock(&mutex_);
    ++retries_[std::string(why)];
    changed_.SignalAll();
  }
  void OnWaiters(size_t waiting) override {
    absl::MutexLock lock(&mutex_);
    waiting_ = waiting;
    changed_.SignalAll();
  }
  void OnReadBatch(size_t keys, absl::Duration) override {
    absl::MutexLock lock(&mutex_);
    ++read_batches_;
    keys_read_ += keys;
    changed_.SignalAll();
  }

  void OnAttemptsLost(size_t entries) override {
    absl::MutexLock lock(&mutex_);
    attempts_lost_ += entries;
  }
  void OnStoreError(const absl::Status&) override {
    absl::MutexLock lock(&mutex_);
    ++store_errors_;
  }

  size_t attempts_lost() const {
    absl::MutexLock lock(&mutex_);
    return attempts_lost_;
  }
  size_t store_errors() const {
    absl::MutexLock lock(&mutex_);
    return store_errors_;
  }
  std::vector<size_t> batches() const {
    absl::MutexLock lock(&mutex_);
    return batches_;
  }
  int retries(const std::string& why) const {
    absl::MutexLock lock(&mutex_);
    const auto found = retries_.find(why);
    return found == retries_.end() ? 0 : found->second;
  }
  size_t waiting() const {
    absl::MutexLock lock(&mutex_);
    return waiting_;
  }
  size_t read_batches() const {
    absl::MutexLock lock(&mutex_);
    return read_batches_;
  }
  size_t keys_read() const {
    absl::MutexLock lock(&mutex_);
    return keys_read_;
  }

  // Blocks until `condition`, which may call the getters above; false after kPatience.
  bool WaitFor(const std::function<bool()>& condition) const {
    const absl::Time give_up = absl::Now() + kPatience;
    for (;;) {
      if (condition()) return true;
      absl::MutexLock lock(&mutex_);
      if (absl::Now() >= give_up) return false;
      changed_.WaitWithTimeout(&mutex_, absl::Milliseconds(2));
    }
  }
  bool WaitForWaiters(size_t n) const {
    return WaitFor([this, n] { return waiting() == n; });
  }

 private:
  mutable absl::Mutex mutex_;
  mutable absl::CondVar changed_;
  std::vector<size_t> batches_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> retries_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t read_batches_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t keys_read_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t attempts_lost_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t store_errors_ ABSL_GUARDED_BY(mutex_) = 0;
};

inline constexpr core::TenantId kTenant{7};
inline constexpr char kHandler[] = "points.grant";

inline core::Digest DigestOf(const std::string& content) {
  core::Digest digest;
  digest.sha256 = core::FingerprintOf(core::ReceiptStatus::kSucceeded, "", content);
  return digest;
}

inline core::AttemptId AttemptOf(const std::string& name) {
  core::AttemptId attempt;
  const core::Sha256 hash = core::FingerprintOf(core::ReceiptStatus::kSucceeded, "attempt", name);
  std::copy_n(hash.begin(), attempt.bytes.size(), attempt.bytes.begin());
  return attempt;
}

inline BeginCall MakeBegin(const std::string& event, const std::string& attempt,
                           absl::Duration wait = absl::ZeroDuration()) {
  BeginCall call;
  call.info.tenant = kTenant;
  call.info.handler = kHandler;
  call.info.event_id = event;
  call.request.digest = DigestOf("content of " + event);
  call.request.attempt = AttemptOf(attempt);
  call.request.lease = absl::Seconds(30);
  call.request.consumer = attempt;
  call.wait = wait;
  return call;
}

inline CompleteCall MakeComplete(const std::string& event, const core::ClaimInfo& claim,
                                 const std::string& result) {
  CompleteCall call;
  call.info.tenant = kTenant;
  call.info.handler = kHandler;
  call.info.event_id = event;
  call.request.attempt = claim.attempt;
  call.request.fence = claim.fence;
  call.request.result = result;
  call.request.fingerprint = core::FingerprintOf(core::ReceiptStatus::kSucceeded, "", result);
  return call;
}

inline AbandonCall MakeAbandon(const std::string& event, const core::ClaimInfo& claim,
                               bool forget = false,
                               absl::Duration retry_delay = absl::ZeroDuration()) {
  AbandonCall call;
  call.info.tenant = kTenant;
  call.info.handler = kHandler;
  call.info.event_id = event;
  call.request.attempt = claim.attempt;
  call.request.fence = claim.fence;
  call.request.forget = forget;
  call.request.retry_delay = retry_delay;
  return call;
}

inline RenewCall MakeRenew(const std::string& event, const core::ClaimInfo& claim,
                           absl::Duration lease) {
  RenewCall call;
  call.info.tenant = kTenant;
  call.info.handler = kHandler;
  call.info.event_id = event;
  call.request.attempt = claim.attempt;
  call.request.fence = claim.fence;
  call.request.lease = lease;
  return call;
}

inline LookupCall MakeLookup(const std::string& event, absl::Duration wait = absl::ZeroDuration()) {
  LookupCall call;
  call.info.tenant = kTenant;
  call.info.handler = kHandler;
  call.info.event_id = event;
  call.wait = wait;
  return call;
}

// One pipeline over one store. Options may be changed before Start().
class Harness {
 public:
  Harness() : Harness(nullptr) { store_ = &memory_; }
  // Over another store than the one in memory.
  explicit Harness(store::Store* store) : store_(store) {
    options.committers = 2;
    options.seed = 1;
  }

  Pipeline& pipeline() {
    if (pipeline_ == nullptr) {
      pipeline_ = StartPipelineWithTiming(options, store_, &timing, &observer);
    }
    return *pipeline_;
  }
  void Stop() { pipeline_.reset(); }

  test::MemoryStore& store() { return memory_; }
  test::FaultScript& faults() { return memory_.faults(); }

  Answer<core::BeginOutcome> Begin(BeginCall call) {
    Answer<core::BeginOutcome> answer;
    pipeline().Begin(std::move(call), answer.Receiver());
    return answer;
  }
  Answer<core::BeginOutcome> Begin(const std::string& event, const std::string& attempt,
                                   absl::Duration wait = absl::ZeroDuration()) {
    return Begin(MakeBegin(event, attempt, wait));
  }
  Answer<core::CompleteOutcome> Complete(CompleteCall call) {
    Answer<core::CompleteOutcome> answer;
    pipeline().Complete(std::move(call), answer.Receiver());
    return answer;
  }
  Answer<core::AbandonOutcome> Abandon(AbandonCall call) {
    Answer<core::AbandonOutcome> answer;
    pipeline().Abandon(std::move(call), answer.Receiver());
    return answer;
  }
  Answer<core::RenewOutcome> Renew(RenewCall call) {
    Answer<core::RenewOutcome> answer;
    pipeline().Renew(std::move(call), answer.Receiver());
    return answer;
  }
  Answer<core::LookupOutcome> Lookup(LookupCall call) {
    Answer<core::LookupOutcome> answer;
    pipeline().Lookup(std::move(call), answer.Receiver());
    return answer;
  }

  // The claim of a Begin that must be granted.
  core::ClaimInfo Claim(const std::string& event, const std::string& attempt) {
    const Answer<core::BeginOutcome> answer = Begin(event, attempt);
    const auto* granted = answer.GetIf<core::Granted>();
    return granted == nullptr ? core::ClaimInfo{} : granted->claim;
  }

  // Stops the committers' next transaction right before its commit.
  void StopCommits() { faults().Close(test::FaultPoint::kCommit); }

  // Moves the clock from sleeper to sleeper until `condition`; false after kPatience of real time.
  bool RunUntil(const std::function<bool()>& condition) {
    const absl::Time give_up = absl::Now() + kPatience;
    while (!condition()) {
      if (absl::Now() >= give_up) return false;
      timing.Step();
    }
    return true;
  }

  // The key, whose handler has the number that the store gave first.
  static core::OperationKey KeyOf(const std::string& event) { return {kTenant, {1}, event}; }

  Options options;
  ManualTiming timing;
  CountingObserver observer;

 private:
  test::MemoryStore memory_{{.clock = &timing}};
  store::Store* store_;
  std::unique_ptr<Pipeline> pipeline_;
};

}  // namespace once::pipeline

#endif  // ONCE_TESTS_UNIT_PIPELINE_HARNESS_H_
