#include "store/mysql/history.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "store/mysql/sql_builder.h"

namespace once::store::mysql {
namespace {

template <size_t n>
std::array<uint8_t, n> ToArray(const std::string& bytes) {
  std::array<uint8_t, n> out{};
  std::memcpy(out.data(), bytes.data(), std::min(n, bytes.size()));
  return out;
}

}  // namespace

std::string SelectAttempts(const core::OperationKey& key, const std::optional<EntryId>& after,
                           int limit) {
  SqlBuilder sql(
      "SELECT entry_id,attempt_id,kind,outcome,fence,attempt_number,digest_scheme,digest,consumer,"
      "handler_version,note,delivery_reference,delivery_source,cause_handler,cause_event_id,"
      "cause_reason,aggregate_id,aggregate_version,logged_us"
      " FROM attempt FORCE INDEX (PRIMARY) WHERE tenant_id=");
  sql.Int(key.tenant.value).Raw(" AND handler_id=").Int(key.handler.value);
  sql.Raw(" AND event_id=").Bytes(key.event_id);
  if (after.has_value()) sql.Raw(" AND entry_id>").Bytes(*after);
  sql.Raw(" ORDER BY tenant_id,handler_id,event_id,entry_id LIMIT ").Int(limit);
  return sql.text();
}

LoggedAttempt ReadLoggedAttempt(const core::OperationKey& key, RowReader& reader) {
  LoggedAttempt logged;
  AttemptEntry& entry = logged.entry;
  entry.key = key;
  entry.entry = ToArray<16>(reader.Bytes());
  entry.attempt.bytes = ToArray<16>(reader.Bytes());
  entry.kind = static_cast<AttemptKind>(reader.Int());
  entry.outcome = static_cast<AttemptOutcome>(reader.Int());
  entry.fence.value = reader.Int();
  entry.attempt_number = static_cast<int32_t>(reader.Int());
  const std::optional<int64_t> scheme = reader.OptionalInt();
  const std::string digest = reader.Bytes();
  if (scheme.has_value()) {
    entry.digest = {.scheme = static_cast<core::DigestScheme>(*scheme),
                    .sha256 = ToArray<32>(digest)};
  }
  entry.consumer = reader.Bytes();
  entry.handler_version = reader.Bytes();
  entry.note = reader.Bytes();
  entry.delivery.reference = reader.Bytes();
  entry.delivery.source = static_cast<uint8_t>(reader.Int());
  entry.delivery.cause_handler = reader.Bytes();
  entry.delivery.cause_event_id = reader.Bytes();
  entry.delivery.cause_reason = reader.Bytes();
  entry.delivery.aggregate_id = reader.Bytes();
  entry.delivery.aggregate_version = reader.OptionalInt().value_or(0);
  logged.logged.micros = reader.Int();
  return logged;
}

std::string SelectPastReceipts(const core::OperationKey& key) {
  SqlBuilder sql(
      "SELECT fence,attempt_id,handler_version,status,completed_us,content_type,result_size,"
      "result_sha256,result,reset_us,credential_id,reason FROM past_receipt FORCE INDEX (PRIMARY)"
      " WHERE tenant_id=");
  sql.Int(key.tenant.value).Raw(" AND handler_id=").Int(key.handler.value);
  sql.Raw(" AND event_id=").Bytes(key.event_id);
  sql.Raw(" ORDER BY fence DESC LIMIT ").Int(kMaxPastReceipts);
  return sql.text();
}

PastReceipt ReadPastReceipt(RowReader& reader) {
  PastReceipt past;
  past.fence.value = reader.Int();
  past.attempt.bytes = ToArray<16>(reader.Bytes());
  past.handler_version = reader.Bytes();
  past.receipt.status = static_cast<core::ReceiptStatus>(reader.Int());
  past.receipt.completed.micros = reader.Int();
  past.receipt.content_type = reader.Bytes();
  past.receipt.result_size = reader.Int();
  past.receipt.fingerprint = ToArray<32>(reader.Bytes());
  past.receipt.result = reader.OptionalBytes();
  past.reset.micros = reader.Int();
  past.author.credential_id = reader.Bytes();
  past.author.reason = reader.Bytes();
  return past;
}

}  // namespace once::store::mysql
