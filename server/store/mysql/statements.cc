#include "store/mysql/statements.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "core/limits.h"
#include "store/mysql/sql_builder.h"

namespace once::store::mysql {
namespace {

using core::OperationKey;
using core::RowState;

// Large bodies are read a few at a time: each may be as large as a result may be.
constexpr size_t kBodiesPerSelect = 16;
constexpr size_t kKeysPerSelect = 1000;
// MariaDB turns longer lists into a join with a temporary table.
constexpr size_t kKeysPerList = 200;
// A CASE is searched from its start for every row.
constexpr size_t kRowsPerUpdate = 64;
constexpr size_t kFewestBoundRows = 8;
constexpr size_t kMostBoundRows = 64;

constexpr absl::string_view kMomentColumns =
    "TIMESTAMPDIFF(MICROSECOND,'1970-01-01 00:00:00',SYSDATE(6)),@@global.read_only";

// What ReadOperation reads after the moment.
constexpr absl::string_view kOperationColumns =
    "tenant_id,handler_id,event_id,digest_scheme,digest,state,"
    "attempt_id,fence,claimed_us,lease_expires_us,consumer,handler_version,"
    "claims,deliveries,first_seen_us,"
    "prev_attempt_id,prev_fence,prev_claimed_us,prev_lease_expires_us,prev_consumer,"
    "prev_handler_version,unknown_attempts,"
    "status,completed_us,content_type,result_size,result_sha256,result";

void AppendKey(SqlBuilder& sql, const OperationKey& key) {
  sql.Int(key.tenant.value).Raw(",").Int(key.handler.value).Raw(",").Bytes(key.event_id);
}

void AppendState(SqlBuilder& sql, RowState state) { sql.Int(static_cast<int>(state)); }

size_t BytesOf(absl::Span<const BoundValue> values) {
  size_t bytes = 0;
  for (const BoundValue& value : values) {
    bytes += sizeof value.number + value.bytes.size();
  }
  return bytes;
}

// Puts rows between a head and a tail, starting a new statement where the limit would be exceeded.
// Bound statements have a shape for each number of rows, so that number is bounded.
template <typename Row>
std::vector<RowStatement> SplitRows(
    absl::Span<const Row> rows, Values form, size_t limit, absl::string_view head,
    absl::string_view separator, absl::string_view tail,
    absl::FunctionRef<void(SqlBuilder&, const Row&, bool first)> append) {
  std::vector<RowStatement> statements;
  for (size_t i = 0; i < rows.size();) {
    const bool bound = form == Values::kBound && rows.size() - i >= kFewestBoundRows;
    const size_t most = bound ? kMostBoundRows : rows.size();
    RowStatement& statement = statements.emplace_back();
    std::vector<BoundValue>& values = statement.values;
    SqlBuilder sql(head);
    size_t bytes = head.size() + tail.size();
    for (; i < rows.size() && statement.rows < most; ++i, ++statement.rows) {
      const size_t first_value = values.size();
      SqlBuilder row({}, bound ? &values : nullptr);
      append(row, rows[i], statement.rows == 0);
      bytes += separator.size() + row.size() + BytesOf(absl::MakeSpan(values).subspan(first_value));
      if (statement.rows > 0 && bytes > limit) {
        values.resize(first_value);
        break;
      }
      if (statement.rows > 0) sql.Raw(separator);
      sql.Raw(row.text());
    }
    sql.Raw(tail);
    statement.sql = sql.text();
  }
  return statements;
}

// "(tenant_id=1 AND handler_id=2 AND event_id IN (x'..',x'..')) OR (…)": the one form for which
// both servers use ranges of the primary key at every size.
class KeyCondition {
 public:
  explicit KeyCondition(SqlBuilder& sql) : sql_(sql) {}

  void Add(const OperationKey& key) {
    const bool same_list = last_ != nullptr && last_->tenant == key.tenant &&
                           last_->handler == key.handler && in_list_ < kKeysPerList;
    if (same_list) {
      sql_.Raw(",");
    } else {
      sql_.Raw(last_ == nullptr ? "(tenant_id=" : ")) OR (tenant_id=");
      sql_.Int(key.tenant.value).Raw(" AND handler_id=").Int(key.handler.value);
      sql_.Raw(" AND event_id IN (");
      in_list_ = 0;
    }
    sql_.Bytes(key.event_id);
    ++in_list_;
    last_ = &key;
  }
  void Close() { sql_.Raw("))"); }

