// One shape for all who work on calls with a database session: committers, readers of rows, readers
// of bodies.
#ifndef ONCE_PIPELINE_WORKER_H_
#define ONCE_PIPELINE_WORKER_H_

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/types.h"
#include "pipeline/call.h"
#include "pipeline/handler_names.h"
#include "pipeline/keyed_queue.h"
#include "pipeline/pipeline.h"
#include "pipeline/reply.h"
#include "pipeline/row_cache.h"
#include "pipeline/session_holder.h"
#include "pipeline/timing.h"
#include "pipeline/trouble.h"
#include "pipeline/turn.h"
#include "store/store.h"

namespace once::pipeline {

// What the workers of a pipeline share. All outlive the workers and are thread-safe.
struct Shared {
  const Options* options;
  store::Store* store;
  Timing* timing;
  Observer* observer;
  StopSignal* stop;
  HandlerNames* names;
  RowCache* receipts = nullptr;
  RowCache* claims = nullptr;
};

// The number of a handler's name: from the cache, else from the database, made there where `create`
// says so. NOT_FOUND where there is none; otherwise the store's statuses. Blocks.
absl::StatusOr<core::HandlerId> InternHandler(const Shared& shared,
                                              SessionHolder<store::ControlSession>& control,
                                              core::TenantId tenant, absl::string_view name,
                                              bool create);

// A queue that several workers may share. One at a time, whose turn it is, takes a batch and works
// on it, so that as much as possible gathers for the next one. It gives the turn away early where
// its batch was full, and where all that is left is a slow COMMIT (see BeforeCommit). Thread-safe.
template <typename Call>
struct Lane {
  Lane(typename KeyedQueue<Call>::Bounds bounds, Timing* timing)
      : queue(bounds, timing), turn(timing) {}

  KeyedQueue<Call> queue;
  Turn turn;
};

// A thread that takes what has gathered in its lane and tries until every call is answered.
//
// Life: construct, Start(), Push() from any thread, Close(), Join(), destroy. All functions but
// Join() may be called from any thread and do not block. `Call` is as KeyedQueue wants it and has
// `tried`, `maybe_committed` and an overload of PendingOf.
template <typename Call>
class Worker {
 public:
  using Queue = KeyedQueue<Call>;
  using Bounds = typename Queue::Bounds;

