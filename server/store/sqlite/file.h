// What all sessions of one file share.
#ifndef ONCE_STORE_SQLITE_FILE_H_
#define ONCE_STORE_SQLITE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/database_clock.h"
#include "store/sqlite/writer_turn.h"

namespace once::store::sqlite {

// Thread-safe; lives as long as the store.
struct File {
  std::string path;
  absl::Duration busy_timeout;
  DatabaseClock clock;
  WriterTurn turn;
};

// A connection to the file, its schema checked.
absl::StatusOr<Connection> Connect(const File& file);

// A transaction that writes: has the writers' turn from Begin to its end. Ends by Commit, Rollback
// or its destructor (rollback). Used by one thread at a time; must not outlive connection and file.
class WriteTransaction {
 public:
  WriteTransaction(File* file, Connection* connection) : file_(file), connection_(connection) {}
  ~WriteTransaction() { (void)Rollback(); }
  WriteTransaction(const WriteTransaction&) = delete;
  WriteTransaction& operator=(const WriteTransaction&) = delete;

  // Blocks up to the busy timeout, then ABORTED.
  absl::Status Begin();
  // After an error the transaction is over as well; see store.h for what each status says about it.
  absl::Status Commit();
  // An error says that the connection cannot be used any more. OK where nothing is open.
  absl::Status Rollback();
  bool open() const { return open_; }

 private:
  File* const file_;
  Connection* const connection_;
  bool open_ = false;
};

}  // namespace once::store::sqlite

#endif  // ONCE_STORE_SQLITE_FILE_H_