 private:
  SqlBuilder& sql_;
  const OperationKey* last_ = nullptr;
  size_t in_list_ = 0;
};

std::vector<RowStatement> SelectByKeys(absl::string_view head,
                                       absl::Span<const OperationKey* const> keys,
                                       size_t keys_per_statement, size_t limit) {
  std::vector<RowStatement> statements;
  for (size_t i = 0; i < keys.size();) {
    SqlBuilder sql(head);
    KeyCondition condition(sql);
    size_t count = 0;
    constexpr size_t kWidestKey = 2 * core::kMaxEventIdBytes + 100;
    while (i < keys.size() && count < keys_per_statement &&
           (count == 0 || sql.size() + kWidestKey <= limit)) {
      condition.Add(*keys[i++]);
      ++count;
    }
    condition.Close();
    statements.push_back({.sql = sql.text(), .rows = count});
  }
  return statements;
}

// ---- guarded changes ----

struct Column {
  absl::string_view name;
  void (*append)(SqlBuilder&, const RowChange&);
};

const Column kClaimColumns[] = {
    {"state", [](SqlBuilder& sql, const RowChange& c) { AppendState(sql, c.after.state); }},
    {"attempt_id",
     [](SqlBuilder& sql, const RowChange& c) { sql.Bytes(c.after.claim.attempt.bytes); }},
    {"fence", [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.after.claim.fence.value); }},
    {"claimed_us",
     [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.after.claim.begun.micros); }},
    {"lease_expires_us",
     [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.after.claim.lease_expires.micros); }},
    {"consumer", [](SqlBuilder& sql, const RowChange& c) { sql.Bytes(c.after.claim.consumer); }},
    {"handler_version",
     [](SqlBuilder& sql, const RowChange& c) { sql.Bytes(c.after.claim.handler_version); }},
    {"claims", [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.after.claims); }},
    {"unknown_attempts",
     [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.after.unknown_attempts); }},
    {"prev_attempt_id",
     [](SqlBuilder& sql, const RowChange& c) {
       c.after.unknown ? sql.Bytes(c.after.unknown->attempt.bytes) : sql.Raw("NULL");
     }},
    {"prev_fence",
     [](SqlBuilder& sql, const RowChange& c) {
       c.after.unknown ? sql.Int(c.after.unknown->fence.value) : sql.Raw("NULL");
     }},
    {"prev_claimed_us",
     [](SqlBuilder& sql, const RowChange& c) {
       c.after.unknown ? sql.Int(c.after.unknown->begun.micros) : sql.Raw("NULL");
     }},
    {"prev_lease_expires_us",
     [](SqlBuilder& sql, const RowChange& c) {
       c.after.unknown ? sql.Int(c.after.unknown->lease_expires.micros) : sql.Raw("NULL");
     }},
    {"prev_consumer",
     [](SqlBuilder& sql, const RowChange& c) {
       c.after.unknown ? sql.Bytes(c.after.unknown->consumer) : sql.Raw("NULL");
     }},
    {"prev_handler_version",
     [](SqlBuilder& sql, const RowChange& c) {
       c.after.unknown ? sql.Bytes(c.after.unknown->handler_version) : sql.Raw("NULL");
     }},
};

const Column kLeaseColumns[] = {
    {"state", [](SqlBuilder& sql, const RowChange& c) { AppendState(sql, c.after.state); }},
    {"lease_expires_us",
     [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.after.claim.lease_expires.micros); }},
};

// A large result lies in receipt_body, and in no row where nobody gave it (a tombstone).
bool IsInline(const core::Receipt& receipt) {
  return receipt.result.has_value() && receipt.result->size() <= core::kMaxInlineResultBytes;
}

