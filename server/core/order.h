// Order among the operations of one aggregate: a version that is already overtaken does not run,
// and at most one operation runs at a time, where the handler's policy says so.
//
// An aggregate's row is read and written by Begins alone: it remembers which operations were
// granted and not yet seen at their end. How they ended is read from their own rows, so that
// Complete, Abandon and everything else that ends an operation have nothing to do with aggregates.
//
// Plain values and pure functions; thread-safe.
#ifndef ONCE_CORE_ORDER_H_
#define ONCE_CORE_ORDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/decide.h"
#include "core/operation.h"
#include "core/types.h"

namespace once::core {

// Primary key of an aggregate. Each handler has an order of its own. Ordered as the database orders
// it.
struct AggregateKey {
  TenantId tenant;
  HandlerId handler;
  std::string id;  // 1–255 bytes
  friend auto operator<=>(const AggregateKey&, const AggregateKey&) = default;
};

// An operation as its aggregate knows it.
struct AggregateEvent {
  std::string event_id;
  int64_t version = 0;
  friend bool operator==(const AggregateEvent&, const AggregateEvent&) = default;
};

struct AggregateRow {
  std::optional<AggregateEvent> done;  // the greatest version that is known to be completed
  // Granted, and not yet seen at their end; in the order of their grants.
  std::vector<AggregateEvent> open;
  friend bool operator==(const AggregateRow&, const AggregateRow&) = default;
};

// The rows of other operations; null where there is none.
using FindOperation = absl::FunctionRef<const OperationRow*(const std::string& event_id)>;

// The aggregate without those open operations that have ended meanwhile: completed ones count as
// done, others are as if they had not begun. An operation with a claim is open whether its lease is
// over or not, because nobody knows what became of it.
AggregateRow Settle(AggregateRow aggregate, FindOperation find);

// What keeps `event_id` from a new claim; unset where nothing does. `aggregate` is settled.
// InProgress tells of the operation that has to end first.
std::optional<std::variant<Stale, InProgress>> CheckOrder(const AggregateRow& aggregate,
                                                          const std::string& event_id,
                                                          const OrderRequest& order,
                                                          FindOperation find, DbTime now);

// What a Begin that waits for the end of another operation is told while `blocking` (null: there is
// none) is as it is; unset where it does not have to wait any more.
std::optional<InProgress> BlockedBy(const std::string& blocking_event_id,
                                    const OperationRow* blocking, DbTime now);

// The aggregate after `event` was granted.
AggregateRow WithOpen(AggregateRow aggregate, AggregateEvent event);

}  // namespace once::core

#endif  // ONCE_CORE_ORDER_H_
