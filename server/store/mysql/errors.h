// The one place that knows what an error of the database means.
//
// Thread-safe: functions of values.
#ifndef ONCE_STORE_MYSQL_ERRORS_H_
#define ONCE_STORE_MYSQL_ERRORS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace once::store::mysql {

enum class ErrorKind : uint8_t {
  kDuplicate,       // a unique key has the row already
  kRetry,           // the transaction lost a race or waited too long: roll back, run it again here
  kConnectionLost,  // the connection is gone, or the server says that it is of no use now
  kReadOnly,        // the server takes no writes; another host may
  kData,            // the data does not fit
  kRefused,         // rights, a missing database or table: somebody has to change something
  kBug,             // everything else
};

// What was being done when the error came.
enum class Phase : uint8_t { kConnect, kStatement, kCommit };

struct NativeError {
  int code = 0;  // the server's (1000 and up) or the client library's (2000–2999) number
  std::string sqlstate;
  std::string text;
};

// ER_MAX_PREPARED_STMT_COUNT_REACHED
inline constexpr int kMaxPreparedStatementsReached = 1461;

ErrorKind KindOf(const NativeError& error);

// Whether the connection may be used for another statement (the next one being ROLLBACK).
bool ConnectionSurvives(const NativeError& error, Phase phase);

// The status that store.h promises. At COMMIT only errors that are known to leave nothing behind
// are anything but UNKNOWN. kDuplicate gives ALREADY_EXISTS. The server's own text is kept only
// where it cannot hold row data.
absl::Status StatusOf(const NativeError& error, Phase phase, absl::string_view host);

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_ERRORS_H_
