// A clock that stands still until a test moves it, and threads that wait for it.
#ifndef ONCE_TESTS_UNIT_PIPELINE_MANUAL_TIMING_H_
#define ONCE_TESTS_UNIT_PIPELINE_MANUAL_TIMING_H_

#include <algorithm>
#include <cstddef>
#include <list>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "pipeline/timing.h"

namespace once::pipeline {

// Thread-safe. Also serves a MemoryStore as its database's clock.
class ManualTiming final : public Timing {
 public:
  absl::Time Now() const override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }

  void WaitUntil(absl::Mutex* mutex, absl::CondVar* condition,
                 absl::Time until) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::list<Sleeper>::iterator self;
    {
      absl::MutexLock lock(&mutex_);
      if (now_ >= until) return;
      self = sleepers_.insert(sleepers_.end(), Sleeper{mutex, condition, until});
      slept_.SignalAll();
    }
    // An Advance in between takes `mutex` before it signals, so it cannot come too early.
    condition->Wait(mutex);
    absl::MutexLock lock(&mutex_);
    sleepers_.erase(self);
  }

  void Advance(absl::Duration by) {
    absl::Time to;
    {
      absl::MutexLock lock(&mutex_);
      to = now_ + by;
    }
    MoveTo(to);
  }

  // Moves to the time that the next sleeper waits for, once all of `threads` sleep (those that hang
  // elsewhere are given up after a moment). False where nobody waits for a time.
  bool Step(size_t threads) {
    absl::Time to = absl::InfiniteFuture();
    {
      absl::MutexLock lock(&mutex_);
      const absl::Time give_up = absl::Now() + absl::Milliseconds(20);
      // Twice in a row, because a thread that was just signalled still looks asleep.
      for (int calm = 0; calm < 2; ++calm) {
        while (sleepers_.size() < threads && absl::Now() < give_up) {
          slept_.WaitWithDeadline(&mutex_, give_up);
          calm = 0;
        }
        changed_.WaitWithTimeout(&mutex_, absl::Microseconds(100));
      }
      to = Next();
    }
    if (to == absl::InfiniteFuture()) return false;
    MoveTo(to);
    return true;
  }

 private:
  struct Sleeper {
    absl::Mutex* mutex;
    absl::CondVar* condition;
    absl::Time until;
  };

  absl::Time Next() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    absl::Time next = absl::InfiniteFuture();
    for (const Sleeper& sleeper : sleepers_) next = std::min(next, sleeper.until);
    return next;
  }

  void MoveTo(absl::Time to) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::vector<Sleeper> due;
    {
      absl::MutexLock lock(&mutex_);
      now_ = std::max(now_, to);
      for (const Sleeper& sleeper : sleepers_) {
        if (sleeper.until <= now_) due.push_back(sleeper);
      }
    }
    for (const Sleeper& sleeper : due) {
      absl::MutexLock lock(sleeper.mutex);
      sleeper.condition->SignalAll();
    }
  }

  mutable absl::Mutex mutex_;
  absl::CondVar slept_;
  absl::CondVar changed_;  // never signalled: a pause without the lock
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::FromUnixSeconds(1'700'000'000);
  std::list<Sleeper> sleepers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace once::pipeline

#endif  // ONCE_TESTS_UNIT_PIPELINE_MANUAL_TIMING_H_
