// What is special to SQLite. The contract of all stores is tested in tests/conformance.
#include "store/sqlite/sqlite_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "store/batch.h"
#include "support/manual_clock.h"
#include "unit/store_sqlite/failing_disk.h"

namespace once::store {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SqliteStoreTest : public ::testing::Test {
 protected:
  SqliteStoreTest() {
    folder_ = (std::filesystem::temp_directory_path() / "once-sqlite-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/once.db";
    sqlite::FailingDisk::Get().Heal();
  }
  ~SqliteStoreTest() override {
    sqlite::FailingDisk::Get().Heal();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  absl::StatusOr<std::unique_ptr<Store>> TryOpen(const std::string& path) {
    return OpenSqliteStore(
        {.path = path, .clock = &clock_, .busy_timeout = absl::Milliseconds(50)});
  }
  absl::Status OpenError(const std::string& path) { return TryOpen(path).status(); }

  std::unique_ptr<Store> OpenMigrated() {
    auto store = TryOpen(path_);
    EXPECT_TRUE(store.ok()) << store.status();
    EXPECT_TRUE((*store)->Migrate().ok());
    return *std::move(store);
  }

  static core::OperationKey Key(std::string event_id) {
    return {.tenant = {1}, .handler = {1}, .event_id = std::move(event_id)};
  }

  Command Begin(const core::OperationKey& key, uint8_t attempt = 1) {
    BeginCommand command;
    command.key = key;
    command.entry[0] = ++entries_;
    command.request.attempt.bytes.fill(attempt);
    command.request.lease = absl::Seconds(30);
    return command;
  }

  core::ClaimInfo Claim(WriteSession& session, const core::OperationKey& key) {
    auto answers = RunBatch(session, {Begin(key)}, false);
    EXPECT_TRUE(answers.ok()) << answers.status();
    return std::get<core::Granted>(std::get<core::BeginOutcome>(answers->at(0))).claim;
  }

  void Forget(WriteSession& session, const core::OperationKey& key, const core::ClaimInfo& claim) {
    AbandonCommand command;
    command.key = key;
    command.entry[0] = ++entries_;
    command.request.attempt = claim.attempt;
    command.request.fence = claim.fence;
    command.request.forget = true;
    ASSERT_TRUE(RunBatch(session, {command}, false).ok());
  }

  static bool Exists(Store& store, const core::OperationKey& key) {
    auto reader = store.OpenReadSession();
    EXPECT_TRUE(reader.ok()) << reader.status();
    return (*reader)->Read({&key, 1})->others[0].has_value();
  }

  static mode_t ModeOf(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 0777;
  }

  // Runs `body` in another process, which ends there and then; its exit status.
  static int InAnotherProcess(const std::function<int()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  test::ManualClock clock_;
  std::string folder_;
  std::string path_;
  uint8_t entries_ = 0;
};

// ---- the file ----

TEST_F(SqliteStoreTest, NamesThatAreNoFileAreRefused) {
  for (const char* path : {"", ":memory:", "file:once.db", "/tmp/"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(OpenError(path))) << path;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(OpenError(folder_)));
  EXPECT_TRUE(absl::IsInvalidArgument(OpenError(std::string("/tmp/a\0b", 8))));
}

TEST_F(SqliteStoreTest, MissingFolderIsNamed) {
  const absl::Status status = OpenError(folder_ + "/none/once.db");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("/none/once.db"));
  EXPECT_THAT(status.message(), HasSubstr("folder"));
}

TEST_F(SqliteStoreTest, FilesAreTheOwnersOnly) {
  const mode_t before = umask(0);
  const auto store = OpenMigrated();
  auto session = store->OpenWriteSession();
  umask(before);
  (void)Claim(**session, Key("a"));
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) {
    EXPECT_EQ(ModeOf(path_ + suffix), 0600) << suffix;
  }
  auto warnings = store->Check(1 << 20);
  ASSERT_TRUE(warnings.ok()) << warnings.status();
}

TEST_F(SqliteStoreTest, FileThatOthersCanReadIsReported) {
  const auto store = OpenMigrated();
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  auto warnings = store->Check(1 << 20);
  ASSERT_TRUE(warnings.ok()) << warnings.status();
  EXPECT_THAT(*warnings, ::testing::Contains(HasSubstr("others than its owner")));
}

TEST_F(SqliteStoreTest, OtherFilesAreNotTakenForADatabase) {
  std::ofstream(path_) << std::string(5000, 'x');
  const absl::Status status = OpenError(path_);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST_F(SqliteStoreTest, DatabaseOfSomebodyElseIsNotMigratedOver) {
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &raw), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(raw, "CREATE TABLE operation (x)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(raw);
  auto store = TryOpen(path_);
  ASSERT_TRUE(store.ok());
  EXPECT_FALSE((*store)->Migrate().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition((*store)->Check(1).status())) << "nothing is half done";
}

// ---- one server at a time ----

TEST_F(SqliteStoreTest, SecondServerIsRefusedWhileTheFirstLives) {
  auto first = TryOpen(path_);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status refused = OpenError(path_);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr(path_));
  EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat("process ", getpid())));
  first->reset();
  EXPECT_TRUE(TryOpen(path_).ok());
}

