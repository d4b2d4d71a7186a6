// What each way in which a transaction can end badly is reported as, and what it leaves.
#include <thread>

#include "absl/strings/str_cat.h"
#include "integration/mysql/cutting_proxy.h"
#include "integration/mysql/mysql_fixture.h"
#include "store/mysql/connection.h"
#include "store/mysql/mysql_store.h"

namespace once::testing {
namespace {

using ::testing::HasSubstr;

store::AttemptEntry EntryOf(const std::string& event_id) {
  store::AttemptEntry entry;
  entry.key = KeyOf(event_id);
  return entry;
}

class FailureTest : public MysqlStoreTest {
 protected:
  // Until somebody waits for a row lock. Not by INNODB_TRX: its cache does not age while it is
  // being read.
  void WaitForALockWait() {
    database_.WaitUntil(Engine() == DatabaseEngine::kMariadb
                            ? "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS "
                              "WHERE VARIABLE_NAME='Innodb_row_lock_current_waits'"
                            : "SELECT COUNT(*) FROM performance_schema.data_lock_waits");
  }
};

// ---- data errors ----

TEST_F(FailureTest, TooLongDataSurfacesAndNothingIsTruncated) {
  auto session = Write();
  ASSERT_NE(session, nullptr);
  store::NewOperation insert = InsertOf(std::string(256, 'e'));
  auto rows = session->TouchAndRead(std::vector{InsertOf("a"), insert}, {});
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(rows.status().message()), HasSubstr("event_id"));
  session->Rollback();
  EXPECT_EQ(Count("operation"), 0);
  EXPECT_TRUE(session->usable());
  Begin(*session, "a");
}

TEST_F(FailureTest, DataErrorsOfEveryStatementSurface) {
  auto session = Write();
  ASSERT_NE(session, nullptr);
  store::BeginCommand consumer = std::get<store::BeginCommand>(BeginOf("a"));
  consumer.request.consumer = std::string(129, 'c');
  store::BeginCommand reference = std::get<store::BeginCommand>(BeginOf("a"));
  reference.delivery.reference = std::string(256, 'r');
  for (const store::Command& command : {store::Command(consumer), store::Command(reference)}) {
    auto answers = store::RunBatch(*session, std::vector{command}, false);
    EXPECT_EQ(answers.status().code(), absl::StatusCode::kInvalidArgument) << answers.status();
    EXPECT_TRUE(session->usable());
    EXPECT_EQ(Count("operation"), 0);
    EXPECT_EQ(Count("attempt"), 0);
  }
  // In the guarded updates, one row and several.
  std::vector<store::Command> completes;
  for (const char* event : {"x", "y"}) {
    store::CompleteCommand complete =
        std::get<store::CompleteCommand>(CompleteOf(event, Begin(*session, event).fence, "r"));
    complete.request.content_type = std::string(129, 't');
    completes.emplace_back(complete);
  }
  for (const size_t count : {size_t{1}, size_t{2}}) {
    auto answers =
        store::RunBatch(*session, absl::MakeConstSpan(completes).subspan(0, count), false);
    EXPECT_EQ(answers.status().code(), absl::StatusCode::kInvalidArgument) << answers.status();
  }
  EXPECT_EQ(Count("operation WHERE state=3"), 0);
}

TEST_F(FailureTest, KeysCompareByteForByte) {
  auto session = Write();
  ASSERT_NE(session, nullptr);
  const std::vector<std::string> events = {"A",
                                           "a",
                                           "x",
                                           "x ",
                                           "\xc3\xa9",
                                           "e\xcc\x81",
                                           std::string("n\0ul", 4),
                                           std::string("n\0", 2),
                                           "n",
                                           "\xff\xfe",
                                           "'; --",
                                           "%",
                                           "_",
                                           "\\"};
  std::vector<store::Command> begins;
  for (const std::string& event : events) begins.push_back(BeginOf(event));
  auto answers = RunUntilDone(*session, begins);
  ASSERT_TRUE(answers.ok()) << answers.status();
  for (const store::Answer& answer : *answers) {
    EXPECT_TRUE(std::holds_alternative<core::Granted>(std::get<core::BeginOutcome>(answer)));
  }
  EXPECT_EQ(Count("operation"), static_cast<int64_t>(events.size()));
}

// ---- lost races ----

TEST_F(FailureTest, DeadlockIsAbortedAndTheSessionGoesOn) {
  auto session = Write();
  ASSERT_NE(session, nullptr);
  Begin(*session, "a");
  Begin(*session, "b");
  // Another transaction with more to lose holds b and wants a; ours has a and wants b.
  auto other = database_.Connect();
  database_.Must("CREATE TABLE weight (id INT PRIMARY KEY AUTO_INCREMENT, x INT)");
  ASSERT_TRUE(other->Execute("SET autocommit=0").ok());
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(other->Execute("INSERT INTO weight(x) VALUES (1),(2),(3),(4)").ok());
  }
  ASSERT_TRUE(other
                  ->Execute("UPDATE operation SET deliveries=9 WHERE tenant_id=1 AND handler_id=1 "
                            "AND event_id='b'")
                  .ok());
  ASSERT_TRUE(session->TouchAndRead(std::vector{InsertOf("a")}, {}).ok());
  std::thread waiter([&] {
    EXPECT_TRUE(other
                    ->Execute("UPDATE operation SET deliveries=9 WHERE tenant_id=1 AND "
                              "handler_id=1 AND event_id='a'")
                    .ok());
    EXPECT_TRUE(other->Execute("COMMIT").ok());
  });
  WaitForALockWait();
  store::RowChange change;
  auto reader = *store_->OpenReadSession();
  const core::OperationRow row = *reader->Read(std::vector{KeyOf("b")})->others[0];
  change.kind = store::RowChange::Kind::kLease;
  change.key = KeyOf("b");
  change.state_before = row.state;
  change.attempt_before = row.claim.attempt;
  change.fence_before = row.claim.fence;
  change.after = row;
  const absl::Status status = session->Write({.changes = {change}, .attempts = {}});
  waiter.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  session->Rollback();
  EXPECT_TRUE(session->usable());
  Begin(*session, "c");
}

