#include "store/sqlite/errors.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <utility>
#include <vector>

namespace once::store::sqlite {
namespace {

absl::StatusCode CodeOf(int code, During during) {
  return ErrorStatus(nullptr, code, during, "test").code();
}

TEST(ErrorsTest, EachKindSaysWhatToDo) {
  const std::vector<std::pair<int, absl::StatusCode>> table = {
      {SQLITE_BUSY, absl::StatusCode::kAborted},
      {SQLITE_BUSY_SNAPSHOT, absl::StatusCode::kAborted},
      {SQLITE_LOCKED, absl::StatusCode::kAborted},
      {SQLITE_FULL, absl::StatusCode::kUnavailable},
      {SQLITE_IOERR_WRITE, absl::StatusCode::kUnavailable},
      {SQLITE_READONLY, absl::StatusCode::kUnavailable},
      {SQLITE_CANTOPEN, absl::StatusCode::kUnavailable},
      {SQLITE_NOMEM, absl::StatusCode::kUnavailable},
      {SQLITE_CONSTRAINT_CHECK, absl::StatusCode::kInvalidArgument},
      {SQLITE_CONSTRAINT_NOTNULL, absl::StatusCode::kInvalidArgument},
      {SQLITE_CONSTRAINT_DATATYPE, absl::StatusCode::kInvalidArgument},
      {SQLITE_TOOBIG, absl::StatusCode::kInvalidArgument},
      {SQLITE_CONSTRAINT_PRIMARYKEY, absl::StatusCode::kInternal},
      {SQLITE_CONSTRAINT_UNIQUE, absl::StatusCode::kInternal},
      {SQLITE_CORRUPT, absl::StatusCode::kInternal},
      {SQLITE_MISUSE, absl::StatusCode::kInternal},
      {SQLITE_ERROR, absl::StatusCode::kInternal},
      {SQLITE_NOTADB, absl::StatusCode::kFailedPrecondition},
  };
  for (const auto& [code, expected] : table) {
    EXPECT_EQ(CodeOf(code, During::kStatement), expected) << sqlite3_errstr(code) << " " << code;
  }
}

TEST(ErrorsTest, DiskErrorAtCommitMayHaveBeenCommitted) {
  EXPECT_EQ(CodeOf(SQLITE_IOERR_FSYNC, During::kCommit), absl::StatusCode::kUnknown);
  EXPECT_EQ(CodeOf(SQLITE_FULL, During::kCommit), absl::StatusCode::kUnknown);
  EXPECT_EQ(CodeOf(SQLITE_BUSY, During::kCommit), absl::StatusCode::kAborted);
}

TEST(ErrorsTest, SessionsEndWhereTheConnectionIsInDoubt) {
  EXPECT_TRUE(EndsSession(absl::UnavailableError("")));
  EXPECT_TRUE(EndsSession(absl::UnknownError("")));
  EXPECT_FALSE(EndsSession(absl::AbortedError("")));
  EXPECT_FALSE(EndsSession(absl::InvalidArgumentError("")));
  EXPECT_FALSE(EndsSession(absl::OkStatus()));
}

}  // namespace
}  // namespace once::store::sqlite
