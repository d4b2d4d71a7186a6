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

 private:
  Timing* const timing_;
  absl::Mutex mutex_;
  absl::CondVar given_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_TURN_H_
