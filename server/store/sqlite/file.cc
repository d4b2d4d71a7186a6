#include "store/sqlite/file.h"

#include "store/sqlite/schema.h"

namespace once::store::sqlite {

absl::StatusOr<Connection> Connect(const File& file) {
  absl::StatusOr<Connection> connection = Connection::Open(file.path, file.busy_timeout);
  if (!connection.ok()) return connection.status();
  if (absl::Status status = CheckSchema(*connection); !status.ok()) return status;
  return connection;
}

absl::Status WriteTransaction::Begin() {
  if (open_) {
    return absl::InternalError("sqlite: a transaction is open already");
  }
  if (absl::Status status = file_->turn.Take(file_->busy_timeout); !status.ok()) return status;
  absl::Status status = connection_->Execute("BEGIN IMMEDIATE");
  if (!status.ok()) {
    file_->turn.Give();
    return status;
  }
  open_ = true;
  return absl::OkStatus();
}

absl::Status WriteTransaction::Commit() {
  if (!open_) {
    return absl::InternalError("sqlite: no transaction is open");
  }
  absl::Status status = connection_->Commit();
  if (status.ok()) {
    open_ = false;
    file_->turn.Give();
    return status;
  }
  // Where it is still open nothing was committed, and it is not to be committed by chance later.
  if (!Rollback().ok()) {
    return absl::UnknownError(status.message());
  }
  return status;
}

absl::Status WriteTransaction::Rollback() {
  if (!open_) {
    return absl::OkStatus();
  }
  absl::Status status;
  if (connection_->InTransaction()) {  // SQLite ends it by itself after some errors
    status = connection_->Execute("ROLLBACK");
  }
  open_ = false;
  file_->turn.Give();
  return status;
}

}  // namespace once::store::sqlite
