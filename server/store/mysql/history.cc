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

}  // namespace once::store::mysql
