#include "store/sqlite/write_session.h"

#include <utility>

#include "store/sqlite/errors.h"
#include "store/sqlite/statements.h"

namespace once::store::sqlite {
namespace {

// What goes away together when the connection cannot be used any more, so that its locks are gone
// too.
struct Link {
  Link(File* file, Connection c, ReadStatements r, WriteStatements w)
      : connection(std::move(c)),
        reads(std::move(r)),
        writes(std::move(w)),
        transaction(file, &connection) {}

  Connection connection;
  ReadStatements reads;
  WriteStatements writes;
  WriteTransaction transaction;
};

class SqliteWriteSession final : public WriteSession {
 public:
  SqliteWriteSession(File* file, std::unique_ptr<Link> link)
      : file_(file), link_(std::move(link)) {}

  absl::StatusOr<std::vector<core::AggregateRow>> LockAggregates(
      absl::Span<const core::AggregateKey> keys) override {
    if (absl::Status status = Start(); !status.ok()) return status;
    has_locked_aggregates_ = true;
    std::vector<core::AggregateRow> rows;
    for (const core::AggregateKey& key : keys) {
      absl::StatusOr<core::AggregateRow> row = link_->writes.TouchAggregate(key, now_);
      if (!row.ok()) return Fail(row.status());
      rows.push_back(*std::move(row));
    }
    return rows;
  }

  absl::StatusOr<RowSet> TouchAndRead(absl::Span<const NewOperation> inserts,
                                      absl::Span<const core::OperationKey> others) override {
    if (link_ == nullptr) return Lost();
    if (!std::exchange(has_locked_aggregates_, false)) {
      if (absl::Status status = Start(); !status.ok()) return status;
    }
    absl::StatusOr<RowSet> rows = TouchAndReadRows(inserts, others);
    if (!rows.ok()) return Fail(rows.status());
    return rows;
  }

  absl::StatusOr<std::vector<std::optional<core::OperationRow>>> ReadAlso(
      absl::Span<const core::OperationKey> keys) override {
    if (link_ == nullptr) return Lost();
    std::vector<std::optional<core::OperationRow>> rows;
    for (const core::OperationKey& key : keys) {
      absl::StatusOr<std::optional<core::OperationRow>> row = link_->reads.SelectOperation(key);
      if (!row.ok()) return Fail(row.status());
      rows.push_back(*std::move(row));
    }
    return rows;
  }

  absl::Status Write(const WriteSet& writes) override {
    if (link_ == nullptr) return Lost();
    if (!link_->transaction.open()) {
      return absl::InternalError("sqlite: Write without TouchAndRead");
    }
    return Fail(WriteRows(writes));
  }

  absl::Status Commit() override {
    if (link_ == nullptr) return Lost();
    return Fail(link_->transaction.Commit());
  }

  void Rollback() override {
    has_locked_aggregates_ = false;
    if (link_ != nullptr && !link_->transaction.Rollback().ok()) {
      link_.reset();
    }
  }

  bool usable() const override { return link_ != nullptr; }

 private:
  static absl::Status Lost() {
    return absl::UnavailableError("sqlite: the session has ended after an error");
  }

  absl::Status Start() {
    if (link_ == nullptr) return Lost();
    if (absl::Status status = link_->transaction.Begin(); !status.ok()) return Fail(status);
    now_ = file_->clock.Now();
    return absl::OkStatus();
  }

  // Passes `status` on. No transaction stays open after an error.
  absl::Status Fail(absl::Status status) {
    if (!status.ok()) {
      Rollback();
      if (EndsSession(status)) {
        link_.reset();
      }
    }
    return status;
  }

  absl::StatusOr<RowSet> TouchAndReadRows(absl::Span<const NewOperation> inserts,
                                          absl::Span<const core::OperationKey> others) {
    RowSet rows;
    rows.now = now_;  // we are the only writer: no row is older than it is read
    rows.inserts.reserve(inserts.size());
    rows.others.reserve(others.size());
    const core::Fence fence = file_->clock.FreshFence(now_);
    for (const NewOperation& insert : inserts) {
      absl::StatusOr<core::OperationRow> row = link_->writes.InsertOrCount(insert, now_, fence);
      if (!row.ok()) return row.status();
      rows.inserts.emplace_back(*std::move(row));
    }
    for (const core::OperationKey& key : others) {
      absl::StatusOr<std::optional<core::OperationRow>> row = link_->reads.SelectOperation(key);
      if (!row.ok()) return row.status();
      rows.others.push_back(*std::move(row));
    }
    return rows;
  }

  absl::Status WriteRows(const WriteSet& writes) {
    for (const RowChange& change : writes.changes) {
      if (absl::Status status = link_->writes.Apply(change, now_); !status.ok()) return status;
      if (change.kind == RowChange::Kind::kDelete) {
        file_->clock.RaiseFenceFloor(change.fence_before);
      }
    }
    for (const AggregateChange& change : writes.aggregates) {
      if (absl::Status status = link_->writes.UpdateAggregate(change); !status.ok()) return status;
    }
    for (const AuditRow& row : writes.audit) {
      absl::Status status = InsertAudit(link_->connection, row, now_);
      if (!status.ok()) return status;
    }
    for (const AttemptEntry& entry : writes.attempts) {
      absl::Status status = link_->writes.InsertAttempt(entry, now_, writes.repeated);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  File* const file_;
  std::unique_ptr<Link> link_;
  core::DbTime now_;                    // of the open transaction
  bool has_locked_aggregates_ = false;  // and TouchAndRead has still to come
};

}  // namespace

absl::StatusOr<std::unique_ptr<WriteSession>> OpenWriteSession(File* file) {
  absl::StatusOr<Connection> connection = Connect(*file);
  if (!connection.ok()) return connection.status();
  absl::StatusOr<core::Fence> floor = SelectFenceFloor(*connection);
  if (!floor.ok()) return floor.status();
  file->clock.RaiseFenceFloor(*floor);
  absl::StatusOr<ReadStatements> reads = ReadStatements::Prepare(*connection);
  if (!reads.ok()) return reads.status();
  absl::StatusOr<WriteStatements> writes = WriteStatements::Prepare(*connection);
  if (!writes.ok()) return writes.status();
  auto link =
      std::make_unique<Link>(file, *std::move(connection), *std::move(reads), *std::move(writes));
  return std::make_unique<SqliteWriteSession>(file, std::move(link));
}

}  // namespace once::store::sqlite
