// The aggregates of a batch: who of its Begins may run by the order that their handlers' policies
// want, and what the aggregates' rows are to be afterwards.
//
// Not thread-safe.
#ifndef ONCE_STORE_BATCH_ORDER_H_
#define ONCE_STORE_BATCH_ORDER_H_

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "core/decide.h"
#include "core/operation.h"
#include "core/order.h"
#include "core/types.h"
#include "store/store.h"

namespace once::store {

class BatchOrder {
 public:
  // The row of an operation as this transaction sees it; null where there is none.
  using Find = absl::FunctionRef<const core::OperationRow*(const core::OperationKey& key)>;

  // For a Begin of the batch with `order`.
  void Add(const core::OperationKey& key, const core::OrderRequest& order);
  bool empty() const { return aggregates_.empty(); }

  // Locks the aggregates. Starts the session's transaction.
  absl::Status Lock(WriteSession& session);

  // The open operations of the aggregates, sorted, without repeats.
  std::vector<core::OperationKey> OpenOperations() const;

  // What keeps the Begin from a new claim; where nothing does, its operation is open from now on.
  std::optional<std::variant<core::Stale, core::InProgress>> Admit(const core::OperationKey& key,
                                                                   const core::OrderRequest& order,
                                                                   Find find, core::DbTime now);

  // Sorted by key.
  std::vector<AggregateChange> Changes() const;

 private:
  struct Aggregate {
    core::AggregateRow before;
    core::AggregateRow now;
  };
  // std::map: the iteration order is the primary key's, which is the lock order.
  std::map<core::AggregateKey, Aggregate> aggregates_;
};

// The column of open operations: "<version>:<event id in hexadecimal>", separated by commas.
std::string WriteOpenOperations(absl::Span<const core::AggregateEvent> open);
// INTERNAL where the text is damaged.
absl::StatusOr<std::vector<core::AggregateEvent>> ReadOpenOperations(absl::string_view text);

}  // namespace once::store

#endif  // ONCE_STORE_BATCH_ORDER_H_
