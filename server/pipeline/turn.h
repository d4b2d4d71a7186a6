// Whose turn it is among the threads that share a queue.
#ifndef ONCE_PIPELINE_TURN_H_
#define ONCE_PIPELINE_TURN_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "pipeline/timing.h"

namespace once::pipeline {

// Thread-safe.
class Turn {
 public:
  explicit Turn(Timing* timing) : timing_(timing) {}

  // Blocks until nobody else has it; false at `until`.
  bool Take(absl::Time until) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (taken_) {
      if (timing_->Now() >= until) return false;
      timing_->WaitUntil(&mutex_, &given_, until);
    }
    return taken_ = true;
  }
  void Give() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    taken_ = false;
    given_.Signal();
  }

  // How long a transaction worked until its COMMIT, and how long that took.
  void Learn(absl::Duration work, absl::Duration commit) ABSL_LOCKS_EXCLUDED(mutex_) {
    constexpr int kMemory = 8;  // transactions, about
    absl::MutexLock lock(&mutex_);
    work_ += (work - work_) / kMemory;
    commit_ += (commit - commit_) / kMemory;
  }
  // Lately a COMMIT took more than half as long as the work before it. Measured: below that,
  // transactions that overlap gain less than larger ones (docs/adr/0009).
  bool commits_are_slow() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return 2 * commit_ > work_;
  }

 private:
  Timing* const timing_;
  mutable absl::Mutex mutex_;
  absl::CondVar given_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration work_ ABSL_GUARDED_BY(mutex_);
  absl::Duration commit_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_TURN_H_
