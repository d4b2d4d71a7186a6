// The SQL of aggregates, one function per statement; as statements.h.
//
// Thread-safe: functions of values.
#ifndef ONCE_STORE_MYSQL_AGGREGATE_STATEMENTS_H_
#define ONCE_STORE_MYSQL_AGGREGATE_STATEMENTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/order.h"
#include "store/mysql/connection.h"
#include "store/store.h"

namespace once::store::mysql {

// Makes the rows that do not exist, and locks all.
std::string TouchAggregates(absl::Span<const core::AggregateKey> keys);

std::string SelectAggregates(absl::Span<const core::AggregateKey> keys);
struct SelectedAggregate {
  core::AggregateKey key;
  core::AggregateRow row;
};
// INTERNAL where a row is damaged.
absl::StatusOr<SelectedAggregate> ReadAggregate(RowReader& reader);

// Of rows that exist and are locked.
std::string UpdateAggregates(absl::Span<const AggregateChange> changes);

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_AGGREGATE_STATEMENTS_H_
