// The SQL of the claim path, one function per statement, with the binding of its values and the
// reading of its columns.
//
// Thread-safety: as the connection's.
#ifndef ONCE_STORE_SQLITE_STATEMENTS_H_
#define ONCE_STORE_SQLITE_STATEMENTS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/operation.h"
#include "core/order.h"
#include "core/types.h"
#include "store/sqlite/connection.h"
#include "store/store.h"

namespace once::store::sqlite {

// What reads and writes need.
class ReadStatements {
 public:
  static absl::StatusOr<ReadStatements> Prepare(Connection& connection);

  // Unset where there is no row. A large result stays unset.
  absl::StatusOr<std::optional<core::OperationRow>> SelectOperation(const core::OperationKey& key);
  absl::StatusOr<std::optional<std::string>> SelectBody(const core::OperationKey& key);

 private:
  Statement select_operation_;
  Statement select_body_;
};

// What the transactions of the claim path need besides. The caller has a transaction open.
class WriteStatements {
 public:
  static absl::StatusOr<WriteStatements> Prepare(Connection& connection);

  // Inserts the row with the given times and fence, or counts its deliveries where the key exists;
  // the row as it is then.
  absl::StatusOr<core::OperationRow> InsertOrCount(const NewOperation& insert, core::DbTime now,
                                                   core::Fence fence);
  // ABORTED where the guard does not hold.
  absl::Status Apply(const RowChange& change, core::DbTime now);
  absl::Status InsertAttempt(const AttemptEntry& entry, core::DbTime now, bool repeated);

  // Makes the aggregate where there is none; its row.
  absl::StatusOr<core::AggregateRow> TouchAggregate(const core::AggregateKey& key,
                                                    core::DbTime now);
  absl::Status UpdateAggregate(const AggregateChange& change);

 private:
  absl::Status UpdateClaim(const RowChange& change);
  absl::Status UpdateLease(const RowChange& change);
  absl::Status UpdateCompletion(const RowChange& change);
  absl::Status InsertBody(const core::OperationKey& key, const std::string& body);
  absl::Status Delete(const RowChange& change);
  absl::Status Reset(const RowChange& change, core::DbTime now);

  Statement insert_or_count_;
  Statement update_claim_;
  Statement update_lease_;
  Statement update_completion_;
  Statement insert_body_;
  Statement delete_operation_;
  Statement delete_body_;
  Statement insert_past_receipt_;
  Statement reset_operation_;
  Statement raise_fence_floor_;
  Statement insert_attempt_;
  Statement insert_attempt_again_;
  Statement touch_aggregate_;
  Statement update_aggregate_;
};

absl::Status InsertAudit(Connection& connection, const AuditRow& row, core::DbTime now);

// The greatest fence of deleted operations, as the file knows it.
absl::StatusOr<core::Fence> SelectFenceFloor(Connection& connection);

}  // namespace once::store::sqlite

#endif  // ONCE_STORE_SQLITE_STATEMENTS_H_
