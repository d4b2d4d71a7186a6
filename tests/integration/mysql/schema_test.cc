// Migration: several at once, half done ones, schemas of other programs.
#include <thread>

#include "absl/strings/str_cat.h"
#include "integration/mysql/mysql_fixture.h"
#include "store/mysql/mysql_store.h"

namespace once::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kLaterSteps = {"0002 policies and audit", "0003 aggregates",
                                              "0004 past receipts"};
const std::vector<std::string> kAllSteps = {"0001 first schema", kLaterSteps[0], kLaterSteps[1],
                                            kLaterSteps[2]};

class SchemaTest : public ::testing::Test {
 protected:
  SchemaTest() : database_(Server()), store_(store::OpenMysqlStore(database_.options())) {}

  TestDatabase database_;
  std::unique_ptr<store::Store> store_;
};

TEST_F(SchemaTest, MigrateAppliesEachStepOnce) {
  auto first = store_->Migrate();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*first, kAllSteps);
  auto second = store_->Migrate();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(*second, IsEmpty());
}

TEST_F(SchemaTest, ServersThatStartTogetherMigrateOnce) {
  std::vector<std::thread> servers;
  std::vector<absl::StatusOr<std::vector<std::string>>> results(8);
  for (auto& result : results) {
    servers.emplace_back([&] { result = store::OpenMysqlStore(database_.options())->Migrate(); });
  }
  for (auto& server : servers) server.join();
  size_t applied = 0;
  for (auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status();
    applied += result->size();
  }
  EXPECT_EQ(applied, kAllSteps.size());
  EXPECT_TRUE(store_->OpenWriteSession().ok());
}

TEST_F(SchemaTest, AHalfDoneStepIsFinished) {
  ASSERT_TRUE(store_->Migrate().ok());
  // As a program leaves it that dies after some of the step's tables.
  database_.Must("DROP TABLE attempt");
  database_.Must("DELETE FROM schema_version");
  EXPECT_EQ(store_->OpenWriteSession().status().code(), absl::StatusCode::kFailedPrecondition);
  auto again = store_->Migrate();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, kAllSteps);
  EXPECT_TRUE(store_->OpenWriteSession().ok());
}

TEST_F(SchemaTest, AnOlderSchemaTakesTheStepsThatItLacks) {
  ASSERT_TRUE(store_->Migrate().ok());
  database_.Must("INSERT INTO tenant(name, created_us) VALUES (\'shop\', 1)");
  database_.Must("DROP TABLE policy_version, audit_record, aggregate, past_receipt");
  database_.Must("DELETE FROM schema_version WHERE version > 1");
  EXPECT_EQ(store_->OpenControlSession().status().code(), absl::StatusCode::kFailedPrecondition);
  auto lacking = store_->Migrate();
  ASSERT_TRUE(lacking.ok()) << lacking.status();
  EXPECT_EQ(*lacking, kLaterSteps);
  auto control = store_->OpenControlSession();
  ASSERT_TRUE(control.ok()) << control.status();
  EXPECT_TRUE((*control)->GetTenant("shop").ok());
  EXPECT_TRUE((*control)->ReadPolicyChanges(0).ok());
}

TEST_F(SchemaTest, NewerSchemaIsRefusedByAll) {
  ASSERT_TRUE(store_->Migrate().ok());
  database_.Must("INSERT INTO schema_version VALUES (999, 'from the future', 0)");
  for (const absl::Status& status :
       {store_->Migrate().status(), store_->OpenWriteSession().status(),
        store_->OpenReadSession().status(), store_->OpenControlSession().status(),
        store_->Check(1).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("999"));
  }
}

TEST_F(SchemaTest, MissingSchemaSaysWhatToRun) {
  const absl::Status status = store_->OpenReadSession().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("onced migrate"));
}

TEST_F(SchemaTest, MissingDatabaseSaysHowToMakeIt) {
  store::MysqlOptions options = database_.options();
  options.database = "once_test_no_such_database";
  const absl::Status status = store::OpenMysqlStore(options)->Migrate().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("CREATE DATABASE"), HasSubstr(options.database)));
}

TEST_F(SchemaTest, MissingRightsAreNamed) {
  const std::string user = absl::StrCat("poor_", database_.name());
  database_.Must(absl::StrCat("CREATE USER ", user, " IDENTIFIED BY 'pw'"));
  database_.Must(absl::StrCat("GRANT SELECT ON ", database_.name(), ".* TO ", user));
  store::MysqlOptions options = database_.options();
  options.user = user;
  options.password = base::Secret("pw");
  const absl::Status status = store::OpenMysqlStore(options)->Migrate().status();
  database_.Must(absl::StrCat("DROP USER ", user));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("CREATE command denied"));
}

TEST_F(SchemaTest, WrongPasswordIsNoOutage) {
  store::MysqlOptions options = database_.options();
  options.password = base::Secret("wrong password");
  const absl::Status status = store::OpenMysqlStore(options)->OpenWriteSession().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Access denied"));
}

// Every key column compares bytes, and nothing but the primary key of `operation` can make an
// insert a duplicate.
TEST_F(SchemaTest, TablesAreBinaryInnodbWithOneKeyOnOperation) {
  ASSERT_TRUE(store_->Migrate().ok());
  const std::string here = absl::StrCat("TABLE_SCHEMA='", database_.name(), "'");
  EXPECT_EQ(database_.Must(absl::StrCat(
                "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE ", here,
                " AND CHARACTER_SET_NAME IS NOT NULL AND CHARACTER_SET_NAME<>'binary'")),
            "0");
  EXPECT_EQ(database_.Must(absl::StrCat("SELECT COUNT(*) FROM information_schema.TABLES WHERE ",
                                        here, " AND ENGINE<>'InnoDB'")),
            "0");
  EXPECT_EQ(database_.Must(absl::StrCat(
                "SELECT COUNT(DISTINCT INDEX_NAME) FROM information_schema.STATISTICS WHERE ", here,
                " AND TABLE_NAME='operation'")),
            "1");
}

}  // namespace
}  // namespace once::testing
