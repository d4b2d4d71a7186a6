// The SQL that shows what became of one operation.
//
// Thread-safety: as the connection's.
#ifndef ONCE_STORE_SQLITE_HISTORY_H_
#define ONCE_STORE_SQLITE_HISTORY_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/types.h"
#include "store/sqlite/connection.h"
#include "store/store.h"

namespace once::store::sqlite {

// At most `limit` entries after `after`, in the order of their ids. INTERNAL where one is damaged.
absl::StatusOr<std::vector<LoggedAttempt>> SelectAttempts(Connection& connection,
                                                          const core::OperationKey& key,
                                                          const std::optional<EntryId>& after,
                                                          int limit);

// The receipts that the operation had before it was reset, newest first. As above.
absl::StatusOr<std::vector<PastReceipt>> SelectPastReceipts(Connection& connection,
                                                            const core::OperationKey& key);

}  // namespace once::store::sqlite

#endif  // ONCE_STORE_SQLITE_HISTORY_H_
