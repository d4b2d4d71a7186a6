// The embedded store: one SQLite file, one process, no server to set up.
//
// Durable like the others (write-ahead log, synced at every commit). Its database clock is the
// process's own clock, judged nowhere else. Writers take turns within the process, first come first
// served; readers are not held up by them.
#ifndef ONCE_STORE_SQLITE_SQLITE_STORE_H_
#define ONCE_STORE_SQLITE_SQLITE_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "store/store.h"

namespace once::store {

struct SqliteOptions {
  // The file; made with mode 0600 where there is none. Its folder has to exist. Beside it live
  // PATH-wal, PATH-shm and PATH.lock.
  std::string path;
  // The database's clock. Must outlive the store.
  const base::Clock* clock = nullptr;
  // How long a transaction waits for other writers before it is ABORTED.
  absl::Duration busy_timeout = absl::Seconds(5);
};

// Takes the file for this process. Statuses beside those of store.h:
//   INVALID_ARGUMENT     the path names no file, or its folder does not exist
//   FAILED_PRECONDITION  another store has it, in this process or another one, or it is no SQLite
//   database UNAVAILABLE          the file cannot be made or opened now (rights, full or read-only
//   disk)
// The schema is not looked at: see Store::Migrate and Store::Check. Blocks on the disk.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const SqliteOptions& options);

}  // namespace once::store

#endif  // ONCE_STORE_SQLITE_SQLITE_STORE_H_
