// Answers: each admitted call is answered exactly once, by whoever comes first.
#ifndef ONCE_PIPELINE_REPLY_H_
#define ONCE_PIPELINE_REPLY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "pipeline/pipeline.h"
#include "pipeline/timing.h"

namespace once::pipeline {

// Counts the calls that are admitted and not yet answered; the door that Drain closes. Thread-safe.
class CallGauge {
 public:
  // False once closed. Every true is matched by one Leave().
  bool Admit() {
    open_.fetch_add(1);
    if (closed_.load()) {
      Leave();
      return false;
    }
    return true;
  }

  void Leave() ABSL_LOCKS_EXCLUDED(mutex_) {
    if (open_.fetch_sub(1) == 1 && closed_.load()) {
      absl::MutexLock lock(&mutex_);
      idle_.SignalAll();
    }
  }

  void Close() { closed_.store(true); }

  // True when nothing is open, false at `until`. Blocks; call Close() first.
  bool WaitIdle(Timing* timing, absl::Time until) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (open_.load() != 0) {
      if (timing->Now() >= until) return false;
      timing->WaitUntil(&mutex_, &idle_, until);
    }
    return true;
  }

 private:
  // Sequentially consistent on purpose: Admit counts before it looks at the door, Drain closes the
  // door before it looks at the count.
  std::atomic<int64_t> open_{0};
  std::atomic<bool> closed_{false};
  absl::Mutex mutex_;
  absl::CondVar idle_;
};

// The part of a reply that does not depend on the outcome's type. Thread-safe.
class PendingReply {
 public:
  virtual ~PendingReply() = default;
  // Answers with an error, unless the call was answered before.
  virtual void Fail(const absl::Status& status) = 0;
  bool answered() const { return answered_.load(); }

 protected:
  bool ClaimAnswer() { return !answered_.exchange(true); }

 private:
  std::atomic<bool> answered_{false};
};

template <typename Outcome>
class Reply final : public PendingReply {
 public:
  // For an admitted call. `gauge` must outlive the answer.
  Reply(Done<Outcome> done, CallGauge* gauge) : done_(std::move(done)), gauge_(gauge) {}
  ~Reply() override {
    Fail(base::MakeError(base::ErrorReason::kInternal, "the call was lost inside the server"));
  }
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  void Answer(absl::StatusOr<Outcome> result) {
    if (!ClaimAnswer()) return;
    std::move(done_)(std::move(result));
    done_ = nullptr;
    gauge_->Leave();
  }
  void Fail(const absl::Status& status) override { Answer(status); }

 private:
  Done<Outcome> done_;
  CallGauge* const gauge_;
};

// The replies that one thread is working on, so that Drain can answer them while the thread hangs
// in the database. Thread-safe.
class InFlight {
 public:
  void Set(std::vector<std::shared_ptr<PendingReply>> replies) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    replies_.swap(replies);
  }

  void FailAll(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<std::shared_ptr<PendingReply>> replies;
    {
      absl::MutexLock lock(&mutex_);
      replies = replies_;
    }
    for (const auto& reply : replies) reply->Fail(status);
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<PendingReply>> replies_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_REPLY_H_
