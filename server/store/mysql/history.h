// The SQL that shows what became of one operation: reads along the primary key.
//
// Thread-safe: functions of values.
#ifndef ONCE_STORE_MYSQL_HISTORY_H_
#define ONCE_STORE_MYSQL_HISTORY_H_

#include <optional>
#include <string>

#include "core/types.h"
#include "store/mysql/connection.h"
#include "store/store.h"

namespace once::store::mysql {

// At most `limit` entries after `after`, in the order of their ids; see ReadLoggedAttempt.
std::string SelectAttempts(const core::OperationKey& key, const std::optional<EntryId>& after,
                           int limit);
LoggedAttempt ReadLoggedAttempt(const core::OperationKey& key, RowReader& reader);

// The receipts that the operation had before it was reset, newest first.
std::string SelectPastReceipts(const core::OperationKey& key);
PastReceipt ReadPastReceipt(RowReader& reader);

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_HISTORY_H_