const Column kCompletionColumns[] = {
    {"state", [](SqlBuilder& sql, const RowChange& c) { AppendState(sql, c.after.state); }},
    {"status", [](SqlBuilder& sql,
                  const RowChange& c) { sql.Int(static_cast<int>(c.after.receipt->status)); }},
    {"completed_us",
     [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.after.receipt->completed.micros); }},
    {"content_type",
     [](SqlBuilder& sql, const RowChange& c) { sql.Bytes(c.after.receipt->content_type); }},
    {"result_size",
     [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.after.receipt->result_size); }},
    {"result_sha256",
     [](SqlBuilder& sql, const RowChange& c) { sql.Bytes(c.after.receipt->fingerprint); }},
    {"result",
     [](SqlBuilder& sql, const RowChange& c) {
       IsInline(*c.after.receipt) ? sql.Bytes(*c.after.receipt->result) : sql.Raw("NULL");
     }},
};

void AppendNull(SqlBuilder& sql, const RowChange&) { sql.Raw("NULL"); }

const Column kResetColumns[] = {
    {"state", [](SqlBuilder& sql, const RowChange& c) { AppendState(sql, c.after.state); }},
    {"lease_expires_us",
     [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.after.claim.lease_expires.micros); }},
    {"unknown_attempts",
     [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.after.unknown_attempts); }},
    {"prev_attempt_id", AppendNull},
    {"prev_fence", AppendNull},
    {"prev_claimed_us", AppendNull},
    {"prev_lease_expires_us", AppendNull},
    {"prev_consumer", AppendNull},
    {"prev_handler_version", AppendNull},
    {"status", AppendNull},
    {"completed_us", AppendNull},
    {"content_type", AppendNull},
    {"result_size", AppendNull},
    {"result_sha256", AppendNull},
    {"result", AppendNull},
};

const Column kFreshTimesColumns[] = {
    {"fence", [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.after.claim.fence.value); }},
    {"claimed_us",
     [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.after.claim.begun.micros); }},
    {"first_seen_us",
     [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.after.first_seen.micros); }},
    {"lease_expires_us",
     [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.after.claim.lease_expires.micros); }},
};

absl::Span<const Column> ColumnsOf(ChangedColumns columns) {
  switch (columns) {
    case ChangedColumns::kClaim:
      return kClaimColumns;
    case ChangedColumns::kLease:
      return kLeaseColumns;
    case ChangedColumns::kCompletion:
      return kCompletionColumns;
    case ChangedColumns::kReset:
      return kResetColumns;
    case ChangedColumns::kFreshTimes:
      return kFreshTimesColumns;
  }
  return {};
}

const Column kGuardColumns[] = {
    {"state", [](SqlBuilder& sql, const RowChange& c) { AppendState(sql, c.state_before); }},
    {"attempt_id", [](SqlBuilder& sql, const RowChange& c) { sql.Bytes(c.attempt_before.bytes); }},
    {"fence", [](SqlBuilder& sql, const RowChange& c) { sql.Int(c.fence_before.value); }},
};

// The value of a column in each of the rows: itself where all have the same, otherwise chosen by
// the event id, which must differ from row to row.
void AppendValue(SqlBuilder& sql, const Column& column,
                 absl::Span<const RowChange* const> changes) {
  std::vector<std::string> values;
  values.reserve(changes.size());
  bool same = true;
  for (const RowChange* change : changes) {
    SqlBuilder value;
    column.append(value, *change);
    values.push_back(value.text());
    same = same && values.back() == values.front();
  }
  if (same) {
    sql.Raw(values.front());
    return;
  }
  sql.Raw("CASE event_id");
  for (size_t i = 0; i < changes.size(); ++i) {
    sql.Raw(" WHEN ").Bytes(changes[i]->key.event_id).Raw(" THEN ").Raw(values[i]);
  }
  sql.Raw(" END");
}

// How many of the rows, from the first on, one UPDATE may change: the event ids tell them apart,
// and each row is looked for from the start of every CASE.
size_t RowsOfUpdate(absl::Span<const Column> written, absl::Span<const RowChange* const> changes,
                    size_t limit) {
  constexpr size_t kWidestValues = 4096;
  absl::flat_hash_set<absl::string_view> ids;
  size_t bytes = 0;
  size_t count = 0;
  for (; count < std::min(changes.size(), kRowsPerUpdate); ++count) {
    const std::string& id = changes[count]->key.event_id;
    bytes += kWidestValues + (written.size() + 4) * (2 * id.size() + 32);
    if (count > 0 && bytes > limit) break;
    if (!ids.insert(id).second) break;
  }
  return count;
}

