#include "store/sqlite/history.h"

#include <utility>

namespace once::store::sqlite {
namespace {

bool ReadDigest(const Statement& row, int first, std::optional<core::Digest>& digest) {
  if (row.IsNull(first)) return true;
  digest.emplace();
  digest->scheme = static_cast<core::DigestScheme>(row.Int(first));
  return row.Bytes(first + 1, digest->sha256);
}

}  // namespace

absl::StatusOr<std::vector<LoggedAttempt>> SelectAttempts(Connection& connection,
                                                          const core::OperationKey& key,
                                                          const std::optional<EntryId>& after,
                                                          int limit) {
  absl::StatusOr<Statement> select = connection.Prepare(
      "SELECT entry_id, attempt_id, kind, outcome, fence, attempt_number, digest_scheme, digest,"
      " consumer, handler_version, note, delivery_reference, delivery_source, cause_handler,"
      " cause_event_id, cause_reason, aggregate_id, aggregate_version, logged_us FROM attempt"
      " WHERE tenant_id = ?1 AND handler_id = ?2 AND event_id = ?3 AND entry_id > ?4"
      " ORDER BY entry_id LIMIT ?5");
  if (!select.ok()) return select.status();
  const EntryId from = after.value_or(EntryId{});  // below every id that is given
  select->BindInt(1, key.tenant.value);
  select->BindInt(2, key.handler.value);
  select->BindBlob(3, key.event_id);
  select->BindBytes(4, from);
  select->BindInt(5, limit);
  std::vector<LoggedAttempt> rows;
  for (;;) {
    const absl::StatusOr<bool> found = select->Step();
    if (!found.ok()) return found.status();
    if (!*found) return rows;
    LoggedAttempt& logged = rows.emplace_back();
    AttemptEntry& entry = logged.entry;
    entry.key = key;
    bool whole = select->Bytes(0, entry.entry);
    whole = select->Bytes(1, entry.attempt.bytes) && whole;
    entry.kind = static_cast<AttemptKind>(select->Int(2));
    entry.outcome = static_cast<AttemptOutcome>(select->Int(3));
    entry.fence = {select->Int(4)};
    entry.attempt_number = static_cast<int32_t>(select->Int(5));
    whole = ReadDigest(*select, 6, entry.digest) && whole;
    entry.consumer = select->Blob(8);
    entry.handler_version = select->Blob(9);
    entry.note = select->Blob(10);
    entry.delivery.reference = select->Blob(11);
    entry.delivery.source = static_cast<uint8_t>(select->Int(12));
    entry.delivery.cause_handler = select->Blob(13);
    entry.delivery.cause_event_id = select->Blob(14);
    entry.delivery.cause_reason = select->Blob(15);
    entry.delivery.aggregate_id = select->Blob(16);
    entry.delivery.aggregate_version = select->Int(17);
    logged.logged = {select->Int(18)};
    if (!whole) return absl::InternalError("sqlite: a row of table attempt is damaged");
  }
}

absl::StatusOr<std::vector<PastReceipt>> SelectPastReceipts(Connection& connection,
                                                            const core::OperationKey& key) {
  absl::StatusOr<Statement> select = connection.Prepare(
      "SELECT fence, attempt_id, handler_version, status, completed_us, content_type, result_size,"
      " result_sha256, result, reset_us, credential_id, reason FROM past_receipt"
      " WHERE tenant_id = ?1 AND handler_id = ?2 AND event_id = ?3 ORDER BY fence DESC LIMIT ?4");
  if (!select.ok()) return select.status();
  select->BindInt(1, key.tenant.value);
  select->BindInt(2, key.handler.value);
  select->BindBlob(3, key.event_id);
  select->BindInt(4, kMaxPastReceipts);
  std::vector<PastReceipt> rows;
  for (;;) {
    const absl::StatusOr<bool> found = select->Step();
    if (!found.ok()) return found.status();
    if (!*found) return rows;
    PastReceipt& past = rows.emplace_back();
    past.fence = {select->Int(0)};
    bool whole = select->Bytes(1, past.attempt.bytes);
    past.handler_version = select->Blob(2);
    past.receipt.status = static_cast<core::ReceiptStatus>(select->Int(3));
    past.receipt.completed = {select->Int(4)};
    past.receipt.content_type = select->Blob(5);
    past.receipt.result_size = select->Int(6);
    whole = select->Bytes(7, past.receipt.fingerprint) && whole;
    if (!select->IsNull(8)) past.receipt.result = select->Blob(8);
    past.reset = {select->Int(9)};
    past.author.credential_id = select->Blob(10);
    past.author.reason = select->Blob(11);
    if (!whole) return absl::InternalError("sqlite: a row of table past_receipt is damaged");
  }
}

}  // namespace once::store::sqlite
