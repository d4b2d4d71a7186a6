#include "store/sqlite/statements.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/limits.h"
#include "store/batch_order.h"

namespace once::store::sqlite {
namespace {

using core::OperationKey;
using core::OperationRow;

// In the order of ReadOperation.
constexpr absl::string_view kOperationColumns =
    "digest_scheme, digest, state, attempt_id, fence, claimed_us, lease_expires_us, claims,"
    " deliveries, first_seen_us, consumer, handler_version, unknown_attempts, prev_attempt_id,"
    " prev_fence, prev_claimed_us, prev_lease_expires_us, prev_consumer, prev_handler_version,"
    " status, completed_us, content_type, result_size, result_sha256, result";

constexpr absl::string_view kWhereKey =
    " WHERE tenant_id = ?1 AND handler_id = ?2 AND event_id = ?3";

// Parameters 1 to 6: the key, and what the row has to be like still.
constexpr absl::string_view kWhereGuard =
    " WHERE tenant_id = ?1 AND handler_id = ?2 AND event_id = ?3"
    " AND state = ?4 AND attempt_id = ?5 AND fence = ?6";

void BindKey(Statement& statement, const OperationKey& key) {
  statement.BindInt(1, key.tenant.value);
  statement.BindInt(2, key.handler.value);
  statement.BindBlob(3, key.event_id);
}

void BindGuard(Statement& statement, const RowChange& change) {
  BindKey(statement, change.key);
  statement.BindInt(4, static_cast<int64_t>(change.state_before));
  statement.BindBytes(5, change.attempt_before.bytes);
  statement.BindInt(6, change.fence_before.value);
}

absl::Status RunGuarded(Statement& statement) {
  absl::StatusOr<int> changed = statement.Run();
  if (!changed.ok()) return changed.status();
  return *changed == 1 ? absl::OkStatus()
                       : absl::AbortedError("sqlite: the row is not as it was read");
}

// ---- reading a row ----

// Columns `first` to `first` + 5: attempt id, fence, begun, lease's end, consumer, handler version.
bool ReadPreviousClaim(const Statement& row, int first, std::optional<core::ClaimInfo>& claim) {
  if (row.IsNull(first)) {
    return true;
  }
  claim.emplace();
  claim->fence = {row.Int(first + 1)};
  claim->begun = {row.Int(first + 2)};
  claim->lease_expires = {row.Int(first + 3)};
  claim->consumer = row.Blob(first + 4);
  claim->handler_version = row.Blob(first + 5);
  return row.Bytes(first, claim->attempt.bytes);
}

// Columns `first` to `first` + 5: status, completion, content type, size, fingerprint, result.
bool ReadReceipt(const Statement& row, int first, std::optional<core::Receipt>& receipt) {
  if (row.IsNull(first)) {
    return true;
  }
  receipt.emplace();
  receipt->status = static_cast<core::ReceiptStatus>(row.Int(first));
  receipt->completed = {row.Int(first + 1)};
  receipt->content_type = row.Blob(first + 2);
  receipt->result_size = row.Int(first + 3);
  if (!row.IsNull(first + 5)) {
    receipt->result = row.Blob(first + 5);
  }
  return row.Bytes(first + 4, receipt->fingerprint);
}

absl::StatusOr<OperationRow> ReadOperation(const Statement& row) {
  OperationRow operation;
  operation.digest.scheme = static_cast<core::DigestScheme>(row.Int(0));
  bool whole = row.Bytes(1, operation.digest.sha256);
  operation.state = static_cast<core::RowState>(row.Int(2));
  whole = row.Bytes(3, operation.claim.attempt.bytes) && whole;
  operation.claim.fence = {row.Int(4)};
  operation.claim.begun = {row.Int(5)};
  operation.claim.lease_expires = {row.Int(6)};
  operation.claims = static_cast<int32_t>(row.Int(7));
  operation.deliveries = row.Int(8);
  operation.first_seen = {row.Int(9)};
  operation.claim.consumer = row.Blob(10);
  operation.claim.handler_version = row.Blob(11);
  operation.unknown_attempts = static_cast<int32_t>(row.Int(12));
  whole = ReadPreviousClaim(row, 13, operation.unknown) && whole;
  whole = ReadReceipt(row, 19, operation.receipt) && whole;
  const bool has_receipt = operation.state == core::RowState::kCompleted ||
                           operation.state == core::RowState::kTombstone;
  if (!whole || has_receipt != operation.receipt.has_value()) {
    return absl::InternalError("sqlite: a row of table operation is damaged");
  }
  return operation;
}

// ---- statements ----

absl::StatusOr<Statement> PrepareInsertOrCount(Connection& connection) {
  return connection.Prepare(absl::StrCat(
      "INSERT INTO operation (tenant_id, handler_id, event_id, digest_scheme, digest, state,"
      " attempt_id, fence, claimed_us, lease_expires_us, claims, deliveries, first_seen_us,"
      " consumer, handler_version, unknown_attempts)"
      " VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?9, 1, ?10, ?8, ?11, ?12, 0)"
      " ON CONFLICT (tenant_id, handler_id, event_id)"
      " DO UPDATE SET deliveries = deliveries + excluded.deliveries RETURNING ",
      kOperationColumns));
}

absl::StatusOr<Statement> PrepareUpdateClaim(Connection& connection) {
  return connection.Prepare(absl::StrCat(
      "UPDATE operation SET state = ?7, attempt_id = ?8, fence = ?9, claimed_us = ?10,"
      " lease_expires_us = ?11, claims = ?12, consumer = ?13, handler_version = ?14,"
      " unknown_attempts = ?15, prev_attempt_id = ?16, prev_fence = ?17, prev_claimed_us = ?18,"
      " prev_lease_expires_us = ?19, prev_consumer = ?20, prev_handler_version = ?21",
      kWhereGuard));
}

absl::StatusOr<Statement> PrepareUpdateLease(Connection& connection) {
  return connection.Prepare(
      absl::StrCat("UPDATE operation SET state = ?7, lease_expires_us = ?8", kWhereGuard));
}

absl::StatusOr<Statement> PrepareUpdateCompletion(Connection& connection) {
  return connection.Prepare(
      absl::StrCat("UPDATE operation SET state = ?7, status = ?8, completed_us = ?9,"
                   " content_type = ?10, result_size = ?11, result_sha256 = ?12, result = ?13",
                   kWhereGuard));
}

absl::StatusOr<Statement> PrepareInsertBody(Connection& connection) {
  return connection.Prepare(
      "INSERT INTO receipt_body (tenant_id, handler_id, event_id, body) VALUES (?1, ?2, ?3, ?4)");
}

absl::StatusOr<Statement> PrepareRaiseFenceFloor(Connection& connection) {
  return connection.Prepare("UPDATE fence_floor SET fence = max(fence, ?1)");
}

absl::StatusOr<Statement> PrepareInsertPastReceipt(Connection& connection) {
  return connection.Prepare(absl::StrCat(
      "INSERT INTO past_receipt SELECT tenant_id, handler_id, event_id, fence, attempt_id,"
      " handler_version, status, completed_us, content_type, result_size, result_sha256,"
      " coalesce(result, (SELECT body FROM receipt_body b WHERE b.tenant_id = ?1"
      " AND b.handler_id = ?2 AND b.event_id = ?3)), ?7, ?8, ?9 FROM operation",
      kWhereGuard));
}

absl::StatusOr<Statement> PrepareResetOperation(Connection& connection) {
  return connection.Prepare(absl::StrCat(
      "UPDATE operation SET state = ?7, lease_expires_us = ?8, unknown_attempts = ?9,"
      " prev_attempt_id = NULL, prev_fence = NULL, prev_claimed_us = NULL,"
      " prev_lease_expires_us = NULL, prev_consumer = NULL, prev_handler_version = NULL,"
      " status = NULL, completed_us = NULL, content_type = NULL, result_size = NULL,"
      " result_sha256 = NULL, result = NULL",
      kWhereGuard));
}

absl::StatusOr<Statement> PrepareTouchAggregate(Connection& connection) {
  return connection.Prepare(
      "INSERT INTO aggregate (tenant_id, handler_id, aggregate_id, begins, open_operations,"
      " touched_us) VALUES (?1, ?2, ?3, 1, x'', ?4)"
      " ON CONFLICT (tenant_id, handler_id, aggregate_id)"
      " DO UPDATE SET begins = begins + 1, touched_us = excluded.touched_us"
      " RETURNING done_version, done_event_id, open_operations");
}

absl::StatusOr<Statement> PrepareUpdateAggregate(Connection& connection) {
  return connection.Prepare(
      "UPDATE aggregate SET done_version = ?4, done_event_id = ?5, open_operations = ?6"
      " WHERE tenant_id = ?1 AND handler_id = ?2 AND aggregate_id = ?3");
}

absl::StatusOr<Statement> PrepareInsertAttempt(Connection& connection, absl::string_view suffix) {
  return connection.Prepare(absl::StrCat(
      "INSERT INTO attempt (tenant_id, handler_id, event_id, entry_id, attempt_id, kind, outcome,"
      " fence, attempt_number, digest_scheme, digest, consumer, handler_version, note,"
      " delivery_reference, delivery_source, cause_handler, cause_event_id, cause_reason,"
      " aggregate_id, aggregate_version, logged_us)"
      " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
      " ?19, ?20, ?21, ?22)",
      suffix));
}

void BindAttempt(Statement& statement, const AttemptEntry& entry, core::DbTime now) {
  BindKey(statement, entry.key);
  statement.BindBytes(4, entry.entry);
  statement.BindBytes(5, entry.attempt.bytes);
  statement.BindInt(6, static_cast<int64_t>(entry.kind));
  statement.BindInt(7, static_cast<int64_t>(entry.outcome));
  statement.BindInt(8, entry.fence.value);
  statement.BindInt(9, entry.attempt_number);
  if (entry.digest.has_value()) {
    statement.BindInt(10, static_cast<int64_t>(entry.digest->scheme));
    statement.BindBytes(11, entry.digest->sha256);
  } else {
    statement.BindNull(10);
    statement.BindNull(11);
  }
  statement.BindOptionalBlob(12, entry.consumer);
  statement.BindOptionalBlob(13, entry.handler_version);
  statement.BindOptionalBlob(14, entry.note);
  statement.BindOptionalBlob(15, entry.delivery.reference);
  statement.BindInt(16, entry.delivery.source);
  statement.BindOptionalBlob(17, entry.delivery.cause_handler);
  statement.BindOptionalBlob(18, entry.delivery.cause_event_id);
  statement.BindOptionalBlob(19, entry.delivery.cause_reason);
  statement.BindOptionalBlob(20, entry.delivery.aggregate_id);
  statement.BindInt(21, entry.delivery.aggregate_version);
  statement.BindInt(22, now.micros);
}

void BindPreviousClaim(Statement& statement, const std::optional<core::ClaimInfo>& claim) {
  if (!claim.has_value()) {
    for (int parameter = 16; parameter <= 21; ++parameter) {
      statement.BindNull(parameter);
    }
    return;
  }
  statement.BindBytes(16, claim->attempt.bytes);
  statement.BindInt(17, claim->fence.value);
  statement.BindInt(18, claim->begun.micros);
  statement.BindInt(19, claim->lease_expires.micros);
  statement.BindBlob(20, claim->consumer);
  statement.BindBlob(21, claim->handler_version);
}

// Moves a prepared statement to its place; the first error stays.
void Take(absl::StatusOr<Statement> from, Statement& to, absl::Status& status) {
  status.Update(from.status());
  if (from.ok()) {
    to = *std::move(from);
  }
}

}  // namespace

// ---- ReadStatements ----

absl::StatusOr<ReadStatements> ReadStatements::Prepare(Connection& connection) {
  ReadStatements all;
  absl::Status status;
  Take(connection.Prepare(absl::StrCat("SELECT ", kOperationColumns, " FROM operation", kWhereKey)),
       all.select_operation_, status);
  Take(connection.Prepare(absl::StrCat("SELECT body FROM receipt_body", kWhereKey)),
       all.select_body_, status);
  if (!status.ok()) return status;
  return all;
}

absl::StatusOr<std::optional<OperationRow>> ReadStatements::SelectOperation(
    const OperationKey& key) {
  BindKey(select_operation_, key);
  absl::StatusOr<bool> found = select_operation_.Step();
  if (!found.ok()) return found.status();
  if (!*found) return std::nullopt;
  absl::StatusOr<OperationRow> row = ReadOperation(select_operation_);
  select_operation_.Reset();
  if (!row.ok()) return row.status();
  return *std::move(row);
}

absl::StatusOr<std::optional<std::string>> ReadStatements::SelectBody(const OperationKey& key) {
  BindKey(select_body_, key);
  absl::StatusOr<bool> found = select_body_.Step();
  if (!found.ok()) return found.status();
  if (!*found) return std::nullopt;
  std::string body = select_body_.Blob(0);
  select_body_.Reset();
  return body;
}

// ---- WriteStatements ----

absl::StatusOr<WriteStatements> WriteStatements::Prepare(Connection& connection) {
  WriteStatements all;
  absl::Status status;
  Take(PrepareInsertOrCount(connection), all.insert_or_count_, status);
  Take(PrepareUpdateClaim(connection), all.update_claim_, status);
  Take(PrepareUpdateLease(connection), all.update_lease_, status);
  Take(PrepareUpdateCompletion(connection), all.update_completion_, status);
  Take(PrepareInsertBody(connection), all.insert_body_, status);
  Take(connection.Prepare(absl::StrCat("DELETE FROM operation", kWhereGuard)),
       all.delete_operation_, status);
  Take(connection.Prepare(absl::StrCat("DELETE FROM receipt_body", kWhereKey)), all.delete_body_,
       status);
  Take(PrepareRaiseFenceFloor(connection), all.raise_fence_floor_, status);
  Take(PrepareInsertAttempt(connection, ""), all.insert_attempt_, status);
  Take(PrepareInsertAttempt(connection,
                            " ON CONFLICT (tenant_id, handler_id, event_id, entry_id) DO NOTHING"),
       all.insert_attempt_again_, status);
  Take(PrepareInsertPastReceipt(connection), all.insert_past_receipt_, status);
  Take(PrepareResetOperation(connection), all.reset_operation_, status);
  Take(PrepareTouchAggregate(connection), all.touch_aggregate_, status);
  Take(PrepareUpdateAggregate(connection), all.update_aggregate_, status);
  if (!status.ok()) return status;
  return all;
}

absl::StatusOr<OperationRow> WriteStatements::InsertOrCount(const NewOperation& insert,
                                                            core::DbTime now, core::Fence fence) {
  BindKey(insert_or_count_, insert.key);
  insert_or_count_.BindInt(4, static_cast<int64_t>(insert.digest.scheme));
  insert_or_count_.BindBytes(5, insert.digest.sha256);
  insert_or_count_.BindBytes(6, insert.attempt.bytes);
  insert_or_count_.BindInt(7, fence.value);
  insert_or_count_.BindInt(8, now.micros);
  insert_or_count_.BindInt(9, (now + insert.lease).micros);
  insert_or_count_.BindInt(10, insert.deliveries);
  insert_or_count_.BindBlob(11, insert.consumer);
  insert_or_count_.BindBlob(12, insert.handler_version);
  absl::StatusOr<bool> found = insert_or_count_.Step();
  if (!found.ok()) return found.status();
  if (!*found) return absl::InternalError("sqlite: an insert returned no row");
  absl::StatusOr<OperationRow> row = ReadOperation(insert_or_count_);
  // SQLite has made the change before it returns the first row; one more step ends the statement.
  absl::StatusOr<bool> more = insert_or_count_.Step();
  if (!more.ok()) return more.status();
  return row;
}

absl::Status WriteStatements::Apply(const RowChange& change, core::DbTime now) {
  switch (change.kind) {
    case RowChange::Kind::kClaim:
      return UpdateClaim(change);
    case RowChange::Kind::kLease:
      return UpdateLease(change);
    case RowChange::Kind::kCompletion:
      return UpdateCompletion(change);
    case RowChange::Kind::kDelete:
      return Delete(change);
    case RowChange::Kind::kReset:
      return Reset(change, now);
  }
  return absl::InternalError("sqlite: unknown kind of change");
}

absl::Status WriteStatements::UpdateClaim(const RowChange& change) {
  const OperationRow& after = change.after;
  BindGuard(update_claim_, change);
  update_claim_.BindInt(7, static_cast<int64_t>(after.state));
  update_claim_.BindBytes(8, after.claim.attempt.bytes);
  update_claim_.BindInt(9, after.claim.fence.value);
  update_claim_.BindInt(10, after.claim.begun.micros);
  update_claim_.BindInt(11, after.claim.lease_expires.micros);
  update_claim_.BindInt(12, after.claims);
  update_claim_.BindBlob(13, after.claim.consumer);
  update_claim_.BindBlob(14, after.claim.handler_version);
  update_claim_.BindInt(15, after.unknown_attempts);
  BindPreviousClaim(update_claim_, after.unknown);
  return RunGuarded(update_claim_);
}

absl::Status WriteStatements::UpdateLease(const RowChange& change) {
  BindGuard(update_lease_, change);
  update_lease_.BindInt(7, static_cast<int64_t>(change.after.state));
  update_lease_.BindInt(8, change.after.claim.lease_expires.micros);
  return RunGuarded(update_lease_);
}

absl::Status WriteStatements::UpdateCompletion(const RowChange& change) {
  if (!change.after.receipt.has_value() || !change.after.receipt->result.has_value()) {
    return absl::InternalError("sqlite: a completion without its result");
  }
  const core::Receipt& receipt = *change.after.receipt;
  const bool large = receipt.result->size() > core::kMaxInlineResultBytes;
  BindGuard(update_completion_, change);
  update_completion_.BindInt(7, static_cast<int64_t>(change.after.state));
  update_completion_.BindInt(8, static_cast<int64_t>(receipt.status));
  update_completion_.BindInt(9, receipt.completed.micros);
  update_completion_.BindBlob(10, receipt.content_type);
  update_completion_.BindInt(11, receipt.result_size);
  update_completion_.BindBytes(12, receipt.fingerprint);
  if (large) {
    update_completion_.BindNull(13);
  } else {
    update_completion_.BindBlob(13, *receipt.result);
  }
  absl::Status status = RunGuarded(update_completion_);
  if (!status.ok() || !large) return status;
  return InsertBody(change.key, *receipt.result);
}

absl::Status WriteStatements::InsertBody(const OperationKey& key, const std::string& body) {
  BindKey(insert_body_, key);
  insert_body_.BindBlob(4, body);
  return insert_body_.Run().status();
}

absl::Status WriteStatements::Delete(const RowChange& change) {
  BindGuard(delete_operation_, change);
  if (absl::Status status = RunGuarded(delete_operation_); !status.ok()) return status;
  BindKey(delete_body_, change.key);
  absl::Status status = delete_body_.Run().status();
  raise_fence_floor_.BindInt(1, change.fence_before.value);
  status.Update(raise_fence_floor_.Run().status());
  return status;
}

absl::Status WriteStatements::InsertAttempt(const AttemptEntry& entry, core::DbTime now,
                                            bool repeated) {
  Statement& statement = repeated ? insert_attempt_again_ : insert_attempt_;
  BindAttempt(statement, entry, now);
  return statement.Run().status();
}

absl::StatusOr<core::Fence> SelectFenceFloor(Connection& connection) {
  absl::StatusOr<Statement> select = connection.Prepare("SELECT max(fence) FROM fence_floor");
  if (!select.ok()) return select.status();
  absl::StatusOr<bool> row = select->Step();
  if (!row.ok()) return row.status();
  return core::Fence{select->Int(0)};
}

// ---- reset ----

absl::Status WriteStatements::Reset(const RowChange& change, core::DbTime now) {
  BindGuard(insert_past_receipt_, change);
  insert_past_receipt_.BindInt(7, now.micros);
  insert_past_receipt_.BindBlob(8, change.author.credential_id);
  insert_past_receipt_.BindBlob(9, change.author.reason);
  if (absl::Status status = RunGuarded(insert_past_receipt_); !status.ok()) return status;
  BindKey(delete_body_, change.key);
  if (absl::Status status = delete_body_.Run().status(); !status.ok()) return status;
  BindGuard(reset_operation_, change);
  reset_operation_.BindInt(7, static_cast<int64_t>(change.after.state));
  reset_operation_.BindInt(8, change.after.claim.lease_expires.micros);
  reset_operation_.BindInt(9, change.after.unknown_attempts);
  return RunGuarded(reset_operation_);
}

// ---- aggregates ----

absl::StatusOr<core::AggregateRow> WriteStatements::TouchAggregate(const core::AggregateKey& key,
                                                                   core::DbTime now) {
  touch_aggregate_.BindInt(1, key.tenant.value);
  touch_aggregate_.BindInt(2, key.handler.value);
  touch_aggregate_.BindBlob(3, key.id);
  touch_aggregate_.BindInt(4, now.micros);
  absl::StatusOr<bool> found = touch_aggregate_.Step();
  if (!found.ok()) return found.status();
  if (!*found) return absl::InternalError("sqlite: an insert returned no row");
  core::AggregateRow row;
  if (!touch_aggregate_.IsNull(0)) {
    row.done = {.event_id = touch_aggregate_.Blob(1), .version = touch_aggregate_.Int(0)};
  }
  const std::string text = touch_aggregate_.Blob(2);
  // As in InsertOrCount.
  absl::StatusOr<bool> more = touch_aggregate_.Step();
  if (!more.ok()) return more.status();
  absl::StatusOr<std::vector<core::AggregateEvent>> open = ReadOpenOperations(text);
  if (!open.ok()) return open.status();
  row.open = *std::move(open);
  return row;
}

absl::Status WriteStatements::UpdateAggregate(const AggregateChange& change) {
  const std::string open = WriteOpenOperations(change.after.open);
  update_aggregate_.BindInt(1, change.key.tenant.value);
  update_aggregate_.BindInt(2, change.key.handler.value);
  update_aggregate_.BindBlob(3, change.key.id);
  if (change.after.done.has_value()) {
    update_aggregate_.BindInt(4, change.after.done->version);
    update_aggregate_.BindBlob(5, change.after.done->event_id);
  } else {
    update_aggregate_.BindNull(4);
    update_aggregate_.BindNull(5);
  }
  update_aggregate_.BindBlob(6, open);
  absl::StatusOr<int> changed = update_aggregate_.Run();
  if (!changed.ok()) return changed.status();
  return *changed == 1 ? absl::OkStatus()
                       : absl::InternalError("sqlite: a locked aggregate is gone");
}

// ---- audit ----

absl::Status InsertAudit(Connection& connection, const AuditRow& row, core::DbTime now) {
  absl::StatusOr<Statement> insert = connection.Prepare(
      "INSERT INTO audit_record (tenant_id, action, subject, state_before, state_after,"
      " credential_id, reason, created_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
  if (!insert.ok()) return insert.status();
  insert->BindInt(1, row.tenant.value);
  insert->BindInt(2, static_cast<int64_t>(row.action));
  insert->BindBlob(3, row.subject);
  insert->BindOptionalBlob(4, row.before);
  insert->BindOptionalBlob(5, row.after);
  insert->BindBlob(6, row.author.credential_id);
  insert->BindBlob(7, row.author.reason);
  insert->BindInt(8, now.micros);
  return insert->Run().status();
}

}  // namespace once::store::sqlite
