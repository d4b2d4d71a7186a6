// The SQL of the claim path, one function per statement. Names as in schema.cc.
//
// A function that takes rows gives as many statements as are needed to keep each near `limit`
// bytes, with the rows in order. One row may exceed the limit: whoever sends it compares with what
// the server takes.
//
// Every access is by the full primary key with FORCE INDEX (PRIMARY): left to itself the optimizer
// scans small tables, and a guarded UPDATE would then lock them whole.
//
// Thread-safe: functions of values.
#ifndef ONCE_STORE_MYSQL_STATEMENTS_H_
#define ONCE_STORE_MYSQL_STATEMENTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/operation.h"
#include "core/types.h"
#include "store/mysql/connection.h"
#include "store/mysql/sql_builder.h"
#include "store/store.h"

namespace once::store::mysql {

struct RowStatement {
  std::string sql;
  // For the "?" of `sql`, where values are bound. They point into the rows that were given.
  std::vector<BoundValue> values{};
  size_t rows = 0;

  // What it takes on the wire, nearly.
  size_t bytes() const;
};

// Whether the values of an INSERT are part of its text, or bound to a prepared statement where it
// has more than a few rows: MariaDB then needs a third less time for it.
enum class Values : uint8_t { kInText, kBound };

// Inserts rows or counts the deliveries of those that exist, locking both. `returning` (MariaDB
// only): gives the rows back as SelectOperations would.
std::vector<RowStatement> InsertOperations(absl::Span<const NewOperation> rows, bool returning,
                                           Values values, size_t limit);

// Reads rows with the database's clock; see ReadOperation.
std::vector<RowStatement> SelectOperations(absl::Span<const core::OperationKey* const> keys,
                                           size_t limit);

// What each read tells besides rows.
struct ServerMoment {
  core::DbTime now;
  bool read_only = false;
};

struct SelectedOperation {
  ServerMoment moment;
  core::OperationKey key;
  core::OperationRow row;
};
SelectedOperation ReadOperation(RowReader& reader);

// The columns that a guarded change writes.
enum class ChangedColumns : uint8_t {
  kClaim,       // RowChange::Kind::kClaim
  kLease,       // RowChange::Kind::kLease
  kCompletion,  // RowChange::Kind::kCompletion; not the large body
  kReset,       // RowChange::Kind::kReset; not the past receipt
  kFreshTimes,  // all times of a row that this transaction inserted, and its fence
};
std::vector<RowStatement> UpdateOperations(ChangedColumns columns,
                                           absl::Span<const RowChange* const> changes,
                                           size_t limit);

std::vector<RowStatement> DeleteOperations(absl::Span<const RowChange* const> changes,
                                           size_t limit);

// Large bodies of completions. One that is there already belongs to an operation that is gone, and
// is overwritten.
std::vector<RowStatement> InsertBodies(absl::Span<const RowChange* const> completions,
                                       size_t limit);

// Columns: tenant_id, handler_id, event_id, body.
std::vector<RowStatement> SelectBodies(absl::Span<const core::OperationKey* const> keys,
                                       size_t limit);

// Keeps the receipt of an operation, whose row is still as it was, among the past ones; then its
// large body goes.
std::string InsertPastReceipt(const RowChange& reset);
std::string DeleteBody(const core::OperationKey& key);

// `repeated`: entries that exist are left as they are.
std::vector<RowStatement> InsertAttempts(absl::Span<const AttemptEntry> entries, bool repeated,
                                         Values values, size_t limit);

std::string InsertAudit(const AuditRow& row);

// For reads that found no row.
std::string SelectNow();
ServerMoment ReadNow(RowReader& reader);

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_STATEMENTS_H_
