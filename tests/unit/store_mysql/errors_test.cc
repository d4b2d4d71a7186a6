#include "store/mysql/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace once::store::mysql {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  int code;
  const char* sqlstate;
  absl::StatusCode in_statement;
  absl::StatusCode at_commit;
  bool survives_statement;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.code << " " << c.sqlstate; }

class ErrorTable : public ::testing::TestWithParam<Case> {};

TEST_P(ErrorTable, MeansTheStatusThatTheStorePromises) {
  const Case& c = GetParam();
  const NativeError error{.code = c.code, .sqlstate = c.sqlstate, .text = "text"};
  EXPECT_EQ(StatusOf(error, Phase::kStatement, "h:1").code(), c.in_statement);
  EXPECT_EQ(StatusOf(error, Phase::kCommit, "h:1").code(), c.at_commit);
  EXPECT_EQ(ConnectionSurvives(error, Phase::kStatement), c.survives_statement);
}

TEST_P(ErrorTable, AnUnknownCommitNeverKeepsItsConnection) {
  const Case& c = GetParam();
  const NativeError error{.code = c.code, .sqlstate = c.sqlstate, .text = "text"};
  if (absl::IsUnknown(StatusOf(error, Phase::kCommit, "h:1"))) {
    EXPECT_FALSE(ConnectionSurvives(error, Phase::kCommit));
  }
}

constexpr auto kAborted = absl::StatusCode::kAborted;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
constexpr auto kUnknown = absl::StatusCode::kUnknown;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kInternal = absl::StatusCode::kInternal;
constexpr auto kExists = absl::StatusCode::kAlreadyExists;
constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;

INSTANTIATE_TEST_SUITE_P(
    KnownNumbers, ErrorTable,
    ::testing::Values(Case{1062, "23000", kExists, kUnknown, true},
                      // Lost races, also at COMMIT: nothing is left of the transaction.
                      Case{1213, "40001", kAborted, kAborted, true},
                      Case{1205, "HY000", kAborted, kAborted, true},
                      Case{3101, "40000", kAborted, kAborted, true},
                      // Killed or failed inside COMMIT: it may have been durable already.
                      Case{1317, "70100", kAborted, kUnknown, true},
                      Case{1180, "HY000", kAborted, kUnknown, true},
                      Case{1927, "70100", kUnavailable, kUnknown, false},
                      Case{1053, "08S01", kUnavailable, kUnknown, false},
                      Case{2006, "HY000", kUnavailable, kUnknown, false},
                      Case{2013, "HY000", kUnavailable, kUnknown, false},
                      Case{2026, "HY000", kUnavailable, kUnknown, false},
                      // Refused before anything was done.
                      Case{1047, "08S01", kUnavailable, kUnavailable, false},
                      Case{1290, "HY000", kUnavailable, kUnavailable, false},
                      Case{1792, "25006", kUnavailable, kUnavailable, false},
                      Case{1836, "HY000", kUnavailable, kUnavailable, false},
                      Case{1040, "08004", kUnavailable, kUnknown, false},
                      // Data.
                      Case{1406, "22001", kInvalid, kUnknown, true},
                      Case{1264, "22003", kInvalid, kUnknown, true},
                      Case{1366, "22007", kInvalid, kUnknown, true},
                      Case{1048, "23000", kInvalid, kUnknown, true},
                      Case{1153, "08S01", kInvalid, kUnknown, false},
                      // Rights and missing things.
                      Case{1045, "28000", kPrecondition, kUnknown, true},
                      Case{1049, "42000", kPrecondition, kUnknown, true},
                      Case{1146, "42S02", kPrecondition, kUnknown, true},
                      Case{1665, "HY000", kPrecondition, kUnknown, true},
                      Case{1064, "42000", kInternal, kUnknown, true},
                      // Numbers that nobody has met: by class.
                      Case{9999, "40001", kAborted, kUnknown, true},
                      Case{9999, "22999", kInvalid, kUnknown, true},
                      Case{9999, "08000", kUnavailable, kUnknown, false},
                      Case{9999, "HY000", kInternal, kUnknown, true}));

TEST(ErrorText, NeverQuotesRowsOrStatements) {
  for (const int code : {1062, 1064, 1366}) {
    const NativeError error{.code = code, .sqlstate = "HY000", .text = "near 'the secret'"};
    EXPECT_THAT(std::string(StatusOf(error, Phase::kStatement, "h:1").message()),
                Not(HasSubstr("secret")))
        << code;
  }
}

TEST(ErrorText, NamesHostNumberAndReason) {
  const NativeError error{.code = 1290, .sqlstate = "HY000", .text = "--read-only is on"};
  const std::string message(StatusOf(error, Phase::kStatement, "db1:3306").message());
  EXPECT_THAT(message, HasSubstr("db1:3306"));
  EXPECT_THAT(message, HasSubstr("1290"));
  EXPECT_THAT(message, HasSubstr("--read-only is on"));
}

}  // namespace
}  // namespace once::store::mysql
