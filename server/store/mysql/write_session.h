// Transactions of the claim path on one connection. Blocking; one thread at a time.
#ifndef ONCE_STORE_MYSQL_WRITE_SESSION_H_
#define ONCE_STORE_MYSQL_WRITE_SESSION_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "store/mysql/session.h"
#include "store/mysql/statements.h"
#include "store/store.h"

namespace once::store::mysql {

class MysqlWriteSession final : public WriteSession {
 public:
  // `opener` must outlive the session.
  MysqlWriteSession(const SessionOpener& opener, Session session)
      : opener_(opener), session_(std::move(session)) {}

  absl::StatusOr<std::vector<core::AggregateRow>> LockAggregates(
      absl::Span<const core::AggregateKey> keys) override;
  absl::StatusOr<RowSet> TouchAndRead(absl::Span<const NewOperation> inserts,
                                      absl::Span<const core::OperationKey> others) override;
  absl::StatusOr<std::vector<std::optional<core::OperationRow>>> ReadAlso(
      absl::Span<const core::OperationKey> keys) override;
  absl::Status Write(const WriteSet& writes) override;
  absl::Status Commit() override;
  void Rollback() override;
  // Also false where the server is about to close the connection for having been idle.
  bool usable() const override;

 private:
  absl::Status Start();
  absl::Status WriteAggregates(const std::vector<AggregateChange>& changes);
  // MySQL gains nothing by prepared statements.
  Values Form() const;
  // A statement that does not fit into a packet would cost the connection.
  absl::Status CheckFits(const RowStatement& statement) const;
  // Runs all statements; the sum of their affected rows.
  absl::StatusOr<uint64_t> RunAll(const std::vector<RowStatement>& statements);
  // ABORTED unless each of `expected` rows was there and its guard held.
  absl::Status RunGuarded(const std::vector<RowStatement>& statements, size_t expected);
  // Inserts or counts. Reads the rows at once where the server can (MariaDB), in place of a SELECT.
  absl::Status Touch(absl::Span<const NewOperation> inserts, RowSet& rows);
  // Reads the rows that `rows` does not have yet, and the time.
  absl::Status ReadRows(absl::Span<const NewOperation> inserts,
                        absl::Span<const core::OperationKey> others, RowSet& rows);
  absl::Status ReadInto(const RowStatement& statement, absl::Span<const NewOperation> inserts,
                        absl::Span<const core::OperationKey> others, RowSet& rows);
  absl::Status RestampFreshRows(absl::Span<const NewOperation> inserts, RowSet& rows);
  absl::Status WriteChanges(const std::vector<RowChange>& changes);

  const SessionOpener& opener_;
  Session session_;
  bool in_transaction_ = false;
  bool has_locked_aggregates_ = false;  // and TouchAndRead has still to come
};

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_WRITE_SESSION_H_
