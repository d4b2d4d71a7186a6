#include "store/sqlite/writer_turn.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace once::store::sqlite {

absl::Status WriterTurn::Take(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  absl::MutexLock lock(&mutex_);
  const uint64_t ticket = ++last_ticket_;
  waiting_.push_back(ticket);
  while (taken_ || waiting_.front() != ticket) {
    const bool late = changed_.WaitWithDeadline(&mutex_, deadline);
    if (late && (taken_ || waiting_.front() != ticket)) {
      waiting_.erase(std::find(waiting_.begin(), waiting_.end(), ticket));
      changed_.SignalAll();  // the next one may be at the front now
      return absl::AbortedError("sqlite: other transactions took too long");
    }
  }
  waiting_.pop_front();
  taken_ = true;
  return absl::OkStatus();
}

void WriterTurn::Give() {
  absl::MutexLock lock(&mutex_);
  taken_ = false;
  changed_.SignalAll();
}

}  // namespace once::store::sqlite
