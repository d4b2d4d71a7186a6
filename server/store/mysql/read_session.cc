#include "store/mysql/read_session.h"

#include <algorithm>

#include "store/mysql/statements.h"

namespace once::store::mysql {
namespace {

using core::OperationKey;

std::vector<const OperationKey*> PointersTo(absl::Span<const OperationKey> keys) {
  std::vector<const OperationKey*> pointers;
  pointers.reserve(keys.size());
  for (const OperationKey& key : keys) pointers.push_back(&key);
  return pointers;
}

// `keys` is sorted. The size of it where `key` is not in there.
size_t IndexOf(absl::Span<const OperationKey> keys, const OperationKey& key) {
  const auto it = std::lower_bound(keys.begin(), keys.end(), key);
  if (it == keys.end() || *it != key) return keys.size();
  return static_cast<size_t>(it - keys.begin());
}

}  // namespace

absl::Status MysqlReadSession::CheckCurrent() {
  if (opener_.IsCurrent(session_)) return absl::OkStatus();
  session_.connection->Close();
  return absl::UnavailableError("the sessions moved to another host");
}

absl::StatusOr<RowSet> MysqlReadSession::Read(absl::Span<const OperationKey> keys) {
  if (absl::Status status = CheckCurrent(); !status.ok()) return status;
  RowSet rows;
  rows.others.resize(keys.size());
  bool read_only = false;
  for (const RowStatement& statement :
       SelectOperations(PointersTo(keys), session_.statement_bytes)) {
    const absl::Status status = session_.connection->Query(statement.sql, [&](RowReader& reader) {
      SelectedOperation selected = ReadOperation(reader);
      rows.now = std::max(rows.now, selected.moment.now);
      read_only = read_only || selected.moment.read_only;
      const size_t index = IndexOf(keys, selected.key);
      if (index < keys.size()) rows.others[index] = std::move(selected.row);
    });
    if (!status.ok()) return status;
  }
  if (rows.now.micros == 0) {
    const absl::Status status = session_.connection->Query(SelectNow(), [&](RowReader& reader) {
      const ServerMoment moment = ReadNow(reader);
      rows.now = moment.now;
      read_only = moment.read_only;
    });
    if (!status.ok()) return status;
  }
  if (read_only && opener_.ReadsNeedWritableHost()) {
    session_.connection->Close();
    return absl::UnavailableError("the server has become read-only and may lag");
  }
  return rows;
}

absl::StatusOr<std::vector<std::optional<std::string>>> MysqlReadSession::ReadBodies(
    absl::Span<const OperationKey> keys) {
  if (absl::Status status = CheckCurrent(); !status.ok()) return status;
  std::vector<std::optional<std::string>> bodies(keys.size());
  for (const RowStatement& statement : SelectBodies(PointersTo(keys), session_.statement_bytes)) {
    const absl::Status status = session_.connection->Query(statement.sql, [&](RowReader& reader) {
      OperationKey key;
      key.tenant.value = reader.Uint32();
      key.handler.value = reader.Uint32();
      key.event_id = reader.Bytes();
      const size_t index = IndexOf(keys, key);
      if (index < keys.size()) bodies[index] = reader.Bytes();
    });
    if (!status.ok()) return status;
  }
  return bodies;
}

}  // namespace once::store::mysql
