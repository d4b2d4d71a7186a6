#include "rpc/admin_executor.h"

#include <utility>

#include "base/error.h"

namespace once::rpc {
namespace {

using base::ErrorReason;
using base::MakeError;

// Deadlocks with other servers' calls, and connections that were closed while idle.
constexpr int kAttempts = 5;

absl::Status Draining() { return MakeError(ErrorReason::kDraining, "the server is shutting down"); }

// Whether it is an answer: the store's own errors have no reason.
bool IsOurs(const absl::Status& error) {
  return base::DetailsOf(error).reason != ErrorReason::kInternal;
}

// What a caller is told of an error of the store that stayed.
absl::Status StoreError(const absl::Status& error) {
  if (absl::IsAborted(error) || absl::IsUnavailable(error)) {
    return MakeError(ErrorReason::kStoreUnavailable,
                     "the database cannot be reached or refuses writes; nothing was changed");
  }
  if (absl::IsUnknown(error)) {
    return MakeError(ErrorReason::kOutcomeUnknown,
                     "the connection to the database was lost during COMMIT; look whether the "
                     "change was made before repeating it");
  }
  return error;
}

}  // namespace

AdminExecutor::AdminExecutor(size_t max_queue, store::Store* store, const base::Clock* clock)
    : max_queue_(max_queue), store_(store), clock_(clock), thread_([this] { Loop(); }) {}

AdminExecutor::~AdminExecutor() {
  std::deque<AdminTask> left;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    left.swap(queue_);
    work_.Signal();
  }
  thread_.join();
  for (AdminTask& task : left) {
    std::move(task.done)(Draining());
  }
}

void AdminExecutor::Submit(AdminTask task) {
  absl::Status refused;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) {
      refused = Draining();
    } else if (queue_.size() >= max_queue_) {
      refused = MakeError(ErrorReason::kOverloaded, "too many administrative calls are waiting");
    } else {
      queue_.push_back(std::move(task));
      work_.Signal();
    }
  }
  if (!refused.ok()) {
    std::move(task.done)(refused);
  }
}

void AdminExecutor::Loop() {
  while (true) {
    AdminTask task;
    {
      absl::MutexLock lock(&mutex_);
      while (!stopping_ && queue_.empty()) {
        work_.Wait(&mutex_);
      }
      if (stopping_) {
        return;
      }
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    std::move(task.done)(RunTask(task));
  }
}

absl::Status AdminExecutor::RunTask(AdminTask& task) {
  absl::Status result;
  bool unknown = false;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const bool gone = task.cancellation != nullptr && task.cancellation->cancelled.load();
    if (!unknown && (gone || task.deadline <= clock_->Now())) {
      return MakeError(ErrorReason::kDeadlineExceeded,
                       "the call's deadline passed before its transaction; nothing was written");
    }
    result = TryOnce(task);
    if (IsOurs(result)) {
      return result;
    }
    unknown = unknown || absl::IsUnknown(result);
    const bool again = absl::IsAborted(result) || absl::IsUnavailable(result) ||
                       (absl::IsUnknown(result) && task.repeatable);
    if (!again) {
      break;
    }
  }
  // Once a COMMIT is in doubt, "nothing was changed" is no longer known.
  if (unknown && (absl::IsAborted(result) || absl::IsUnavailable(result))) {
    result = absl::UnknownError("");
  }
  return StoreError(result);
}

absl::Status AdminExecutor::TryOnce(AdminTask& task) {
  if (session_ == nullptr) {
    auto opened = store_->OpenControlSession();
    if (!opened.ok()) {
      return opened.status();
    }
    session_ = *std::move(opened);
  }
  absl::Status result = task.run(*session_);
  if (!session_->usable()) {
    session_.reset();
  }
  return result;
}

}  // namespace once::rpc
