// Whose turn it is to write. SQLite lets one transaction write at a time, and whoever finds the
// file busy sleeps and tries again; under steady load such a sleeper (a control call beside a busy
// committer) may never find the gap. A queue is fair.
//
// Thread-safety: all functions may be called from any thread. Take blocks.
#ifndef ONCE_STORE_SQLITE_WRITER_TURN_H_
#define ONCE_STORE_SQLITE_WRITER_TURN_H_

#include <cstdint>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace once::store::sqlite {

class WriterTurn {
 public:
  // Waits for the turn; ABORTED after `timeout`. Who got it gives it back, once, from any thread.
  absl::Status Take(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);
  void Give() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  absl::CondVar changed_;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<uint64_t> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace once::store::sqlite

#endif  // ONCE_STORE_SQLITE_WRITER_TURN_H_