RowStatement UpdateRows(absl::Span<const Column> written,
                        absl::Span<const RowChange* const> changes) {
  SqlBuilder sql("UPDATE operation FORCE INDEX (PRIMARY) SET ");
  for (size_t i = 0; i < written.size(); ++i) {
    sql.Raw(i == 0 ? "" : ",").Raw(written[i].name).Raw("=");
    AppendValue(sql, written[i], changes);
  }
  sql.Raw(" WHERE (");
  KeyCondition condition(sql);
  for (const RowChange* change : changes) condition.Add(change->key);
  condition.Close();
  sql.Raw(")");
  for (const Column& guard : kGuardColumns) {
    sql.Raw(" AND ").Raw(guard.name).Raw("=");
    AppendValue(sql, guard, changes);
  }
  return {.sql = sql.text(), .rows = changes.size()};
}

// Key and guard of one change as a row of the derived table `v`.
void AppendGuardRow(SqlBuilder& sql, const RowChange& change, bool first) {
  sql.Raw("SELECT ").Int(change.key.tenant.value).Raw(first ? " AS t," : ",");
  sql.Int(change.key.handler.value).Raw(first ? " AS h," : ",");
  sql.Bytes(change.key.event_id).Raw(first ? " AS e," : ",");
  AppendState(sql, change.state_before);
  sql.Raw(first ? " AS s," : ",").Bytes(change.attempt_before.bytes).Raw(first ? " AS a," : ",");
  sql.Int(change.fence_before.value).Raw(first ? " AS f" : "");
}

constexpr absl::string_view kGuardJoin =
    ") v STRAIGHT_JOIN operation o FORCE INDEX (PRIMARY)"
    " ON o.tenant_id=v.t AND o.handler_id=v.h AND o.event_id=v.e";
constexpr absl::string_view kGuardCondition =
    " WHERE o.state=v.s AND o.attempt_id=v.a AND o.fence=v.f";

// ---- attempt log ----

struct AttemptColumn {
  absl::string_view name;
  void (*append)(SqlBuilder&, const AttemptEntry&);
};

const AttemptColumn kAttemptColumns[] = {
    {"tenant_id", [](SqlBuilder& sql, const AttemptEntry& e) { sql.Int(e.key.tenant.value); }},
    {"handler_id", [](SqlBuilder& sql, const AttemptEntry& e) { sql.Int(e.key.handler.value); }},
    {"event_id", [](SqlBuilder& sql, const AttemptEntry& e) { sql.Bytes(e.key.event_id); }},
    {"entry_id", [](SqlBuilder& sql, const AttemptEntry& e) { sql.Bytes(e.entry); }},
    {"attempt_id", [](SqlBuilder& sql, const AttemptEntry& e) { sql.Bytes(e.attempt.bytes); }},
    {"kind", [](SqlBuilder& sql, const AttemptEntry& e) { sql.Int(static_cast<int>(e.kind)); }},
    {"outcome",
     [](SqlBuilder& sql, const AttemptEntry& e) { sql.Int(static_cast<int>(e.outcome)); }},
    {"fence", [](SqlBuilder& sql, const AttemptEntry& e) { sql.Int(e.fence.value); }},
    {"attempt_number", [](SqlBuilder& sql, const AttemptEntry& e) { sql.Int(e.attempt_number); }},
    {"delivery_source", [](SqlBuilder& sql, const AttemptEntry& e) { sql.Int(e.delivery.source); }},
    {"logged_us", [](SqlBuilder& sql, const AttemptEntry&) { sql.Raw(kNowMicros); }},
};

// Columns that are NULL in most entries: they cost nothing in a statement none of whose rows has
// them.
struct OptionalAttemptColumn {
  absl::string_view name;
  bool (*present)(const AttemptEntry&);
  void (*append)(SqlBuilder&, const AttemptEntry&);
};