TEST_F(FailureTest, LockWaitTimeoutIsAbortedAndRolledBack) {
  store::MysqlOptions options = database_.options();
  options.lock_wait_timeout = absl::Seconds(1);
  auto impatient = store::OpenMysqlStore(options);
  auto holder = Write();
  auto session = Write(*impatient);
  ASSERT_TRUE(holder != nullptr && session != nullptr);
  ASSERT_TRUE(holder->TouchAndRead(std::vector{InsertOf("b", 1)}, {}).ok());

  // The batch has put in "a" when it waits for "b": the timeout must take that back, too.
  auto answers = store::RunBatch(*session, std::vector{BeginOf("a", 2), BeginOf("b", 2)}, false);
  EXPECT_EQ(answers.status().code(), absl::StatusCode::kAborted) << answers.status();
  EXPECT_TRUE(session->usable());
  holder->Rollback();
  EXPECT_EQ(Count("operation"), 0);
  EXPECT_TRUE(RunUntilDone(*session, {BeginOf("a", 2), BeginOf("b", 2)}).ok());
}

TEST_F(FailureTest, KilledStatementIsAborted) {
  auto holder = Write();
  auto session = Write();
  ASSERT_TRUE(holder != nullptr && session != nullptr);
  ASSERT_TRUE(holder->TouchAndRead(std::vector{InsertOf("b", 1)}, {}).ok());
  absl::Status status;
  std::thread waiter(
      [&] { status = store::RunBatch(*session, std::vector{BeginOf("b", 2)}, false).status(); });
  WaitForALockWait();
  database_.Must(absl::StrCat("KILL QUERY ", ConnectionOf("INFO LIKE 'INSERT INTO operation%'")));
  waiter.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(session->usable());
  holder->Rollback();
  EXPECT_EQ(Begin(*session, "b", 2).attempt, Attempt(2));
}

TEST_F(FailureTest, AChangedRowFailsTheGuard) {
  auto session = Write();
  ASSERT_NE(session, nullptr);
  const core::ClaimInfo claim = Begin(*session, "a");
  auto rows = session->TouchAndRead({}, std::vector{KeyOf("a")});
  ASSERT_TRUE(rows.ok()) << rows.status();
  // Not locked: somebody else takes over between the read and the write.
  database_.Must("UPDATE operation SET fence=fence+1");
  for (const auto kind : {store::RowChange::Kind::kClaim, store::RowChange::Kind::kLease,
                          store::RowChange::Kind::kDelete}) {
    store::RowChange change;
    change.kind = kind;
    change.key = KeyOf("a");
    change.attempt_before = claim.attempt;
    change.fence_before = claim.fence;
    change.after = *rows->others[0];
    EXPECT_EQ(session->Write({.changes = {change}, .attempts = {}}).code(),
              absl::StatusCode::kAborted);
  }
  session->Rollback();
  EXPECT_EQ(Count("operation"), 1);
}

