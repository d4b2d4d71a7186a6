#include "store/sqlite/connection.h"

#include <sqlite3.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "store/sqlite/errors.h"

namespace once::store::sqlite {
namespace {

// synchronous=FULL: a commit that was reported is on the disk. The rest keeps surprises out: no
// temporary files, no functions called from the schema, damaged pages found when read.
constexpr char kSettings[] =
    "PRAGMA synchronous=FULL;"
    "PRAGMA foreign_keys=OFF;"
    "PRAGMA temp_store=MEMORY;"
    "PRAGMA trusted_schema=OFF;"
    "PRAGMA cell_size_check=ON;"
    "PRAGMA cache_size=-16384;"            // KiB
    "PRAGMA journal_size_limit=67108864";  // bytes that the log keeps after a checkpoint

}  // namespace

// ---- Statement ----

void Statement::Finalizer::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Statement::Statement(sqlite3* database, sqlite3_stmt* statement)
    : database_(database), statement_(statement) {}

void Statement::Note(int code) {
  if (code != SQLITE_OK && bind_error_ == SQLITE_OK) {
    bind_error_ = code;
  }
}

void Statement::BindInt(int parameter, int64_t value) {
  Note(sqlite3_bind_int64(statement_.get(), parameter, value));
}

void Statement::BindBlob(int parameter, absl::string_view bytes) {
  // A null pointer would bind NULL.
  const char* data = bytes.data() == nullptr ? "" : bytes.data();
  Note(sqlite3_bind_blob64(statement_.get(), parameter, data, bytes.size(), SQLITE_STATIC));
}

void Statement::BindOptionalBlob(int parameter, absl::string_view bytes) {
  if (bytes.empty()) {
    BindNull(parameter);
  } else {
    BindBlob(parameter, bytes);
  }
}

void Statement::BindNull(int parameter) { Note(sqlite3_bind_null(statement_.get(), parameter)); }

absl::StatusOr<bool> Statement::Step() {
  const int code = bind_error_ == SQLITE_OK ? sqlite3_step(statement_.get()) : bind_error_;
  if (code == SQLITE_ROW) {
    return true;
  }
  if (code == SQLITE_DONE) {
    Reset();
    return false;
  }
  absl::Status status =
      ErrorStatus(database_, code, During::kStatement, sqlite3_sql(statement_.get()));
  Reset();
  return status;
}

absl::StatusOr<int> Statement::Run() {
  for (;;) {
    absl::StatusOr<bool> row = Step();
    if (!row.ok()) return row.status();
    if (!*row) return sqlite3_changes(database_);
  }
}

void Statement::Reset() {
  sqlite3_reset(statement_.get());  // tells the error of the last step again
  sqlite3_clear_bindings(statement_.get());
  bind_error_ = SQLITE_OK;
}

int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_.get(), column); }

std::string Statement::Blob(int column) const {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return data == nullptr ? std::string()
                         : std::string(static_cast<const char*>(data), static_cast<size_t>(size));
}

bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

bool Statement::CopyBytes(int column, uint8_t* to, size_t size) const {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  if (data == nullptr || sqlite3_column_bytes(statement_.get(), column) != static_cast<int>(size)) {
    return false;
  }
  std::memcpy(to, data, size);
  return true;
}

// ---- Connection ----

void Connection::Closer::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

absl::StatusOr<Connection> Connection::Open(const std::string& path, absl::Duration busy_timeout) {
  sqlite3* database = nullptr;
  // One thread at a time uses a connection, so SQLite's own mutex would protect nothing.
  const int code =
      sqlite3_open_v2(path.c_str(), &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  Connection connection;
  connection.database_.reset(database);
  if (code != SQLITE_OK) {
    return ErrorStatus(database, code, During::kStatement, absl::StrCat("open ", path));
  }
  sqlite3_busy_timeout(database, static_cast<int>(absl::ToInt64Milliseconds(busy_timeout)));
  if (absl::Status status = connection.Execute(kSettings); !status.ok()) return status;
  absl::StatusOr<std::string> mode = connection.Text("PRAGMA journal_mode=WAL");
  if (!mode.ok()) return mode.status();
  if (*mode != "wal") {
    return absl::FailedPreconditionError(
        absl::StrCat("sqlite: ", path, " cannot have a write-ahead log (journal mode is ", *mode,
                     "): is it on a network file system?"));
  }
  absl::StatusOr<std::string> synchronous = connection.Text("PRAGMA synchronous");
  if (!synchronous.ok()) return synchronous.status();
  if (*synchronous != "2") {
    return absl::FailedPreconditionError(
        absl::StrCat("sqlite: synchronous is ", *synchronous, " instead of 2 (FULL)"));
  }
  return connection;
}

absl::StatusOr<Statement> Connection::Prepare(absl::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(database_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) {
    return ErrorStatus(database_.get(), code, During::kStatement, sql);
  }
  return Statement(database_.get(), statement);
}

absl::Status Connection::Execute(const char* sql) {
  const int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus()
                           : ErrorStatus(database_.get(), code, During::kStatement, sql);
}

absl::Status Connection::Commit() {
  const int code = sqlite3_exec(database_.get(), "COMMIT", nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus()
                           : ErrorStatus(database_.get(), code, During::kCommit, "COMMIT");
}

bool Connection::InTransaction() const { return sqlite3_get_autocommit(database_.get()) == 0; }

absl::StatusOr<std::string> Connection::Text(const char* sql) {
  absl::StatusOr<Statement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  absl::StatusOr<bool> row = statement->Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::InternalError(absl::StrCat("sqlite: no answer to ", sql));
  return statement->Blob(0);
}

}  // namespace once::store::sqlite