template <auto member>
constexpr OptionalAttemptColumn TextOfEntry(absl::string_view name) {
  return {name, [](const AttemptEntry& e) { return !(e.*member).empty(); },
          [](SqlBuilder& sql, const AttemptEntry& e) { sql.Bytes(e.*member); }};
}
template <auto member>
constexpr OptionalAttemptColumn TextOfDelivery(absl::string_view name) {
  return {name, [](const AttemptEntry& e) { return !(e.delivery.*member).empty(); },
          [](SqlBuilder& sql, const AttemptEntry& e) { sql.Bytes(e.delivery.*member); }};
}

bool HasDigest(const AttemptEntry& e) { return e.digest.has_value(); }

const OptionalAttemptColumn kOptionalAttemptColumns[] = {
    {"digest_scheme", HasDigest,
     [](SqlBuilder& sql, const AttemptEntry& e) { sql.Int(static_cast<int>(e.digest->scheme)); }},
    {"digest", HasDigest,
     [](SqlBuilder& sql, const AttemptEntry& e) { sql.Bytes(e.digest->sha256); }},
    TextOfEntry<&AttemptEntry::consumer>("consumer"),
    TextOfEntry<&AttemptEntry::handler_version>("handler_version"),
    TextOfEntry<&AttemptEntry::note>("note"),
    TextOfDelivery<&DeliveryInfo::reference>("delivery_reference"),
    TextOfDelivery<&DeliveryInfo::cause_handler>("cause_handler"),
    TextOfDelivery<&DeliveryInfo::cause_event_id>("cause_event_id"),
    TextOfDelivery<&DeliveryInfo::cause_reason>("cause_reason"),
    TextOfDelivery<&DeliveryInfo::aggregate_id>("aggregate_id"),
    // A version means something with an aggregate only.
    {"aggregate_version", [](const AttemptEntry& e) { return !e.delivery.aggregate_id.empty(); },
     [](SqlBuilder& sql, const AttemptEntry& e) { sql.Int(e.delivery.aggregate_version); }},
};

template <size_t n>
std::array<uint8_t, n> ToArray(absl::string_view bytes) {
  std::array<uint8_t, n> out{};
  std::memcpy(out.data(), bytes.data(), std::min(n, bytes.size()));
  return out;
}

core::ClaimInfo ReadClaim(RowReader& reader) {
  core::ClaimInfo claim;
  claim.attempt.bytes = ToArray<16>(reader.Bytes());
  claim.fence.value = reader.Int();
  claim.begun.micros = reader.Int();
  claim.lease_expires.micros = reader.Int();
  claim.consumer = reader.Bytes();
  claim.handler_version = reader.Bytes();
  return claim;
}

std::optional<core::ClaimInfo> ReadUnknown(RowReader& reader) {
  core::ClaimInfo claim;
  const std::optional<std::string> attempt = reader.OptionalBytes();
  claim.fence.value = reader.Int();
  claim.begun.micros = reader.Int();
  claim.lease_expires.micros = reader.Int();
  claim.consumer = reader.Bytes();
  claim.handler_version = reader.Bytes();
  if (!attempt.has_value()) return std::nullopt;
  claim.attempt.bytes = ToArray<16>(*attempt);
  return claim;
}

std::optional<core::Receipt> ReadReceipt(RowReader& reader) {
  const std::optional<int64_t> status = reader.OptionalInt();
  core::Receipt receipt;
  receipt.completed.micros = reader.Int();
  receipt.content_type = reader.Bytes();
  receipt.result_size = reader.Int();
  receipt.fingerprint = ToArray<32>(reader.Bytes());
  receipt.result = reader.OptionalBytes();
  if (!status.has_value()) return std::nullopt;
  receipt.status = static_cast<core::ReceiptStatus>(*status);
  return receipt;
}

}  // namespace

size_t RowStatement::bytes() const { return sql.size() + BytesOf(values); }

