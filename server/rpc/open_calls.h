// Counts the calls under way, so that a shutdown knows when the last one was answered.
//
// Thread-safe. Only WaitUntilNone blocks.
#ifndef ONCE_RPC_OPEN_CALLS_H_
#define ONCE_RPC_OPEN_CALLS_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace once::rpc {

class OpenCalls {
 public:
  // False once closed. Otherwise Leave has to follow.
  bool Enter() ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

  // Nobody enters any more. Repeatable.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // After Close. Returns when all have left, or at `deadline`.
  void WaitUntilNone(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  absl::CondVar none_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace once::rpc

#endif  // ONCE_RPC_OPEN_CALLS_H_
