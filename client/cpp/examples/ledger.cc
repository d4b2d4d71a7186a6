#include "ledger.h"

#include "absl/strings/str_cat.h"

namespace {

constexpr char kSchema[] = R"sql(
  CREATE TABLE IF NOT EXISTS account (
    name    TEXT PRIMARY KEY,
    points  INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS once_effect (
    handler   TEXT NOT NULL,
    event_id  BLOB NOT NULL,
    fence     INTEGER NOT NULL,
    result    BLOB,
    PRIMARY KEY (handler, event_id)
  ) STRICT;
)sql";

// Finalises itself.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql) {
    sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // A statement that could not be prepared is null; sqlite3 answers SQLITE_MISUSE for it below.
  Statement& Text(int at, const std::string& text) {
    sqlite3_bind_text(statement_, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& Blob(int at, const std::string& bytes) {
    sqlite3_bind_blob(statement_, at, bytes.data(), static_cast<int>(bytes.size()),
                      SQLITE_TRANSIENT);
    return *this;
  }
  Statement& Number(int at, int64_t number) {
    sqlite3_bind_int64(statement_, at, number);
    return *this;
  }
  int Step() { return sqlite3_step(statement_); }
  int64_t NumberAt(int column) { return sqlite3_column_int64(statement_, column); }
  std::string BlobAt(int column) {
    const void* bytes = sqlite3_column_blob(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return bytes == nullptr ? std::string()
                            : std::string(static_cast<const char*>(bytes),
                                          static_cast<std::string::size_type>(size));
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Ledger>> Ledger::Open(const std::string& file) {
  sqlite3* database = nullptr;
  const int opened = sqlite3_open(file.c_str(), &database);
  std::unique_ptr<Ledger> ledger(new Ledger(database));
  if (opened != SQLITE_OK) return ledger->Error("open");
  sqlite3_busy_timeout(database, 10000);
  // As durable as Once's own word: the effect must not be forgotten once the receipt is stored.
  if (auto status = ledger->Execute("PRAGMA synchronous=FULL"); !status.ok()) return status;
  if (auto status = ledger->Execute(kSchema); !status.ok()) return status;
  return ledger;
}

Ledger::~Ledger() { sqlite3_close(database_); }

absl::StatusOr<std::optional<std::string>> Ledger::FindEffect(const once::OperationId& operation) {
  Statement select(database_, "SELECT result FROM once_effect WHERE handler = ? AND event_id = ?");
  const int step = select.Text(1, operation.handler).Blob(2, operation.event_id).Step();
  if (step == SQLITE_DONE) return std::optional<std::string>();
  if (step != SQLITE_ROW) return Error("read the effect");
  return std::optional<std::string>(select.BlobAt(0));
}

absl::StatusOr<std::string> Ledger::Book(const once::OperationId& operation, once::Fence fence,
                                         const std::string& account, int64_t points) {
  if (auto status = Execute("BEGIN IMMEDIATE"); !status.ok()) return status;
  const auto book = [&]() -> absl::StatusOr<std::string> {
    if (auto status = InsertEffect(operation, fence); !status.ok()) return status;
    auto balance = AddPoints(account, points);
    if (!balance.ok()) return balance;
    if (auto status = SetResult(operation, *balance); !status.ok()) return status;
    if (auto status = Execute("COMMIT"); !status.ok()) return status;
    return balance;
  };
  auto balance = book();
  if (!balance.ok()) Execute("ROLLBACK").IgnoreError();
  return balance;
}

// First in the transaction: the unique key decides before anything is booked.
absl::Status Ledger::InsertEffect(const once::OperationId& operation, once::Fence fence) {
  Statement insert(database_,
                   "INSERT INTO once_effect (handler, event_id, fence) VALUES (?, ?, ?)");
  const int step =
      insert.Text(1, operation.handler).Blob(2, operation.event_id).Number(3, fence.value).Step();
  if (step == SQLITE_DONE) return absl::OkStatus();
  if (sqlite3_extended_errcode(database_) == SQLITE_CONSTRAINT_PRIMARYKEY) {
    return absl::AlreadyExistsError("the effect of this operation happened before");
  }
  return Error("write the effect");
}

absl::StatusOr<std::string> Ledger::AddPoints(const std::string& account, int64_t points) {
  Statement upsert(database_,
                   "INSERT INTO account (name, points) VALUES (?, ?) "
                   "ON CONFLICT (name) DO UPDATE SET points = points + excluded.points "
                   "RETURNING points");
  if (upsert.Text(1, account).Number(2, points).Step() != SQLITE_ROW) return Error("book");
  const int64_t balance = upsert.NumberAt(0);
  if (upsert.Step() != SQLITE_DONE) return Error("book");
  return absl::StrCat(balance);
}

absl::Status Ledger::SetResult(const once::OperationId& operation, const std::string& result) {
  Statement update(database_,
                   "UPDATE once_effect SET result = ? WHERE handler = ? AND event_id = ?");
  const int step =
      update.Blob(1, result).Text(2, operation.handler).Blob(3, operation.event_id).Step();
  return step == SQLITE_DONE ? absl::OkStatus() : Error("write the result");
}

absl::Status Ledger::Execute(const char* sql) {
  return sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) == SQLITE_OK ? absl::OkStatus()
                                                                              : Error(sql);
}

absl::Status Ledger::Error(const char* what) const {
  return absl::InternalError(absl::StrCat("ledger: ", what, ": ", sqlite3_errmsg(database_)));
}
