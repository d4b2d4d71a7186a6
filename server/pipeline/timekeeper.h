// The thread that ends what has lasted too long: queued calls past their deadline, waits that are
// over. It never touches the database, so that it is on time while everyone else hangs there.
#ifndef ONCE_PIPELINE_TIMEKEEPER_H_
#define ONCE_PIPELINE_TIMEKEEPER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "pipeline/timing.h"

namespace once::pipeline {

class Timekeeper {
 public:
  // Both functions must not block. `next` gives the time of the next thing to end, `end` ends what
  // is due.
  struct Duty {
    std::function<absl::Time()> next;
    std::function<void(absl::Time now)> end;
  };

  explicit Timekeeper(Timing* timing) : timing_(timing) {}
  ~Timekeeper() { Stop(); }

  void Start(std::vector<Duty> duties);

  // Something new ends at `when`. Cheap where an earlier end is known; may be called from any
  // thread, also before Start.
  void Nudge(absl::Time when) ABSL_LOCKS_EXCLUDED(mutex_);

  // Joins the thread.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the next end; false when stopped.
  bool WaitForEnd() ABSL_LOCKS_EXCLUDED(mutex_);

  Timing* const timing_;
  std::vector<Duty> duties_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  // Written with the lock held; read without it to skip the lock.
  std::atomic<int64_t> next_micros_{std::numeric_limits<int64_t>::max()};
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_TIMEKEEPER_H_
