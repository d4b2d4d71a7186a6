// What a new session asserts, and what a server has to give.
#include "absl/strings/str_cat.h"
#include "integration/mysql/mysql_fixture.h"
#include "store/mysql/mysql_store.h"

namespace once::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

// Puts a global variable back when it goes.
class GlobalVariable {
 public:
  GlobalVariable(TestDatabase& database, std::string name, const std::string& value)
      : database_(database), name_(std::move(name)) {
    before_ = database_.Must(absl::StrCat("SELECT @@global.", name_));
    database_.Must(absl::StrCat("SET GLOBAL ", name_, "=", value));
  }
  ~GlobalVariable() {
    const bool number = before_.find_first_not_of("0123456789") == std::string::npos;
    database_.Must(absl::StrCat("SET GLOBAL ", name_, "=",
                                number ? before_ : absl::StrCat("'", before_, "'")));
  }
  GlobalVariable(const GlobalVariable&) = delete;
  GlobalVariable& operator=(const GlobalVariable&) = delete;

 private:
  TestDatabase& database_;
  const std::string name_;
  std::string before_;
};

class SessionTest : public MysqlStoreTest {};

TEST_F(SessionTest, HostileDefaultsOfTheServerDoNotReachSessions) {
  const GlobalVariable mode(database_, "sql_mode", "''");
  const GlobalVariable zone(database_, "time_zone", "'+05:00'");
  const GlobalVariable isolation(
      database_, Engine() == DatabaseEngine::kMariadb ? "tx_isolation" : "transaction_isolation",
      "'SERIALIZABLE'");
  const GlobalVariable autocommit(database_, "autocommit", "0");
  const GlobalVariable charset(database_, "character_set_client", "'latin1'");
  auto session = Write();
  ASSERT_NE(session, nullptr);
  const core::ClaimInfo claim = Begin(*session, "e");
  EXPECT_TRUE(store_->OpenReadSession().ok());
  EXPECT_TRUE(store_->OpenControlSession().ok());
  EXPECT_TRUE(store_->Migrate().ok());
  // UTC, whatever the server's zone is.
  EXPECT_LT(absl::AbsDuration(absl::FromUnixMicros(claim.begun.micros) - absl::Now()),
            absl::Minutes(5));
}

TEST_F(SessionTest, WeakDurabilityIsAWarning) {
  const auto before = store_->Check(1 << 20);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_THAT(*before, ::testing::IsEmpty());
  const GlobalVariable flush(database_, "innodb_flush_log_at_trx_commit", "2");
  const auto weak = store_->Check(1 << 20);
  ASSERT_TRUE(weak.ok()) << weak.status();
  EXPECT_THAT(*weak, Contains(HasSubstr("innodb_flush_log_at_trx_commit")));
}

TEST_F(SessionTest, ResultsThatCannotFitAPacketAreRefusedAtStart) {
  const GlobalVariable packet(database_, "max_allowed_packet", "1048576");
  EXPECT_TRUE(store_->Check((1048576 - 65536) / 2).ok());
  const absl::Status status = store_->Check(1 << 20).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("1048576 bytes"), HasSubstr(absl::StrCat(2 * 1048576 + 65536))));
}