  Worker(const Shared& shared, std::shared_ptr<Lane<Call>> lane, Bounds batch, uint64_t seed)
      : shared_(shared),
        batch_(batch),
        lane_(std::move(lane)),
        queue_(lane_->queue),
        trouble_(seed) {}
  // With a lane of its own.
  Worker(const Shared& shared, Bounds queue, Bounds batch, uint64_t seed)
      : Worker(shared, std::make_shared<Lane<Call>>(queue, shared.timing), batch, seed) {}
  virtual ~Worker() { assert(!thread_.joinable()); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void Start() {
    thread_ = std::thread([this] { Run(); });
  }

  typename Queue::Pushed Push(Call& call) { return queue_.Push(call); }

  // False while the last contact with the database failed. Then an idle worker tries to connect by
  // itself, so that it becomes healthy again without a call to try it on.
  bool healthy() const { return healthy_.load(); }

  absl::Time NextDeadline() const { return queue_.NextDeadline(); }
  // Answers queued calls whose caller is gone.
  void FailOver(absl::Time now) {
    for (Call& call : queue_.RemoveOver(now)) Fail(call, DeadlineError());
  }

  // The thread ends when the queue is empty.
  void Close() { queue_.Close(); }
  void FailQueued(const absl::Status& status) {
    for (Call& call : queue_.RemoveAll()) Fail(call, status);
  }
  void FailInFlight(const absl::Status& status) { in_flight_.FailAll(status); }
  void Join() {
    if (thread_.joinable()) thread_.join();
  }

 protected:
  // One try at all of `calls` (1 at least). On success all are answered or handed on. Calls that
  // were answered on the way are erased in any case. A status that may pass (ABORTED, UNAVAILABLE,
  // UNKNOWN) leads to another try, any other to tries one by one.
  virtual absl::Status Try(std::vector<Call>& calls) = 0;

  // Makes sure of a session.
  virtual absl::Status Connect() = 0;

  virtual void OnTaken() {}

  // For Try, when only the COMMIT is left. Where that takes long the next worker of the lane begins
  // meanwhile; otherwise what gathers until the callers of this batch are answered, and their next
  // calls with it, is worth more in one transaction.
  void BeforeCommit() {
    if (lane_->turn.commits_are_slow()) EndTurn();
  }
  void Committed(absl::Duration work, absl::Duration commit) { lane_->turn.Learn(work, commit); }

  const Shared& shared() const { return shared_; }
  size_t queued() const { return queue_.size(); }

 private:
  // The next worker of the lane begins, if there are calls for it. Otherwise the turn stays here,
  // which spares a change of threads.
  void EndTurn() {
    if (!has_turn_ || !queue_.HasReady()) return;
    has_turn_ = false;
    lane_->turn.Give();
  }

  static void Fail(Call& call, const absl::Status& status) { PendingOf(call)->Fail(status); }

  void Run() {
    Probe();
    for (;;) {
      const absl::Time until = healthy() ? absl::InfiniteFuture() : not_before_;
      if (!BeginTurn(until)) {
        Probe();
        continue;
      }
      std::vector<Call> batch;
      typename Queue::Held held;
      if (!queue_.Take(batch_, until, &batch, &held)) {
        lane_->turn.Give();
        return;
      }
      OnTaken();
      if (batch.empty()) {
        Probe();
        continue;
      }
      std::vector<std::shared_ptr<PendingReply>> replies;
      replies.reserve(batch.size());
      for (const Call& call : batch) replies.push_back(PendingOf(call));
      in_flight_.Set(std::move(replies));
      if (held.more()) EndTurn();
      RunToEnd(std::move(batch));
      in_flight_.Set({});
      queue_.Release(&held);
    }
  }

  bool BeginTurn(absl::Time until) {
    if (!has_turn_) has_turn_ = lane_->turn.Take(until);
    return has_turn_;
  }

  void Probe() { Judge(Connect()); }

  // Learns from a contact with the database.
  void Judge(const absl::Status& status) {
    const absl::Time now = shared_.timing->Now();
    if (absl::IsAborted(status)) {
      shared_.observer->OnRetry("aborted");
      not_before_ = now + trouble_.OnConflict(now);
    } else if (MayPass(status)) {
      shared_.observer->OnRetry(absl::IsUnknown(status) ? "unknown" : "unavailable");
      shared_.observer->OnStoreError(status);
      healthy_.store(false);
      not_before_ = now + trouble_.OnLost(now);
    } else {
      if (!status.ok()) shared_.observer->OnStoreError(status);
      healthy_.store(true);
      trouble_.OnSuccess();
      not_before_ = absl::InfinitePast();
    }
  }

  void RunToEnd(std::vector<Call> calls) {
    for (;;) {
      FailHopeless(calls);
      if (calls.empty()) return;
      if (shared_.timing->Now() < not_before_) {
        shared_.stop->SleepUntil(std::min(not_before_, EarliestDeadline(calls)));
        continue;
      }
      for (Call& call : calls) call.tried = true;
      const absl::Status status = Try(calls);
      Judge(status);
      if (status.ok() || calls.empty()) return;
      if (MayPass(status)) continue;
      if (calls.size() == 1) {
        Fail(calls[0], calls[0].maybe_committed ? UnknownOutcomeError() : StoreRefusedError());
        return;
      }
      shared_.observer->OnRetry("split");
      break;
    }
    // One bad call must not fail its neighbours.
    for (Call& call : calls) {
      std::vector<Call> one;
      one.push_back(std::move(call));
      RunToEnd(std::move(one));
    }
  }

  // Answers and erases the calls that must not be tried (again).
  void FailHopeless(std::vector<Call>& calls) {
    const absl::Time now = shared_.timing->Now();
    auto hopeless = std::stable_partition(calls.begin(), calls.end(), [this, now](Call& call) {
      if (PendingOf(call)->answered()) return false;
      const std::optional<absl::Status> error = Verdict(call, now);
      if (error.has_value()) Fail(call, call.maybe_committed ? UnknownOutcomeError() : *error);
      return !error.has_value();
    });
    calls.erase(hopeless, calls.end());
  }

  std::optional<absl::Status> Verdict(const Call& call, absl::Time now) const {
    if (shared_.stop->stopped()) return DrainingError();
    if (call.life.over(now)) return DeadlineError();
    // Everyone gets one try, and then as much patience as if the trouble had started on arrival.
    const absl::Time since = std::max(call.life.arrived, trouble_.since());
    if (call.tried && now - since >= shared_.options->retry_window) return StoreUnavailableError();
    return std::nullopt;
  }

  static absl::Time EarliestDeadline(const std::vector<Call>& calls) {
    absl::Time earliest = absl::InfiniteFuture();
    for (const Call& call : calls) earliest = std::min(earliest, call.life.deadline);
    return earliest;
  }

  const Shared shared_;
  const Bounds batch_;
  const std::shared_ptr<Lane<Call>> lane_;
  Queue& queue_;  // the lane's
  InFlight in_flight_;
  std::atomic<bool> healthy_{true};
  // Of the thread.
  bool has_turn_ = false;
  Trouble trouble_;
  absl::Time not_before_ = absl::InfinitePast();
  std::thread thread_;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_WORKER_H_
