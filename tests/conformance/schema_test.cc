// Schema steps and what a server checks before it starts.
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "conformance/harness.h"

namespace once::conformance {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class SchemaTest : public FreshDatabaseTest {
 protected:
  void SetUp() override {
    if (absl::IsUnimplemented(database_->Sql("SELECT 1").status())) {
      GTEST_SKIP() << "no schema";
    }
  }

  static void ExpectRefused(const absl::Status& status) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  }

  static void ExpectRefusesToWork(store::Store& store) {
    ExpectRefused(store.OpenWriteSession().status());
    ExpectRefused(store.OpenReadSession().status());
    ExpectRefused(store.OpenControlSession().status());
    ExpectRefused(store.Check(1 << 20).status());
  }
};

TEST_F(SchemaTest, NothingWorksBeforeTheSchemaIsThere) {
  const auto store = database_->Open();
  ExpectRefusesToWork(*store);
  EXPECT_THAT(store->Check(1 << 20).status().message(), HasSubstr("migrate"));
}

TEST_F(SchemaTest, MigrateAppliesEachStepOnce) {
  const auto store = database_->Open();
  auto first = store->Migrate();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(*first, Not(IsEmpty()));
  auto second = store->Migrate();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(*second, IsEmpty());
  EXPECT_TRUE(store->OpenWriteSession().ok());
  EXPECT_TRUE(store->OpenReadSession().ok());
  EXPECT_TRUE(store->OpenControlSession().ok());

  auto versions = database_->Sql("SELECT version FROM schema_version");
  ASSERT_TRUE(versions.ok());
  EXPECT_EQ(versions->size(), first->size());
}

TEST_F(SchemaTest, SeveralServersMayMigrateAtOnce) {
  constexpr int kServers = 4;
  std::vector<std::unique_ptr<store::Store>> stores;
  for (int i = 0; i < (database_->several_servers() ? kServers : 1); ++i) {
    stores.push_back(database_->Open());
  }
  absl::Notification start;
  absl::Mutex mutex;
  std::vector<std::string> steps;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kServers; ++i) {
    threads.emplace_back([&, i] {
      start.WaitForNotification();
      auto applied = stores[i % stores.size()]->Migrate();
      ASSERT_TRUE(applied.ok()) << applied.status();
      absl::MutexLock lock(&mutex);
      steps.insert(steps.end(), applied->begin(), applied->end());
    });
  }
  start.Notify();
  for (std::thread& thread : threads) {
    thread.join();
  }
  auto versions = database_->Sql("SELECT version FROM schema_version");
  ASSERT_TRUE(versions.ok());
  EXPECT_EQ(versions->size(), steps.size()) << "each step was applied by one server";
  EXPECT_TRUE(stores[0]->OpenWriteSession().ok());
}

TEST_F(SchemaTest, NewerSchemaIsRefused) {
  const auto store = OpenMigrated();
  ASSERT_TRUE(database_
                  ->Sql("INSERT INTO schema_version (version, name, applied_us)"
                        " VALUES (9999, x'6e6577', 0)")
                  .ok());
  ExpectRefusesToWork(*store);
  const absl::Status refused = store->Migrate().status();
  ExpectRefused(refused);
  EXPECT_THAT(refused.message(), HasSubstr("9999"));
}

TEST_F(SchemaTest, ResultsThatCannotFitAreRefusedAtTheStart) {
  const auto store = OpenMigrated();
  EXPECT_TRUE(store->Check(size_t{1} << 20).ok()) << store->Check(size_t{1} << 20).status();
  ExpectRefused(store->Check(size_t{4} << 30).status());
}

TEST_F(SchemaTest, DataOutlivesTheServer) {
  core::TenantId tenant;
  {
    const auto store = OpenMigrated();
    auto control = store->OpenControlSession();
    ASSERT_TRUE(control.ok());
    tenant = (*control)->CreateTenant("shop", {})->id;
  }
  const auto store = database_->Open();
  auto steps = store->Migrate();
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_THAT(*steps, IsEmpty());
  auto control = store->OpenControlSession();
  ASSERT_TRUE(control.ok());
  EXPECT_EQ((*control)->GetTenant("shop")->id, tenant);
}

TEST_F(FreshDatabaseTest, StoreNamesItselfAndItsLimits) {
  const auto store = database_->Open();
  EXPECT_FALSE(store->engine().empty());
  EXPECT_GE(store->max_write_sessions(), 1);
}

}  // namespace
}  // namespace once::conformance
