#include "store/mysql/write_session.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "store/mysql/aggregate_statements.h"

namespace once::store::mysql {
namespace {

using core::OperationKey;

// A fresh row's times were taken just before it was put into the table, and putting it there may
// have waited for a lock. In between, another transaction can have claimed the operation and a
// third one forgotten it; then the fence of the forgotten claim is above ours. That takes two
// commits and a caller's round trip; shorter gaps are harmless.
constexpr int64_t kHarmlessGapMicros = 1000;

// Far below the size of a packet, with the usual handful of open operations each.
constexpr size_t kAggregatesPerStatement = 500;

const OperationKey& KeyOfInsert(const NewOperation& insert) { return insert.key; }
const OperationKey& KeyItself(const OperationKey& key) { return key; }

// Of a sorted list by key; the list's end where it is not in there.
template <typename Row, typename KeyOfRow>
size_t IndexOf(absl::Span<const Row> rows, const OperationKey& key, KeyOfRow key_of) {
  const auto it = std::lower_bound(
      rows.begin(), rows.end(), key,
      [&](const Row& row, const OperationKey& wanted) { return key_of(row) < wanted; });
  if (it == rows.end() || key_of(*it) != key) return rows.size();
  return static_cast<size_t>(it - rows.begin());
}

bool IsFresh(const NewOperation& insert, const core::OperationRow& row) {
  return row.claim.attempt == insert.attempt && row.deliveries == insert.deliveries;
}

// Duplicates that are not the claim's own are defects, not data.
absl::Status Unexpected(const absl::Status& status) {
  if (absl::IsAlreadyExists(status)) return absl::InternalError(status.message());
  return status;
}

}  // namespace

absl::Status MysqlWriteSession::Start() {
  if (in_transaction_) return absl::InternalError("a transaction is open already");
  if (!opener_.IsCurrent(session_)) {
    session_.connection->Close();
    return absl::UnavailableError("the sessions moved to another host");
  }
  in_transaction_ = true;  // autocommit is off: the first statement starts it
  return absl::OkStatus();
}

absl::StatusOr<std::vector<core::AggregateRow>> MysqlWriteSession::LockAggregates(
    absl::Span<const core::AggregateKey> keys) {
  if (absl::Status status = Start(); !status.ok()) return status;
  has_locked_aggregates_ = true;
  std::vector<core::AggregateRow> rows;
  while (!keys.empty()) {
    const auto some = keys.first(std::min(keys.size(), kAggregatesPerStatement));
    keys.remove_prefix(some.size());
    const absl::StatusOr<uint64_t> touched = session_.connection->Execute(TouchAggregates(some));
    if (!touched.ok()) return Unexpected(touched.status());
    const size_t first = rows.size();
    rows.resize(first + some.size());
    absl::Status damage;
    absl::Status status =
        session_.connection->Query(SelectAggregates(some), [&](RowReader& reader) {
          absl::StatusOr<SelectedAggregate> selected = ReadAggregate(reader);
          if (!selected.ok()) {
            damage = selected.status();
            return;
          }
          const auto at = std::lower_bound(some.begin(), some.end(), selected->key);
          if (at != some.end() && *at == selected->key) {
            rows[first + static_cast<size_t>(at - some.begin())] = std::move(selected->row);
          }
        });
    status.Update(damage);
    if (!status.ok()) return status;
  }
  return rows;
}

absl::StatusOr<std::vector<std::optional<core::OperationRow>>> MysqlWriteSession::ReadAlso(
    absl::Span<const OperationKey> keys) {
  RowSet rows;
  rows.others.resize(keys.size());
  if (absl::Status status = ReadRows({}, keys, rows); !status.ok()) return status;
  return std::move(rows.others);
}

absl::StatusOr<RowSet> MysqlWriteSession::TouchAndRead(absl::Span<const NewOperation> inserts,
                                                       absl::Span<const OperationKey> others) {
  if (!std::exchange(has_locked_aggregates_, false)) {
    if (absl::Status status = Start(); !status.ok()) return status;
  }
  RowSet rows;
  rows.inserts.resize(inserts.size());
  rows.others.resize(others.size());
  if (absl::Status status = Touch(inserts, rows); !status.ok()) return Unexpected(status);
  if (absl::Status status = ReadRows(inserts, others, rows); !status.ok()) return status;
  if (absl::Status status = RestampFreshRows(inserts, rows); !status.ok()) return status;
  return rows;
}

Values MysqlWriteSession::Form() const {
  return session_.version.mariadb && session_.connection->prepares() ? Values::kBound
                                                                     : Values::kInText;
}

absl::Status MysqlWriteSession::Touch(absl::Span<const NewOperation> inserts, RowSet& rows) {
  if (!session_.version.mariadb) {
    return RunAll(InsertOperations(inserts, /*returning=*/false, Form(), session_.statement_bytes))
        .status();
  }
  for (const RowStatement& statement :
       InsertOperations(inserts, /*returning=*/true, Form(), session_.statement_bytes)) {
    if (absl::Status status = CheckFits(statement); !status.ok()) return status;
    if (absl::Status status = ReadInto(statement, inserts, {}, rows); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status MysqlWriteSession::ReadRows(absl::Span<const NewOperation> inserts,
                                         absl::Span<const OperationKey> others, RowSet& rows) {
  std::vector<const OperationKey*> keys;
  keys.reserve(inserts.size() + others.size());
  for (size_t i = 0; i < inserts.size(); ++i) {
    if (!rows.inserts[i].has_value()) keys.push_back(&inserts[i].key);
  }
  for (const OperationKey& key : others) keys.push_back(&key);
  std::sort(keys.begin(), keys.end(),
            [](const OperationKey* a, const OperationKey* b) { return *a < *b; });

  for (const RowStatement& statement : SelectOperations(keys, session_.statement_bytes)) {
    if (absl::Status status = ReadInto(statement, inserts, others, rows); !status.ok()) {
      return status;
    }
  }
  if (rows.now.micros != 0 || (inserts.empty() && others.empty())) return absl::OkStatus();
  // Nothing was there that could have brought the time along.
  return session_.connection->Query(SelectNow(),
                                    [&](RowReader& reader) { rows.now = ReadNow(reader).now; });
}

absl::Status MysqlWriteSession::ReadInto(const RowStatement& statement,
                                         absl::Span<const NewOperation> inserts,
                                         absl::Span<const OperationKey> others, RowSet& rows) {
  const auto on_row = [&](RowReader& reader) {
    SelectedOperation selected = ReadOperation(reader);
    rows.now = std::max(rows.now, selected.moment.now);
    const size_t insert = IndexOf(inserts, selected.key, KeyOfInsert);
    if (insert < inserts.size()) {
      rows.inserts[insert] = std::move(selected.row);
      return;
    }
    const size_t other = IndexOf(others, selected.key, KeyItself);
    if (other < others.size()) rows.others[other] = std::move(selected.row);
  };
  return session_.connection->Query(statement.sql, on_row, statement.values);
}

absl::Status MysqlWriteSession::RestampFreshRows(absl::Span<const NewOperation> inserts,
                                                 RowSet& rows) {
  // Rows are put into the table one after another, so the next fresh row's time ends the gap of the
  // one before.
  std::vector<RowChange> changes;
  int64_t gap_end = rows.now.micros;
  for (size_t i = inserts.size(); i-- > 0;) {
    if (!rows.inserts[i].has_value() || !IsFresh(inserts[i], *rows.inserts[i])) continue;
    core::OperationRow& row = *rows.inserts[i];
    const int64_t stamped = row.claim.fence.value;
    if (gap_end - stamped > kHarmlessGapMicros) {
      RowChange& change = changes.emplace_back();
      change.key = inserts[i].key;
      change.state_before = row.state;
      change.attempt_before = row.claim.attempt;
      change.fence_before = row.claim.fence;
      row.claim.fence.value = rows.now.micros;
      row.claim.begun = rows.now;
      row.claim.lease_expires = rows.now + inserts[i].lease;
      row.first_seen = rows.now;
      change.after = row;
    }
    gap_end = stamped;
  }
  std::vector<const RowChange*> sorted;
  for (auto it = changes.rbegin(); it != changes.rend(); ++it) sorted.push_back(&*it);
  return RunGuarded(UpdateOperations(ChangedColumns::kFreshTimes, sorted, session_.statement_bytes),
                    sorted.size());
}

absl::Status MysqlWriteSession::Write(const WriteSet& writes) {
  if (absl::Status status = WriteChanges(writes.changes); !status.ok()) return status;
  if (absl::Status status = WriteAggregates(writes.aggregates); !status.ok()) return status;
  for (const AuditRow& row : writes.audit) {
    const absl::StatusOr<uint64_t> written = session_.connection->Execute(InsertAudit(row));
    if (!written.ok()) return Unexpected(written.status());
  }
  const absl::StatusOr<uint64_t> logged =
      RunAll(InsertAttempts(writes.attempts, writes.repeated, Form(), session_.statement_bytes));
  return Unexpected(logged.status());
}

absl::Status MysqlWriteSession::WriteChanges(const std::vector<RowChange>& changes) {
  std::vector<const RowChange*> claims;
  std::vector<const RowChange*> leases;
  std::vector<const RowChange*> completions;
  std::vector<const RowChange*> deletions;
  std::vector<const RowChange*> resets;
  for (const RowChange& change : changes) {
    switch (change.kind) {
      case RowChange::Kind::kClaim:
        claims.push_back(&change);
        break;
      case RowChange::Kind::kLease:
        leases.push_back(&change);
        break;
      case RowChange::Kind::kCompletion:
        if (!change.after.receipt.has_value()) {
          return absl::InternalError("a completion without a receipt");
        }
        completions.push_back(&change);
        break;
      case RowChange::Kind::kDelete:
        deletions.push_back(&change);
        break;
      case RowChange::Kind::kReset:
        resets.push_back(&change);
        break;
    }
  }
  const size_t limit = session_.statement_bytes;
  for (const RowChange* reset : resets) {
    // Rare, so one by one. The copy is right if the guard of the change behind it holds.
    for (const std::string& sql : {InsertPastReceipt(*reset), DeleteBody(reset->key)}) {
      const absl::StatusOr<uint64_t> done = session_.connection->Execute(sql);
      if (!done.ok()) return Unexpected(done.status());
    }
  }
  const std::array<std::pair<std::vector<RowStatement>, size_t>, 5> guarded = {{
      {UpdateOperations(ChangedColumns::kClaim, claims, limit), claims.size()},
      {UpdateOperations(ChangedColumns::kLease, leases, limit), leases.size()},
      {UpdateOperations(ChangedColumns::kCompletion, completions, limit), completions.size()},
      {DeleteOperations(deletions, limit), deletions.size()},
      {UpdateOperations(ChangedColumns::kReset, resets, limit), resets.size()},
  }};
  for (const auto& [statements, expected] : guarded) {
    if (absl::Status status = RunGuarded(statements, expected); !status.ok()) return status;
  }
  return Unexpected(RunAll(InsertBodies(completions, limit)).status());
}

absl::Status MysqlWriteSession::WriteAggregates(const std::vector<AggregateChange>& changes) {
  absl::Span<const AggregateChange> left = changes;
  while (!left.empty()) {
    const auto some = left.first(std::min(left.size(), kAggregatesPerStatement));
    left.remove_prefix(some.size());
    const RowStatement statement{.sql = UpdateAggregates(some)};
    if (absl::Status status = CheckFits(statement); !status.ok()) return status;
    const absl::StatusOr<uint64_t> written = session_.connection->Execute(statement.sql);
    if (!written.ok()) return Unexpected(written.status());
  }
  return absl::OkStatus();
}

absl::Status MysqlWriteSession::CheckFits(const RowStatement& statement) const {
  if (statement.bytes() <= session_.max_packet_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a row needs a statement of ", statement.bytes(),
                                                 " bytes; the database's max_allowed_packet is ",
                                                 session_.settings.max_allowed_packet));
}

absl::StatusOr<uint64_t> MysqlWriteSession::RunAll(const std::vector<RowStatement>& statements) {
  uint64_t affected = 0;
  for (const RowStatement& statement : statements) {
    if (absl::Status status = CheckFits(statement); !status.ok()) return status;
    absl::StatusOr<uint64_t> rows = session_.connection->Execute(statement.sql, statement.values);
    if (!rows.ok()) return rows.status();
    affected += *rows;
  }
  return affected;
}

absl::Status MysqlWriteSession::RunGuarded(const std::vector<RowStatement>& statements,
                                           size_t expected) {
  if (expected == 0) return absl::OkStatus();
  const absl::StatusOr<uint64_t> affected = RunAll(statements);
  if (!affected.ok()) return Unexpected(affected.status());
  if (*affected == expected) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("of ", expected, " rows ", *affected,
                                         " were still as read; another transaction was faster"));
}

absl::Status MysqlWriteSession::Commit() {
  absl::Status status = session_.connection->Commit();
  if (status.ok()) in_transaction_ = has_locked_aggregates_ = false;
  return status;
}

void MysqlWriteSession::Rollback() {
  if (!in_transaction_) return;
  in_transaction_ = has_locked_aggregates_ = false;
  if (!session_.connection->usable()) return;
  if (!session_.connection->Execute("ROLLBACK").ok()) session_.connection->Close();
}

bool MysqlWriteSession::usable() const {
  return session_.connection->usable() &&
         session_.connection->idle() < opener_.options().idle_timeout * 0.8;
}

}  // namespace once::store::mysql