TEST_F(SqliteStoreTest, OtherNamesOfTheFileAreTheSameFile) {
  auto first = TryOpen(path_);
  ASSERT_TRUE(first.ok());
  const std::string link = folder_ + "/link.db";
  ASSERT_EQ(symlink(path_.c_str(), link.c_str()), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(OpenError(link)));
  EXPECT_TRUE(absl::IsFailedPrecondition(OpenError(folder_ + "/./once.db")));
  EXPECT_TRUE(absl::IsFailedPrecondition(OpenError(std::filesystem::relative(path_).string())));
}

TEST_F(SqliteStoreTest, OtherProcessIsRefused) {
  auto first = TryOpen(path_);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(InAnotherProcess([&] { return absl::IsFailedPrecondition(OpenError(path_)) ? 0 : 1; }),
            0);
}

TEST_F(SqliteStoreTest, RefusedServerDoesNotDisturbTheFirst) {
  // Closing any descriptor of the file would drop the locks that SQLite has on it in this process.
  // The other process is made first: a later one would inherit what SQLite believes about locks.
  std::array<int, 2> start{};
  ASSERT_EQ(pipe(start.data()), 0);
  const pid_t other = fork();
  if (other == 0) {
    char go = 0;
    if (read(start[0], &go, 1) != 1) _exit(2);
    sqlite3* raw = nullptr;
    sqlite3_open(path_.c_str(), &raw);
    // Whoever could have the file for itself would throw away the log that the first one writes.
    _exit(sqlite3_exec(raw, "PRAGMA journal_mode=DELETE", nullptr, nullptr, nullptr) == SQLITE_BUSY
              ? 0
              : 1);
  }
  const auto first = OpenMigrated();
  auto session = first->OpenWriteSession();
  (void)Claim(**session, Key("a"));

  EXPECT_TRUE(absl::IsFailedPrecondition(OpenError(path_)));

  EXPECT_EQ(write(start[1], "g", 1), 1);
  int status = 0;
  EXPECT_EQ(waitpid(other, &status, 0), other);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  (void)Claim(**session, Key("b"));
  close(start[0]);
  close(start[1]);
}

TEST_F(SqliteStoreTest, KilledServerLeavesWhatItCommittedAndNothingElse) {
  const int killed = InAnotherProcess([&] {
    const auto store = OpenMigrated();
    auto session = store->OpenWriteSession();
    (void)Claim(**session, Key("committed"));
    const NewOperation insert{.key = Key("open"),
                              .digest = {},
                              .attempt = {},
                              .lease = absl::Seconds(1),
                              .consumer = "",
                              .handler_version = ""};
    if (!(*session)->TouchAndRead({&insert, 1}, {}).ok()) return 1;
    (void)kill(getpid(), SIGKILL);
    return 2;
  });
  ASSERT_EQ(killed, -SIGKILL);

  const auto store = OpenMigrated();

  EXPECT_TRUE(Exists(*store, Key("committed")));
  EXPECT_FALSE(Exists(*store, Key("open")));
  auto session = store->OpenWriteSession();
  (void)Claim(**session, Key("open"));
}

// ---- other writers ----

