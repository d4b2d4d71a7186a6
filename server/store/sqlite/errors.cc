#include "store/sqlite/errors.h"

#include <sqlite3.h>

#include "absl/strings/str_cat.h"

namespace once::store::sqlite {
namespace {

// The page with the commit mark may have reached the disk before the error did (a failed sync, or
// padding written after the mark).
absl::StatusCode DiskCode(During during) {
  switch (during) {
    case During::kStatement:
      return absl::StatusCode::kUnavailable;
    case During::kCommit:
      return absl::StatusCode::kUnknown;
  }
  return absl::StatusCode::kUnknown;
}

absl::StatusCode ConstraintCode(int code) {
  switch (code) {
    // Keys are never violated: inserts that may meet a row say what happens then.
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
    case SQLITE_CONSTRAINT_UNIQUE:
      return absl::StatusCode::kInternal;
    default:
      return absl::StatusCode::kInvalidArgument;
  }
}

absl::StatusCode CodeFor(int code, During during) {
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::StatusCode::kAborted;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_NOMEM:
    case SQLITE_PROTOCOL:
      return DiskCode(during);
    case SQLITE_CONSTRAINT:
      return ConstraintCode(code);
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
      return absl::StatusCode::kInvalidArgument;
    case SQLITE_NOTADB:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status ErrorStatus(sqlite3* database, int code, During during, absl::string_view doing) {
  const char* what = database == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(database);
  return absl::Status(CodeFor(code, during),
                      absl::StrCat("sqlite: cannot ", doing, ": ", what, " (code ", code, ")"));
}

bool EndsSession(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsUnknown(status);
}

}  // namespace once::store::sqlite