std::vector<RowStatement> InsertOperations(absl::Span<const NewOperation> rows, bool returning,
                                           Values values, size_t limit) {
  const std::string tail = absl::StrCat(
      " ON DUPLICATE KEY UPDATE deliveries=deliveries+VALUES(deliveries)",
      returning ? absl::StrCat(" RETURNING ", kMomentColumns, ",", kOperationColumns) : "");
  // A column that was given before may be used in the values after it: one look at the clock gives
  // all times of a row.
  return SplitRows<NewOperation>(
      rows, values, limit,
      "INSERT INTO operation(tenant_id,handler_id,event_id,digest_scheme,digest,state,attempt_id,"
      "fence,claimed_us,first_seen_us,lease_expires_us,claims,deliveries,consumer,handler_version,"
      "unknown_attempts) VALUES ",
      ",", tail, [](SqlBuilder& sql, const NewOperation& row, bool) {
        sql.Raw("(");
        AppendKey(sql, row.key);
        sql.Raw(",").Int(static_cast<int>(row.digest.scheme)).Raw(",").Bytes(row.digest.sha256);
        sql.Raw(",");
        AppendState(sql, RowState::kClaimed);
        sql.Raw(",").Bytes(row.attempt.bytes).Raw(",").Raw(kNowMicros).Raw(",fence,fence,fence+");
        sql.Int(absl::ToInt64Microseconds(row.lease)).Raw(",1,").Int(row.deliveries);
        sql.Raw(",").Bytes(row.consumer).Raw(",").Bytes(row.handler_version).Raw(",0)");
      });
}

std::vector<RowStatement> SelectOperations(absl::Span<const OperationKey* const> keys,
                                           size_t limit) {
  return SelectByKeys(absl::StrCat("SELECT ", kMomentColumns, ",", kOperationColumns,
                                   " FROM operation FORCE INDEX (PRIMARY) WHERE "),
                      keys, kKeysPerSelect, limit);
}

SelectedOperation ReadOperation(RowReader& reader) {
  SelectedOperation selected;
  selected.moment = ReadNow(reader);
  selected.key.tenant.value = reader.Uint32();
  selected.key.handler.value = reader.Uint32();
  selected.key.event_id = reader.Bytes();
  core::OperationRow& row = selected.row;
  row.digest.scheme = static_cast<core::DigestScheme>(reader.Int());
  row.digest.sha256 = ToArray<32>(reader.Bytes());
  row.state = static_cast<RowState>(reader.Int());
  row.claim = ReadClaim(reader);
  row.claims = static_cast<int32_t>(reader.Int());
  row.deliveries = reader.Int();
  row.first_seen.micros = reader.Int();
  row.unknown = ReadUnknown(reader);
  row.unknown_attempts = static_cast<int32_t>(reader.Int());
  row.receipt = ReadReceipt(reader);
  return selected;
}

std::vector<RowStatement> UpdateOperations(ChangedColumns columns,
                                           absl::Span<const RowChange* const> changes,
                                           size_t limit) {
  const absl::Span<const Column> written = ColumnsOf(columns);
  std::vector<RowStatement> statements;
  while (!changes.empty()) {
    const size_t rows = RowsOfUpdate(written, changes, limit);
    statements.push_back(UpdateRows(written, changes.first(rows)));
    changes.remove_prefix(rows);
  }
  return statements;
}

std::vector<RowStatement> DeleteOperations(absl::Span<const RowChange* const> changes,
                                           size_t limit) {
  return SplitRows<const RowChange*>(changes, Values::kInText, limit, "DELETE o FROM (",
                                     " UNION ALL ", absl::StrCat(kGuardJoin, kGuardCondition),
                                     [](SqlBuilder& sql, const RowChange* const& change,
                                        bool first) { AppendGuardRow(sql, *change, first); });
}

std::vector<RowStatement> InsertBodies(absl::Span<const RowChange* const> completions,
                                       size_t limit) {
  std::vector<const RowChange*> large;
  for (const RowChange* change : completions) {
    const core::Receipt& receipt = *change->after.receipt;
    if (receipt.result.has_value() && !IsInline(receipt)) large.push_back(change);
  }
  return SplitRows<const RowChange*>(
      large, Values::kInText, limit,
      "INSERT INTO receipt_body(tenant_id,handler_id,event_id,body) VALUES ", ",",
      " ON DUPLICATE KEY UPDATE body=VALUES(body)",
      [](SqlBuilder& sql, const RowChange* const& change, bool) {
        sql.Raw("(");
        AppendKey(sql, change->key);
        sql.Raw(",").Bytes(*change->after.receipt->result).Raw(")");
      });
}