TEST_F(SqliteStoreTest, WriterOutsideOfTheServerAbortsAndPasses) {
  const auto store = OpenMigrated();
  auto session = store->OpenWriteSession();
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &raw), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(raw, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);

  EXPECT_TRUE(absl::IsAborted(RunBatch(**session, {Begin(Key("a"))}, false).status()));
  EXPECT_TRUE((*session)->usable());

  ASSERT_EQ(sqlite3_exec(raw, "ROLLBACK", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(raw);
  (void)Claim(**session, Key("a"));
}

TEST_F(SqliteStoreTest, SessionsOfTheServerTakeTurns) {
  const auto store = OpenMigrated();
  auto first = store->OpenWriteSession();
  auto second = store->OpenWriteSession();
  auto control = store->OpenControlSession();
  ASSERT_TRUE((*first)->TouchAndRead({}, {}).ok());
  EXPECT_TRUE(absl::IsAborted((*second)->TouchAndRead({}, {}).status()));
  EXPECT_TRUE(absl::IsAborted((*control)->CreateTenant("shop", {}).status()));
  (*first)->Rollback();
  EXPECT_TRUE((*second)->TouchAndRead({}, {}).ok());
  EXPECT_TRUE((*second)->Commit().ok());
  EXPECT_TRUE((*control)->CreateTenant("shop", {}).ok());
}

TEST_F(SqliteStoreTest, SessionThatGoesAwayGivesItsTurnBack) {
  const auto store = OpenMigrated();
  auto first = store->OpenWriteSession();
  ASSERT_TRUE((*first)->TouchAndRead({}, {}).ok());
  first->reset();
  auto second = store->OpenWriteSession();
  EXPECT_TRUE((*second)->TouchAndRead({}, {}).ok());
  (*second)->Rollback();
}

// ---- a failing disk ----

TEST_F(SqliteStoreTest, FailedSyncAtCommitIsUnknownAndTheBatchIsRunAgain) {
  const auto store = OpenMigrated();
  auto session = store->OpenWriteSession();
  (void)Claim(**session, Key("a"));
  sqlite::FailingDisk::Get().sync = SQLITE_IOERR_FSYNC;
  const Command begin = Begin(Key("b"));

  const absl::Status failed = RunBatch(**session, {begin}, false).status();

  EXPECT_TRUE(absl::IsUnknown(failed)) << failed;
  EXPECT_FALSE((*session)->usable());
  EXPECT_TRUE(absl::IsUnavailable((*session)->TouchAndRead({}, {}).status()));
  sqlite::FailingDisk::Get().Heal();
  auto fresh = store->OpenWriteSession();
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  auto answers = RunBatch(**fresh, {begin}, true);
  ASSERT_TRUE(answers.ok()) << answers.status();
  const auto& granted = std::get<core::Granted>(std::get<core::BeginOutcome>(answers->at(0)));
  EXPECT_EQ(granted.attempt_number, 1);
  EXPECT_TRUE(Exists(*store, Key("a")));
  EXPECT_TRUE(Exists(*store, Key("b")));
}

TEST_F(SqliteStoreTest, FullDiskAtCommitIsUnknownAndPasses) {
  const auto store = OpenMigrated();
  auto session = store->OpenWriteSession();
  for (const int passes : {0, 1, 2}) {
    const core::OperationKey key = Key(absl::StrCat("full-", passes));
    if (!(*session)->usable()) session = store->OpenWriteSession();
    sqlite::FailingDisk::Get().passes = passes;
    sqlite::FailingDisk::Get().write = SQLITE_FULL;
    const Command begin = Begin(key);
    const absl::Status failed = RunBatch(**session, {begin}, false).status();
    EXPECT_TRUE(absl::IsUnknown(failed) || absl::IsUnavailable(failed)) << failed;
    sqlite::FailingDisk::Get().Heal();
    session = store->OpenWriteSession();
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_TRUE(RunBatch(**session, {begin}, true).ok());
    EXPECT_TRUE(Exists(*store, key));
  }
}

TEST_F(SqliteStoreTest, FailedCommitsOfTheControlPlaneAreUnknown) {
  const auto store = OpenMigrated();
  auto control = store->OpenControlSession();
  sqlite::FailingDisk::Get().sync = SQLITE_IOERR_FSYNC;
  EXPECT_TRUE(absl::IsUnknown((*control)->CreateTenant("shop", {}).status()));
  EXPECT_FALSE((*control)->usable());
  sqlite::FailingDisk::Get().Heal();
  control = store->OpenControlSession();
  ASSERT_TRUE(control.ok());
  EXPECT_TRUE((*control)->CreateTenant("bank", {}).ok());
}

// ---- time ----

TEST_F(SqliteStoreTest, LeasesAreJudgedByTheGivenClock) {
  const auto store = OpenMigrated();
  auto session = store->OpenWriteSession();
  const core::ClaimInfo claim = Claim(**session, Key("a"));
  EXPECT_EQ(claim.begun.micros, absl::ToUnixMicros(clock_.Now()));
  clock_.Advance(absl::Seconds(30));
  auto answers = RunBatch(**session, {Begin(Key("a"), 2)}, false);
  ASSERT_TRUE(answers.ok());
  EXPECT_TRUE(std::get<core::Granted>(std::get<core::BeginOutcome>(answers->at(0)))
                  .earlier_attempt.has_value());
}

TEST_F(SqliteStoreTest, FencesGrowOverForgetWhereTheClockStandsStill) {
  const auto store = OpenMigrated();
  auto session = store->OpenWriteSession();
  core::Fence last;
  for (int i = 0; i < 5; ++i) {
    const core::ClaimInfo claim = Claim(**session, Key("a"));
    EXPECT_THAT(claim.fence, Gt(last));
    last = claim.fence;
    Forget(**session, Key("a"), claim);
  }
}

TEST_F(SqliteStoreTest, FencesGrowOverForgetRestartAndAClockSetBack) {
  core::Fence last;
  {
    const auto store = OpenMigrated();
    auto session = store->OpenWriteSession();
    const core::ClaimInfo claim = Claim(**session, Key("a"));
    last = claim.fence;
    Forget(**session, Key("a"), claim);
  }
  clock_.Advance(-absl::Hours(24));
  const auto store = OpenMigrated();
  auto session = store->OpenWriteSession();
  const core::ClaimInfo claim = Claim(**session, Key("a"));
  EXPECT_THAT(claim.fence, Gt(last));
  EXPECT_EQ(claim.begun.micros, absl::ToUnixMicros(clock_.Now())) << "the time is the clock's";
}

}  // namespace
}  // namespace once::store
