// The database's clock of an SQLite file, and the fences that it gives.
//
// Thread-safety: all functions may be called from any thread; they do not block.
#ifndef ONCE_STORE_SQLITE_DATABASE_CLOCK_H_
#define ONCE_STORE_SQLITE_DATABASE_CLOCK_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "core/types.h"

namespace once::store::sqlite {

class DatabaseClock {
 public:
  explicit DatabaseClock(const base::Clock* clock) : clock_(clock) {}

  // Stands still where the clock went back a little (it was adjusted); follows it where it was set
  // back by more, since leases would not end until it came up again.
  core::DbTime Now() ABSL_LOCKS_EXCLUDED(mutex_);

  // The fence of a fresh row: the time, but above all fences of rows that were deleted, whatever
  // the clock did since.
  core::Fence FreshFence(core::DbTime now) ABSL_LOCKS_EXCLUDED(mutex_);
  void RaiseFenceFloor(core::Fence deleted) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const base::Clock* const clock_;
  absl::Mutex mutex_;
  core::DbTime last_ ABSL_GUARDED_BY(mutex_);
  core::Fence floor_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace once::store::sqlite

#endif  // ONCE_STORE_SQLITE_DATABASE_CLOCK_H_
