#include "rpc/open_calls.h"

namespace once::rpc {

bool OpenCalls::Enter() {
  absl::MutexLock lock(&mutex_);
  if (closed_) return false;
  ++open_;
  return true;
}

void OpenCalls::Leave() {
  absl::MutexLock lock(&mutex_);
  if (--open_ == 0 && closed_) none_.SignalAll();
}

void OpenCalls::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

void OpenCalls::WaitUntilNone(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  while (open_ > 0 && !none_.WaitWithDeadline(&mutex_, deadline)) {
  }
}

}  // namespace once::rpc
