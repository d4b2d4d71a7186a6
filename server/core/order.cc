#include "core/order.h"

#include <algorithm>

namespace once::core {

AggregateRow Settle(AggregateRow aggregate, FindOperation find) {
  std::vector<AggregateEvent> open;
  for (AggregateEvent& event : aggregate.open) {
    const OperationRow* const row = find(event.event_id);
    if (row != nullptr && row->state == RowState::kClaimed) {
      open.push_back(std::move(event));
    } else if (row != nullptr && row->receipt.has_value() &&
               (!aggregate.done.has_value() || aggregate.done->version < event.version)) {
      aggregate.done = std::move(event);
    }
  }
  aggregate.open = std::move(open);
  return aggregate;
}

std::optional<std::variant<Stale, InProgress>> CheckOrder(const AggregateRow& aggregate,
                                                          const std::string& event_id,
                                                          const OrderRequest& order,
                                                          FindOperation find, DbTime now) {
  if (order.guards_versions && aggregate.done.has_value() &&
      aggregate.done->version >= order.version && aggregate.done->event_id != event_id) {
    return Stale{.aggregate_id = order.aggregate_id,
                 .current_version = aggregate.done->version,
                 .current_event_id = aggregate.done->event_id};
  }
  if (!order.one_at_a_time) return std::nullopt;
  for (const AggregateEvent& open : aggregate.open) {
    if (open.event_id == event_id) continue;
    if (auto blocked = BlockedBy(open.event_id, find(open.event_id), now)) {
      return *std::move(blocked);
    }
  }
  return std::nullopt;
}

std::optional<InProgress> BlockedBy(const std::string& blocking_event_id,
                                    const OperationRow* blocking, DbTime now) {
  if (blocking == nullptr || blocking->state != RowState::kClaimed) return std::nullopt;
  return InProgress{
      .reason = InProgress::Reason::kAggregateBusy,
      .consumer = blocking->claim.consumer,
      .handler_version = blocking->claim.handler_version,
      .lease_remaining = std::max(absl::ZeroDuration(), blocking->claim.lease_expires - now),
      .begun = blocking->claim.begun,
      .attempt_number = blocking->claims,
      .first_digest = std::nullopt,
      .blocking_event_id = blocking_event_id};
}

AggregateRow WithOpen(AggregateRow aggregate, AggregateEvent event) {
  std::erase_if(aggregate.open,
                [&](const AggregateEvent& open) { return open.event_id == event.event_id; });
  aggregate.open.push_back(std::move(event));
  return aggregate;
}

}  // namespace once::core