// A renewal that changes nothing is no lost race.
TEST_F(FailureTest, AnUpdateToTheSameValuesCountsAsApplied) {
  auto session = Write();
  ASSERT_NE(session, nullptr);
  std::vector<store::RowChange> changes;
  for (const char* event : {"a", "b"}) {
    Begin(*session, event);
    auto rows = session->TouchAndRead({}, std::vector{KeyOf(event)});
    ASSERT_TRUE(rows.ok());
    session->Rollback();
    store::RowChange& change = changes.emplace_back();
    change.kind = store::RowChange::Kind::kLease;
    change.key = KeyOf(event);
    change.after = *rows->others[0];
    change.attempt_before = change.after.claim.attempt;
    change.fence_before = change.after.claim.fence;
  }
  for (const size_t count : {size_t{1}, size_t{2}}) {
    ASSERT_TRUE(session->TouchAndRead({}, std::vector{KeyOf("a")}).ok());
    const std::vector<store::RowChange> some(changes.begin(),
                                             changes.begin() + static_cast<ptrdiff_t>(count));
    EXPECT_EQ(session->Write({.changes = some, .attempts = {}}), absl::OkStatus());
    EXPECT_EQ(session->Commit(), absl::OkStatus());
  }
}

// ---- fences ----

TEST_F(FailureTest, AnInsertThatWaitedForAForgottenClaimGetsAHigherFence) {
  auto session = Write();
  ASSERT_NE(session, nullptr);
  Begin(*session, "a", 1);
  // One transaction takes the claim over and forgets it while an insert waits, as if two had been
  // faster.
  auto other = database_.Connect();
  ASSERT_TRUE(other->Execute("SET autocommit=0").ok());
  ASSERT_TRUE(other->Execute("DELETE FROM operation").ok());
  core::ClaimInfo claim;
  std::thread waiter([&] { claim = Begin(*session, "a", 2); });
  WaitForALockWait();
  const auto later = RunSql(*other,
                            "SELECT TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6)),"
                            "SLEEP(0.01)");
  ASSERT_TRUE(other->Execute("COMMIT").ok());
  waiter.join();
  EXPECT_EQ(claim.attempt, Attempt(2));
  EXPECT_GT(claim.fence.value, std::stoll(*(*later)[0][0]));
  EXPECT_EQ(claim.lease_expires - claim.begun, absl::Seconds(30));
  EXPECT_EQ(database_.Must("SELECT fence FROM operation"), absl::StrCat(claim.fence.value));
  EXPECT_EQ(database_.Must("SELECT claimed_us=fence AND first_seen_us=fence AND "
                           "lease_expires_us=fence+30000000 FROM operation"),
            "1");
}

// ---- lost connections ----

TEST_F(FailureTest, KillBeforeCommitLeavesNothing) {
  auto session = Write();
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(session->TouchAndRead(std::vector{InsertOf("a")}, {}).ok());
  database_.Must(absl::StrCat("KILL ", ConnectionOf("USER='once'")));
  const absl::Status status = session->Write({.changes = {}, .attempts = {EntryOf("a")}});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_FALSE(session->usable());
  session->Rollback();
  EXPECT_EQ(Count("operation"), 0);
  EXPECT_EQ(Begin(*Write(), "a", 2).attempt, Attempt(2));
}

TEST_F(FailureTest, CommitOnAKilledConnectionIsUnknown) {
  auto session = Write();
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(session->TouchAndRead(std::vector{InsertOf("a")}, {}).ok());
  database_.Must(absl::StrCat("KILL ", ConnectionOf("USER='once'")));
  EXPECT_EQ(session->Commit().code(), absl::StatusCode::kUnknown);
  EXPECT_FALSE(session->usable());
  EXPECT_EQ(session->TouchAndRead({}, std::vector{KeyOf("a")}).ok(), false);
}

class LostAnswerTest : public FailureTest, public ::testing::WithParamInterface<CuttingProxy::Cut> {
 protected:
  LostAnswerTest() : proxy_(Server().address()) {
    store::MysqlOptions options = database_.options();
    options.hosts = {proxy_.address()};
    behind_ = store::OpenMysqlStore(options);
  }

  // Runs the batch with its first COMMIT lost, then again on a fresh session.
  std::vector<store::Answer> RunWithLostCommit(const std::vector<store::Command>& commands) {
    auto session = Write(*behind_);
    proxy_.CutNext(1, GetParam());
    auto lost = store::RunBatch(*session, commands, false);
    EXPECT_EQ(lost.status().code(), absl::StatusCode::kUnknown) << lost.status();
    EXPECT_FALSE(session->usable());
    session = Write(*behind_);
    auto again = RunUntilDone(*session, commands, /*repeated=*/true);
    EXPECT_TRUE(again.ok()) << again.status();
    return again.ok() ? *std::move(again) : std::vector<store::Answer>{};
  }

  CuttingProxy proxy_;
  std::unique_ptr<store::Store> behind_;
};

