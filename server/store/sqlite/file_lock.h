// Keeps a second server away from a file.
#ifndef ONCE_STORE_SQLITE_FILE_LOCK_H_
#define ONCE_STORE_SQLITE_FILE_LOCK_H_

#include <string>

#include "absl/status/statusor.h"

namespace once::store::sqlite {

// Holds PATH.lock exclusively while it lives; the kernel ends the hold with the process, however
// that ends. The file stays: removing it would let two processes hold two files of one name. A lock
// of its own, as closing a second descriptor of the database's file would drop SQLite's locks.
// Movable.
class FileLock {
 public:
  // FAILED_PRECONDITION where another one holds it, UNAVAILABLE where the file cannot be made. Does
  // not wait.
  static absl::StatusOr<FileLock> Take(const std::string& path);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace once::store::sqlite

#endif  // ONCE_STORE_SQLITE_FILE_LOCK_H_