std::vector<RowStatement> SelectBodies(absl::Span<const OperationKey* const> keys, size_t limit) {
  return SelectByKeys(
      "SELECT tenant_id,handler_id,event_id,body FROM receipt_body FORCE INDEX (PRIMARY) WHERE ",
      keys, kBodiesPerSelect, limit);
}

std::string InsertPastReceipt(const RowChange& reset) {
  SqlBuilder sql(
      "INSERT INTO past_receipt(tenant_id,handler_id,event_id,fence,attempt_id,handler_version,"
      "status,completed_us,content_type,result_size,result_sha256,result,reset_us,credential_id,"
      "reason) SELECT o.tenant_id,o.handler_id,o.event_id,o.fence,o.attempt_id,o.handler_version,"
      "o.status,o.completed_us,o.content_type,o.result_size,o.result_sha256,"
      "COALESCE(o.result,b.body),");
  sql.Raw(kNowMicros).Raw(",").Bytes(reset.author.credential_id).Raw(",");
  sql.Bytes(reset.author.reason);
  sql.Raw(
      " FROM operation o FORCE INDEX (PRIMARY) LEFT JOIN receipt_body b ON"
      " b.tenant_id=o.tenant_id AND b.handler_id=o.handler_id AND b.event_id=o.event_id"
      " WHERE o.tenant_id=");
  sql.Int(reset.key.tenant.value).Raw(" AND o.handler_id=").Int(reset.key.handler.value);
  sql.Raw(" AND o.event_id=").Bytes(reset.key.event_id);
  sql.Raw(" AND o.fence=").Int(reset.fence_before.value).Raw(" AND o.state=");
  AppendState(sql, reset.state_before);
  return sql.text();
}

std::string DeleteBody(const OperationKey& key) {
  SqlBuilder sql("DELETE FROM receipt_body WHERE tenant_id=");
  sql.Int(key.tenant.value).Raw(" AND handler_id=").Int(key.handler.value);
  sql.Raw(" AND event_id=").Bytes(key.event_id);
  return sql.text();
}

std::vector<RowStatement> InsertAttempts(absl::Span<const AttemptEntry> entries, bool repeated,
                                         Values values, size_t limit) {
  std::string head = "INSERT INTO attempt(";
  for (const AttemptColumn& column : kAttemptColumns) absl::StrAppend(&head, column.name, ",");
  std::vector<const OptionalAttemptColumn*> used;
  for (const OptionalAttemptColumn& column : kOptionalAttemptColumns) {
    if (std::none_of(entries.begin(), entries.end(), column.present)) continue;
    used.push_back(&column);
    absl::StrAppend(&head, column.name, ",");
  }
  head.back() = ')';
  head += " VALUES ";
  return SplitRows<AttemptEntry>(
      entries, values, limit, head, ",",
      repeated ? " ON DUPLICATE KEY UPDATE entry_id=attempt.entry_id" : "",
      [&used](SqlBuilder& sql, const AttemptEntry& entry, bool) {
        absl::string_view separator = "(";
        for (const AttemptColumn& column : kAttemptColumns) {
          sql.Raw(separator);
          separator = ",";
          column.append(sql, entry);
        }
        for (const OptionalAttemptColumn* column : used) {
          sql.Raw(",");
          column->present(entry) ? column->append(sql, entry) : (void)sql.Null();
        }
        sql.Raw(")");
      });
}

std::string InsertAudit(const AuditRow& row) {
  SqlBuilder sql(
      "INSERT INTO audit_record(tenant_id,action,subject,state_before,state_after,credential_id,"
      "reason,created_us) VALUES (");
  sql.Int(row.tenant.value).Raw(",").Int(static_cast<int>(row.action)).Raw(",");
  sql.Bytes(row.subject).Raw(",").BytesOrNull(row.before).Raw(",").BytesOrNull(row.after).Raw(",");
  sql.Bytes(row.author.credential_id).Raw(",").Bytes(row.author.reason).Raw(",");
  sql.Raw(kNowMicros).Raw(")");
  return sql.text();
}

std::string SelectNow() { return absl::StrCat("SELECT ", kMomentColumns); }

ServerMoment ReadNow(RowReader& reader) {
  ServerMoment moment;
  moment.now.micros = reader.Int();
  moment.read_only = IsOn(reader.Bytes());
  return moment;
}

}  // namespace once::store::mysql
