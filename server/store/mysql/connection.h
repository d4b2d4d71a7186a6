// One connection to a database server, and the guard around the connector: no exception gets out,
// every error is classified (errors.h), and after an error that leaves the connection in doubt no
// further statement is sent.
//
// Thread-safety: one thread at a time; any thread. All functions that send something block for at
// most the timeouts of the options. There is no reconnect: the driver's gives a session without its
// settings.
#ifndef ONCE_STORE_MYSQL_CONNECTION_H_
#define ONCE_STORE_MYSQL_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "store/mysql/errors.h"
#include "store/mysql/mysql_store.h"
#include "store/mysql/sql_builder.h"

namespace sql {
class Connection;
class ResultSet;
class Statement;
}  // namespace sql

namespace once::store::mysql {

class PreparedStatements;

// Reads the columns of one row from left to right.
class RowReader {
 public:
  explicit RowReader(sql::ResultSet& result) : result_(result) {}

  int64_t Int();
  uint32_t Uint32();
  std::string Bytes();  // empty for NULL
  std::optional<int64_t> OptionalInt();
  std::optional<std::string> OptionalBytes();
  // How many columns the row has.
  uint32_t columns() const;

 private:
  sql::ResultSet& result_;
  uint32_t column_ = 0;
};

// Of a system variable that is a number on one server and a word on the other.
bool IsOn(absl::string_view value);

class Connection {
 public:
  // Connects and logs in; sets nothing but what the connector sets. UNAVAILABLE or
  // FAILED_PRECONDITION.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const MysqlOptions& options,
                                                          const HostPort& host);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Runs one statement that returns no rows. Affected rows: for UPDATE those that matched, changed
  // or not; for INSERT … ON DUPLICATE KEY UPDATE 1 for a new row and 2 for a changed one.
  // With `values` it is prepared, once for each text, and they are bound to its "?".
  absl::StatusOr<uint64_t> Execute(const std::string& sql,
                                   absl::Span<const BoundValue> values = {});

  // Runs one statement that returns rows, and gives each to `on_row`. `values` as above.
  absl::Status Query(const std::string& sql, absl::FunctionRef<void(RowReader&)> on_row,
                     absl::Span<const BoundValue> values = {});

  // False once the server has refused to prepare one statement more: values belong into the text.
  bool prepares() const { return prepares_; }

  // COMMIT as a statement: the connector's commit() drops errors.
  absl::Status Commit();

  // Nothing is sent any more; the server ends what was open.
  void Close();

  // False after an error that leaves the connection in doubt. Nothing is sent any more.
  bool usable() const { return usable_; }
  const HostPort& host() const { return host_; }
  // Since the last statement, by a clock that only counts forward.
  absl::Duration idle() const;

 private:
  Connection(HostPort host, std::unique_ptr<sql::Connection> native);

  absl::Status Guarded(Phase phase, absl::FunctionRef<void()> call);

  const HostPort host_;
  const std::string host_name_;
  std::unique_ptr<sql::Connection> native_;
  std::unique_ptr<sql::Statement> statement_;
  std::unique_ptr<PreparedStatements> prepared_;
  bool prepares_ = true;
  bool usable_ = true;
  int64_t last_used_ns_ = 0;
};

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_CONNECTION_H_
