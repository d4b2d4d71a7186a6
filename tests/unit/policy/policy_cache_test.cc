#include "policy/policy_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "policy/document.h"
#include "support/memory_store.h"

namespace once::policy {
namespace {

constexpr core::TenantId kShop{1};
const store::Author kAuthor = {.credential_id = "0123456789abcdef", .reason = "a test"};

class Witness final : public PolicyObserver {
 public:
  void OnPoliciesRead(const absl::Status& status, bool changed) override {
    absl::MutexLock lock(&mutex_);
    ++(status.ok() ? good_ : bad_);
    changes_ += changed ? 1 : 0;
    told_.SignalAll();
  }
  // Blocks until so many more reads went well, or failed.
  void AwaitGood(int more) { Await(good_, more); }
  void AwaitBad(int more) { Await(bad_, more); }
  int changes() const {
    absl::MutexLock lock(&mutex_);
    return changes_;
  }

 private:
  void Await(const int& count, int more) {
    absl::MutexLock lock(&mutex_);
    const int goal = count + more;
    while (count < goal) told_.Wait(&mutex_);
  }

  mutable absl::Mutex mutex_;
  absl::CondVar told_;
  int good_ = 0;
  int bad_ = 0;
  int changes_ = 0;
};

class PolicyCacheTest : public ::testing::Test {
 protected:
  void Apply(int32_t expected, const std::string& document) {
    auto control = store_.OpenControlSession();
    ASSERT_TRUE(control.ok());
    const auto row = (*control)->ApplyPolicies(kShop, expected, document, kAuthor);
    ASSERT_TRUE(row.ok()) << row.status();
  }
  static std::string DocumentOf(const std::string& handler) {
    return WriteDocument(std::vector<core::HandlerPolicy>{{.handler = handler}});
  }
  std::unique_ptr<PolicyCache> Start() {
    auto cache = PolicyCache::Start({.refresh_interval = absl::Milliseconds(1)}, core::Limits{},
                                    &store_, &witness_);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return *std::move(cache);
  }

  test::MemoryStore store_;
  Witness witness_;
};

TEST_F(PolicyCacheTest, PoliciesAreInForceFromTheStart) {
  Apply(0, DocumentOf("a"));
  Apply(1, DocumentOf("b"));
  const auto cache = Start();
  EXPECT_EQ(cache->Current()->For(kShop, "b").pattern, "b");
  EXPECT_EQ(cache->Current()->For(kShop, "a").pattern, "");
}

TEST_F(PolicyCacheTest, ChangeIsSeenAndOldViewsStay) {
  const auto cache = Start();
  const auto before = cache->Current();
  Apply(0, DocumentOf("a"));
  witness_.AwaitGood(2);  // one may have begun before
  EXPECT_EQ(cache->Current()->For(kShop, "a").pattern, "a");
  EXPECT_EQ(before->For(kShop, "a").pattern, "");
}

TEST_F(PolicyCacheTest, ReadsThatFindNothingChangeNothing) {
  Apply(0, DocumentOf("a"));
  const auto cache = Start();
  const auto before = cache->Current();
  witness_.AwaitGood(3);
  EXPECT_EQ(cache->Current(), before);
  EXPECT_EQ(witness_.changes(), 1);
}

TEST_F(PolicyCacheTest, StartFailsWhileTheyCannotBeRead) {
  store_.faults().Next(test::FaultPoint::kOpen, test::Fault::kUnavailable);
  const auto cache = PolicyCache::Start({}, core::Limits{}, &store_, &witness_);
  EXPECT_TRUE(absl::IsUnavailable(cache.status())) << cache.status();
}

TEST_F(PolicyCacheTest, StartFailsWhereTheyCannotBeUnderstood) {
  Apply(0, R"([{"handler":"a","newer":1}])");
  const auto cache = PolicyCache::Start({}, core::Limits{}, &store_, &witness_);
  EXPECT_TRUE(absl::IsFailedPrecondition(cache.status())) << cache.status();
}

TEST_F(PolicyCacheTest, LastKnownOnesStayWhereNewerCannotBeUnderstood) {
  Apply(0, DocumentOf("a"));
  const auto cache = Start();
  Apply(1, R"([{"handler":"a","newer":1}])");
  witness_.AwaitBad(2);
  EXPECT_EQ(cache->Current()->For(kShop, "a").pattern, "a");
  Apply(2, DocumentOf("b"));
  witness_.AwaitGood(1);
  EXPECT_EQ(cache->Current()->For(kShop, "b").pattern, "b");
}

// The database behind a name: after a failover, or from a backup.
class MovedStore final : public store::Store {
 public:
  explicit MovedStore(store::Store* first) : target_(first) {}
  void MoveTo(store::Store* other) { target_ = other; }

  absl::StatusOr<std::unique_ptr<store::WriteSession>> OpenWriteSession() override {
    return target_.load()->OpenWriteSession();
  }
  absl::StatusOr<std::unique_ptr<store::ReadSession>> OpenReadSession() override {
    return target_.load()->OpenReadSession();
  }
  absl::StatusOr<std::unique_ptr<store::ControlSession>> OpenControlSession() override {
    return target_.load()->OpenControlSession();
  }
  absl::StatusOr<std::vector<std::string>> Migrate() override { return target_.load()->Migrate(); }
  absl::StatusOr<std::vector<std::string>> Check(size_t max_result_bytes) override {
    return target_.load()->Check(max_result_bytes);
  }
  int max_write_sessions() const override { return target_.load()->max_write_sessions(); }
  absl::string_view engine() const override { return target_.load()->engine(); }

 private:
  std::atomic<store::Store*> target_;
};

// Its changes have the same numbers as those that are known, and say something else.
TEST_F(PolicyCacheTest, EverythingIsReadAnewBehindANewConnection) {
  Apply(0, DocumentOf("a"));
  test::MemoryStore restored;
  const auto control = restored.OpenControlSession();
  ASSERT_TRUE((*control)->ApplyPolicies(kShop, 0, DocumentOf("b"), kAuthor).ok());
  MovedStore store(&store_);
  const auto cache = PolicyCache::Start({.refresh_interval = absl::Milliseconds(1)}, core::Limits{},
                                        &store, &witness_);
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ((*cache)->Current()->For(kShop, "a").pattern, "a");
  store.MoveTo(&restored);
  store_.faults().Next(test::FaultPoint::kControl, test::Fault::kUnavailable);
  while ((*cache)->Current()->For(kShop, "b").pattern != "b") witness_.AwaitGood(1);
  EXPECT_EQ((*cache)->Current()->For(kShop, "a").pattern, "");
}

}  // namespace
}  // namespace once::policy
