#include "store/mysql/aggregate_statements.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "store/batch_order.h"
#include "store/mysql/sql_builder.h"

namespace once::store::mysql {
namespace {

void AppendKey(SqlBuilder& sql, const core::AggregateKey& key) {
  sql.Int(key.tenant.value).Raw(",").Int(key.handler.value).Raw(",").Bytes(key.id);
}

}  // namespace

std::string TouchAggregates(absl::Span<const core::AggregateKey> keys) {
  SqlBuilder sql(
      "INSERT INTO aggregate(tenant_id,handler_id,aggregate_id,begins,open_operations,touched_us)"
      " VALUES ");
  for (size_t i = 0; i < keys.size(); ++i) {
    sql.Raw(i == 0 ? "(" : ",(");
    AppendKey(sql, keys[i]);
    sql.Raw(",1,'',").Raw(kNowMicros).Raw(")");
  }
  // The count always changes, so that the row is always locked.
  sql.Raw(" ON DUPLICATE KEY UPDATE begins=begins+1,touched_us=VALUES(touched_us)");
  return sql.text();
}

std::string SelectAggregates(absl::Span<const core::AggregateKey> keys) {
  SqlBuilder sql(
      "SELECT tenant_id,handler_id,aggregate_id,done_version,done_event_id,open_operations"
      " FROM aggregate FORCE INDEX (PRIMARY) WHERE ");
  for (size_t i = 0; i < keys.size(); ++i) {
    sql.Raw(i == 0 ? "(tenant_id=" : " OR (tenant_id=").Int(keys[i].tenant.value);
    sql.Raw(" AND handler_id=").Int(keys[i].handler.value);
    sql.Raw(" AND aggregate_id=").Bytes(keys[i].id).Raw(")");
  }
  return sql.text();
}

absl::StatusOr<SelectedAggregate> ReadAggregate(RowReader& reader) {
  SelectedAggregate selected;
  selected.key.tenant.value = static_cast<uint32_t>(reader.Int());
  selected.key.handler.value = static_cast<uint32_t>(reader.Int());
  selected.key.id = reader.Bytes();
  const std::optional<int64_t> version = reader.OptionalInt();
  std::optional<std::string> event_id = reader.OptionalBytes();
  if (version.has_value() && event_id.has_value()) {
    selected.row.done = {.event_id = *std::move(event_id), .version = *version};
  }
  absl::StatusOr<std::vector<core::AggregateEvent>> open = ReadOpenOperations(reader.Bytes());
  if (!open.ok()) return open.status();
  selected.row.open = *std::move(open);
  return selected;
}

std::string UpdateAggregates(absl::Span<const AggregateChange> changes) {
  SqlBuilder sql(
      "INSERT INTO aggregate(tenant_id,handler_id,aggregate_id,begins,done_version,done_event_id,"
      "open_operations,touched_us) VALUES ");
  for (size_t i = 0; i < changes.size(); ++i) {
    const core::AggregateRow& row = changes[i].after;
    sql.Raw(i == 0 ? "(" : ",(");
    AppendKey(sql, changes[i].key);
    sql.Raw(",0,");
    if (row.done.has_value()) {
      sql.Int(row.done->version).Raw(",").Bytes(row.done->event_id);
    } else {
      sql.Raw("NULL,NULL");
    }
    sql.Raw(",").Bytes(WriteOpenOperations(row.open)).Raw(",0)");
  }
  sql.Raw(
      " ON DUPLICATE KEY UPDATE done_version=VALUES(done_version),"
      "done_event_id=VALUES(done_event_id),open_operations=VALUES(open_operations)");
  return sql.text();
}

}  // namespace once::store::mysql