TEST_F(SessionTest, ARowAboveThePacketLimitFailsAloneAndKeepsTheConnection) {
  const GlobalVariable packet(database_, "max_allowed_packet", "1048576");
  auto session = Write();
  ASSERT_NE(session, nullptr);
  const core::ClaimInfo claim = Begin(*session, "e");
  auto answers = store::RunBatch(
      *session,
      std::vector<store::Command>{CompleteOf("e", claim.fence, std::string(600'000, 'r'))}, false);
  EXPECT_EQ(answers.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(answers.status().message()), HasSubstr("1048576"));
  EXPECT_TRUE(session->usable());
  // The claim stays, so that a smaller result can follow.
  auto smaller = store::RunBatch(
      *session,
      std::vector<store::Command>{CompleteOf("e", claim.fence, std::string(400'000, 'r'))}, false);
  EXPECT_TRUE(smaller.ok()) << smaller.status();
}

TEST_F(SessionTest, LargeBatchesAreSentInPacketsThatFit) {
  const GlobalVariable packet(database_, "max_allowed_packet", "1048576");
  auto session = Write();
  ASSERT_NE(session, nullptr);
  std::vector<store::Command> begins;
  std::vector<store::Command> completes;
  for (int i = 0; i < 8; ++i) begins.push_back(BeginOf(absl::StrCat("e", i)));
  auto granted = store::RunBatch(*session, begins, false);
  ASSERT_TRUE(granted.ok()) << granted.status();
  for (int i = 0; i < 8; ++i) {
    const auto& claim =
        std::get<core::Granted>(std::get<core::BeginOutcome>((*granted)[static_cast<size_t>(i)]))
            .claim;
    completes.push_back(
        CompleteOf(absl::StrCat("e", i), claim.fence, std::string(300'000, static_cast<char>(i))));
  }
  auto answers = store::RunBatch(*session, completes, false);
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_EQ(database_.Must("SELECT SUM(LENGTH(body)) FROM receipt_body"), "2400000");
}

TEST_F(SessionTest, AServerThatPreparesNoMoreStatementsGetsTheirText) {
  auto session = Write();
  ASSERT_NE(session, nullptr);
  const GlobalVariable none(database_, "max_prepared_stmt_count", "0");
  std::vector<store::Command> begins;
  for (int i = 0; i < 20; ++i) begins.push_back(BeginOf(absl::StrCat("e", i)));
  if (Engine() == DatabaseEngine::kMariadb) {
    EXPECT_EQ(store::RunBatch(*session, begins, false).status().code(), absl::StatusCode::kAborted);
    EXPECT_TRUE(session->usable());
  }
  auto granted = store::RunBatch(*session, begins, false);
  EXPECT_TRUE(granted.ok()) << granted.status();
  EXPECT_EQ(Count("operation"), 20);
  EXPECT_EQ(Count("attempt"), 20);
}

// Each number of rows is another statement.
TEST_F(SessionTest, TransactionsOfManySizesKeepABoundedNumberOfPreparedStatements) {
  auto session = Write();
  ASSERT_NE(session, nullptr);
  int number = 0;
  for (int size = 1; size <= 130; ++size) {
    std::vector<store::Command> begins;
    for (int i = 0; i < size; ++i) begins.push_back(BeginOf(absl::StrCat("e", number++)));
    auto granted = store::RunBatch(*session, begins, false);
    ASSERT_TRUE(granted.ok()) << size << " rows: " << granted.status();
  }
  EXPECT_EQ(Count("operation"), number);
  EXPECT_EQ(Count("attempt"), number);
  const int64_t prepared = std::stoll(
      database_.Must(Engine() == DatabaseEngine::kMariadb
                         ? "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE "
                           "VARIABLE_NAME='Prepared_stmt_count'"
                         : "SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE "
                           "VARIABLE_NAME='Prepared_stmt_count'"));
  EXPECT_LE(prepared, 64);
}

TEST_F(SessionTest, AServerWhoseSysdateStandsStillIsRefused) {
  auto server = DatabaseServer::Start(Engine(), {.tls = false, .variables = {"sysdate-is-now=1"}});
  ASSERT_TRUE(server.ok()) << server.status();
  TestDatabase database(**server);
  const absl::Status status = store::OpenMysqlStore(database.options())->Migrate().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("sysdate_is_now"));
}

// A link that is cut in the middle of a transaction leaves the server waiting for the rest of it.
TEST_F(SessionTest, ASilentClientLosesItsLocks) {
  store::MysqlOptions options = database_.options();
  options.idle_timeout = absl::Seconds(1);
  options.read_timeout = absl::Seconds(1);
  auto short_lived = store::OpenMysqlStore(options);
  auto silent = Write(*short_lived);
  auto other = Write();
  ASSERT_TRUE(silent != nullptr && other != nullptr);
  ASSERT_TRUE(silent->TouchAndRead(std::vector{InsertOf("e", 1)}, {}).ok());

  // Waits for the lock, but not until its own timeout.
  auto answers = store::RunBatch(*other, std::vector{BeginOf("e", 2)}, false);
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_TRUE(
      std::holds_alternative<core::Granted>(std::get<core::BeginOutcome>(answers->front())));
  EXPECT_FALSE(silent->usable());
  EXPECT_EQ(silent->Commit().code(), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace once::testing
