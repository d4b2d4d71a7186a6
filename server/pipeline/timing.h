// How pipeline threads tell the time and wait for it; a parameter, so that tests run on a clock of
// their own.
#ifndef ONCE_PIPELINE_TIMING_H_
#define ONCE_PIPELINE_TIMING_H_

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace once::pipeline {

// Thread-safe. Must outlive whoever waits on it.
class Timing : public base::Clock {
 public:
  // Waits on `condition` until it is signalled or the clock shows `until`; may return early.
  // `mutex` is held before and after.
  virtual void WaitUntil(absl::Mutex* mutex, absl::CondVar* condition, absl::Time until)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
};

// `clock` as it goes by; it must outlive this.
class RealTiming final : public Timing {
 public:
  explicit RealTiming(const base::Clock* clock) : clock_(clock) {}

  absl::Time Now() const override { return clock_->Now(); }
  void WaitUntil(absl::Mutex* mutex, absl::CondVar* condition, absl::Time until) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    condition->WaitWithTimeout(mutex, until - clock_->Now());
  }

 private:
  const base::Clock* const clock_;
};

// Tells all threads to stop retrying. Thread-safe.
class StopSignal {
 public:
  explicit StopSignal(Timing* timing) : timing_(timing) {}

  void Stop() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    stopped_.store(true);
    condition_.SignalAll();
  }
  bool stopped() const { return stopped_.load(); }

  // Returns at `until`, or at once when stopped.
  void SleepUntil(absl::Time until) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (!stopped_.load() && timing_->Now() < until) {
      timing_->WaitUntil(&mutex_, &condition_, until);
    }
  }

 private:
  Timing* const timing_;
  absl::Mutex mutex_;
  absl::CondVar condition_;
  std::atomic<bool> stopped_{false};
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_TIMING_H_
