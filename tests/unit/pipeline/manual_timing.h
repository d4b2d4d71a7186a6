// A clock that stands still until a test moves it, and threads that wait for it.
#ifndef ONCE_TESTS_UNIT_PIPELINE_MANUAL_TIMING_H_
#define ONCE_TESTS_UNIT_PIPELINE_MANUAL_TIMING_H_

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>
#include <string>
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

  // Moves to the time that the next sleeper waits for, once no thread has anything left to do.
  // False where nobody waits for a time.
  bool Step() {
    // Twice in a row: a thread may sleep for a moment to get a lock.
    for (int calm = 0; calm < 2; ++calm) {
      while (!OthersSleep()) calm = 0;
      absl::SleepFor(absl::Microseconds(50));
    }
    absl::Time to;
    {
      absl::MutexLock lock(&mutex_);
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

  // Whether every other thread of this process is blocked. One that was just woken counts as
  // running before it gets a processor, which is what makes this exact where the sleepers alone are
  // not: they look asleep until they run.
  static bool OthersSleep() {
    namespace fs = std::filesystem;
    const std::string self = std::to_string(gettid());
    for (const fs::directory_entry& task : fs::directory_iterator("/proc/self/task")) {
      if (task.path().filename() == self) continue;
      std::ifstream file(task.path() / "stat");
      const std::string stat{std::istreambuf_iterator<char>(file), {}};
      const size_t name_end = stat.rfind(')');  // "tid (name) state …"
      if (name_end != std::string::npos && stat.compare(name_end, 3, ") S") != 0) return false;
    }
    return true;
  }

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
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::FromUnixSeconds(1'700'000'000);
  std::list<Sleeper> sleepers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace once::pipeline

#endif  // ONCE_TESTS_UNIT_PIPELINE_MANUAL_TIMING_H_
