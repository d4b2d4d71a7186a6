// The one place that says what an SQLite result code means to a caller of the store.
#ifndef ONCE_STORE_SQLITE_ERRORS_H_
#define ONCE_STORE_SQLITE_ERRORS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

struct sqlite3;

namespace once::store::sqlite {

// Where the code came from. A statement that failed was not committed; a COMMIT that failed on the
// disk may have been.
enum class During : uint8_t { kStatement, kCommit };

// Status for `code`, an extended result code other than OK, ROW and DONE. `doing` completes
// "sqlite: cannot <doing>". `database` may be null. Never contains stored values.
absl::Status ErrorStatus(sqlite3* database, int code, During during, absl::string_view doing);

// True where a session cannot go on after `status`.
bool EndsSession(const absl::Status& status);

}  // namespace once::store::sqlite

#endif  // ONCE_STORE_SQLITE_ERRORS_H_