TEST_P(LostAnswerTest, TheBatchAgainAnswersTheTruth) {
  const std::vector<store::Command> begins = {BeginOf("a", 1), BeginOf("b", 2), BeginOf("c", 3)};
  const auto granted = RunWithLostCommit(begins);
  ASSERT_EQ(granted.size(), 3u);
  std::vector<store::Command> completes;
  for (size_t i = 0; i < 3; ++i) {
    const auto& outcome = std::get<core::BeginOutcome>(granted[i]);
    ASSERT_TRUE(std::holds_alternative<core::Granted>(outcome));
    const core::Granted& grant = std::get<core::Granted>(outcome);
    EXPECT_EQ(grant.attempt_number, 1);
    // Half of them large, so that the body's table takes part.
    completes.push_back(CompleteOf(store::KeyOf(begins[i]).event_id, grant.claim.fence,
                                   std::string(i == 1 ? 5000 : 10, 'r'),
                                   static_cast<uint8_t>(i + 1)));
  }
  const auto completed = RunWithLostCommit(completes);
  ASSERT_EQ(completed.size(), 3u);
  for (const store::Answer& answer : completed) {
    EXPECT_TRUE(std::holds_alternative<core::Completed>(std::get<core::CompleteOutcome>(answer)));
  }
  EXPECT_EQ(Count("operation WHERE state=3"), 3);
  EXPECT_EQ(Count("receipt_body"), 1);
  EXPECT_EQ(Count("attempt"), 6);  // one per delivery, not one per try of the transaction
}

INSTANTIATE_TEST_SUITE_P(Cut, LostAnswerTest,
                         ::testing::Values(CuttingProxy::Cut::kBeforeCommit,
                                           CuttingProxy::Cut::kAfterCommit),
                         [](const auto& param) {
                           return param.param == CuttingProxy::Cut::kBeforeCommit ? "BeforeCommit"
                                                                                  : "AfterCommit";
                         });

// ---- servers that are no use for a while ----

class ReadOnlyServer {
 public:
  explicit ReadOnlyServer(TestDatabase& database) : database_(database) { Set("ON"); }
  ~ReadOnlyServer() { Set("OFF"); }
  ReadOnlyServer(const ReadOnlyServer&) = delete;
  ReadOnlyServer& operator=(const ReadOnlyServer&) = delete;

 private:
  void Set(const std::string& value) {
    database_.Must(absl::StrCat("SET GLOBAL read_only=", value));
  }
  TestDatabase& database_;
};

TEST_F(FailureTest, ReadOnlyIsUnavailableForWritesOnlyAndComesBack) {
  auto session = Write();
  ASSERT_NE(session, nullptr);
  Begin(*session, "a", 1);
  {
    const ReadOnlyServer read_only(database_);
    const absl::Status status =
        store::RunBatch(*session, std::vector{BeginOf("b")}, false).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_FALSE(session->usable());
    EXPECT_EQ(store_->OpenWriteSession().status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(store_->Check(1).status().code(), absl::StatusCode::kUnavailable);

    auto reader = store_->OpenReadSession();
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_TRUE((*reader)->Read(std::vector{KeyOf("a")})->others[0].has_value());
    auto control = store_->OpenControlSession();
    ASSERT_TRUE(control.ok()) << control.status();
    EXPECT_EQ((*control)->GetTenant("t").status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ((*control)->CreateTenant("t", {}).status().code(), absl::StatusCode::kUnavailable);
  }
  session = Write();
  ASSERT_NE(session, nullptr);
  Begin(*session, "b");
}

TEST_F(FailureTest, ReadOnlyAtCommitLeavesNothing) {
  auto session = Write();
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(session->TouchAndRead(std::vector{InsertOf("a")}, {}).ok());
  absl::Status status;
  {
    const ReadOnlyServer read_only(database_);
    status = session->Commit();
  }
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsUnknown(status)) << status;
  EXPECT_FALSE(session->usable());
  EXPECT_EQ(Count("operation"), 0);
}

TEST_F(FailureTest, ACrashedServerIsUnavailableAndThenKeepsWhatWasCommitted) {
  auto started = DatabaseServer::Start(Engine(), {});
  ASSERT_TRUE(started.ok()) << started.status();
  DatabaseServer& server = **started;
  TestDatabase database(server);
  auto store = database.OpenMigrated();
  auto session = Write(*store);
  ASSERT_NE(session, nullptr);
  const core::ClaimInfo claim = Begin(*session, "a", 1);
  ASSERT_TRUE(session->TouchAndRead(std::vector{InsertOf("b")}, {}).ok());
  server.Kill();
  EXPECT_EQ(session->Write({.changes = {}, .attempts = {EntryOf("b")}}).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(store->OpenWriteSession().status().code(), absl::StatusCode::kUnavailable);
  server.Resume();
  session = Write(*store);
  ASSERT_NE(session, nullptr);
  const core::ClaimInfo again = Begin(*session, "a", 1);
  EXPECT_EQ(again.fence, claim.fence);
  EXPECT_EQ(RunSql(*database.Connect(), "SELECT COUNT(*) FROM operation")->front().front(), "1");
}

}  // namespace
}  // namespace once::testing
