#include "store/batch_order.h"

#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace once::store {
namespace {

using core::OperationKey;

core::AggregateKey AggregateOf(const OperationKey& key, const core::OrderRequest& order) {
  return {.tenant = key.tenant, .handler = key.handler, .id = order.aggregate_id};
}

}  // namespace

void BatchOrder::Add(const OperationKey& key, const core::OrderRequest& order) {
  aggregates_.try_emplace(AggregateOf(key, order));
}

absl::Status BatchOrder::Lock(WriteSession& session) {
  std::vector<core::AggregateKey> keys;
  keys.reserve(aggregates_.size());
  for (const auto& [key, aggregate] : aggregates_) keys.push_back(key);
  absl::StatusOr<std::vector<core::AggregateRow>> rows = session.LockAggregates(keys);
  if (!rows.ok()) return rows.status();
  if (rows->size() != keys.size()) {
    return absl::InternalError("the store answered for another number of aggregates than asked");
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    Aggregate& aggregate = aggregates_.at(keys[i]);
    aggregate.before = aggregate.now = std::move((*rows)[i]);
  }
  return absl::OkStatus();
}

std::vector<OperationKey> BatchOrder::OpenOperations() const {
  std::set<OperationKey> keys;
  for (const auto& [key, aggregate] : aggregates_) {
    for (const core::AggregateEvent& open : aggregate.before.open) {
      keys.insert({key.tenant, key.handler, open.event_id});
    }
  }
  return {keys.begin(), keys.end()};
}

std::optional<std::variant<core::Stale, core::InProgress>> BatchOrder::Admit(
    const OperationKey& key, const core::OrderRequest& order, Find find, core::DbTime now) {
  core::AggregateRow& aggregate = aggregates_.at(AggregateOf(key, order)).now;
  const auto find_event = [&](const std::string& event_id) {
    return find({key.tenant, key.handler, event_id});
  };
  aggregate = core::Settle(std::move(aggregate), find_event);
  auto kept = core::CheckOrder(aggregate, key.event_id, order, find_event, now);
  if (!kept.has_value()) {
    aggregate =
        core::WithOpen(std::move(aggregate), {.event_id = key.event_id, .version = order.version});
  }
  return kept;
}

std::vector<AggregateChange> BatchOrder::Changes() const {
  std::vector<AggregateChange> changes;
  for (const auto& [key, aggregate] : aggregates_) {
    if (aggregate.now != aggregate.before) changes.push_back({.key = key, .after = aggregate.now});
  }
  return changes;
}

std::string WriteOpenOperations(absl::Span<const core::AggregateEvent> open) {
  return absl::StrJoin(open, ",", [](std::string* out, const core::AggregateEvent& event) {
    absl::StrAppend(out, event.version, ":", absl::BytesToHexString(event.event_id));
  });
}

absl::StatusOr<std::vector<core::AggregateEvent>> ReadOpenOperations(absl::string_view text) {
  std::vector<core::AggregateEvent> open;
  if (text.empty()) return open;
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(item, absl::MaxSplits(':', 1));
    core::AggregateEvent& event = open.emplace_back();
    event.event_id = absl::HexStringToBytes(parts.second);
    if (!absl::SimpleAtoi(parts.first, &event.version) ||
        absl::BytesToHexString(event.event_id) != parts.second) {
      return absl::InternalError("a row of table aggregate is damaged");
    }
  }
  return open;
}

}  // namespace once::store
