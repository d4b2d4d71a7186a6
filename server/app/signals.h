// Signals as events: the first SIGTERM or SIGINT asks for a shutdown, the second ends the process
// at once.
#ifndef ONCE_APP_SIGNALS_H_
#define ONCE_APP_SIGNALS_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace once::app {

// Make it before any other thread: it blocks the signals for this thread and those that it starts.
// Also ignores SIGPIPE, which libraries raise by writing to closed connections. One per process.
// Thread-safe.
class ShutdownSignals {
 public:
  ShutdownSignals();
  ShutdownSignals(const ShutdownSignals&) = delete;
  ShutdownSignals& operator=(const ShutdownSignals&) = delete;
  ~ShutdownSignals();

  bool requested() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for the first signal; true when it came, false after `timeout`.
  bool WaitFor(absl::Duration timeout) const ABSL_LOCKS_EXCLUDED(mutex_);

  // From now on the process ends with `exit_code` at `deadline`, whatever hangs; `last_words` is
  // called before.
  void EndAt(absl::Time deadline, int exit_code, std::function<void()> last_words)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();
  // Milliseconds until the deadline of EndAt, -1 where there is none.
  int WaitMilliseconds() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnSignal(int signal) ABSL_LOCKS_EXCLUDED(mutex_);
  void Wake();

  int signal_fd_ = -1;
  int wake_fd_ = -1;
  mutable absl::Mutex mutex_;
  mutable absl::CondVar changed_;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time end_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  int exit_code_ ABSL_GUARDED_BY(mutex_) = 1;
  std::function<void()> last_words_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace once::app

#endif  // ONCE_APP_SIGNALS_H_
