#include "core/handler_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "core/json_pointer.h"

namespace once::core {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kDay = absl::Hours(24);

HandlerPolicy PolicyOf(std::string handler) {
  HandlerPolicy policy;
  policy.handler = std::move(handler);
  return policy;
}

HandlerPolicy JsonPolicy(std::string handler, std::vector<std::string> ignored = {}) {
  HandlerPolicy policy = PolicyOf(std::move(handler));
  policy.digest = {.scheme = DigestScheme::kJsonJcsSha256, .ignored_members = std::move(ignored)};
  return policy;
}

absl::Status Check(const HandlerPolicy& policy) { return CheckPolicies({&policy, 1}, Limits{}); }

std::string FieldOf(const absl::Status& status) {
  const base::ErrorDetails details = base::DetailsOf(status);
  EXPECT_EQ(details.reason, base::ErrorReason::kInvalidField) << status;
  const auto field = details.metadata.find("field");
  return field == details.metadata.end() ? "" : field->second;
}

// ---- matching ----

TEST(FindPolicyTest, LongestMatchWins) {
  const std::vector<HandlerPolicy> policies = {PolicyOf("*"), PolicyOf("pay.*"),
                                               PolicyOf("pay.out"), PolicyOf("pay.out*")};
  const auto decides = [&](absl::string_view handler) {
    const HandlerPolicy* found = FindPolicy(policies, handler);
    return found == nullptr ? "" : found->handler;
  };
  EXPECT_EQ(decides("pay.out"), "pay.out");
  EXPECT_EQ(decides("pay.out.eu"), "pay.out*");
  EXPECT_EQ(decides("pay.in"), "pay.*");
  EXPECT_EQ(decides("pay"), "*");
  EXPECT_EQ(FindPolicy({}, "pay"), nullptr);
}

// ---- readable versions ----

TEST(CheckPoliciesTest, ReadableVersionsAreBounded) {
  HandlerPolicy policy = PolicyOf("pay.*");
  policy.readable_versions = std::vector<std::string>(kMaxReadableVersions, std::string(64, 'v'));
  policy.readable_versions.back() += "*";
  EXPECT_TRUE(Check(policy).ok()) << Check(policy);
  policy.readable_versions.emplace_back("v");
  EXPECT_EQ(FieldOf(Check(policy)), "policies[0].readable_versions");
  policy.readable_versions = {"v1", std::string(65, 'v')};
  EXPECT_EQ(FieldOf(Check(policy)), "policies[0].readable_versions[1]");
  policy.readable_versions = {"v1", ""};
  EXPECT_EQ(FieldOf(Check(policy)), "policies[0].readable_versions[1]");
}

// ---- lease ----

TEST(CheckPoliciesTest, BuiltInDefaultIsFine) { EXPECT_TRUE(Check(PolicyOf("*")).ok()); }

TEST(CheckPoliciesTest, LeaseStaysWithinTheServersLimits) {
  HandlerPolicy policy = PolicyOf("pay.*");
  policy.lease = {
      .normal = absl::Minutes(1), .least = absl::Milliseconds(100), .greatest = absl::Hours(24)};
  EXPECT_TRUE(Check(policy).ok()) << Check(policy);
  policy.lease.greatest = absl::Hours(24) + absl::Microseconds(1);
  EXPECT_EQ(FieldOf(Check(policy)), "policies[0].lease.greatest");
  policy.lease.greatest.reset();
  policy.lease.least = absl::Milliseconds(100) - absl::Microseconds(1);
  EXPECT_EQ(FieldOf(Check(policy)), "policies[0].lease.least");
}

TEST(CheckPoliciesTest, LeasesAreOrdered) {
  HandlerPolicy policy = PolicyOf("pay.*");
  policy.lease.least = absl::Seconds(10);
  policy.lease.greatest = absl::Seconds(10);
  policy.lease.normal = absl::Seconds(10);
  EXPECT_TRUE(Check(policy).ok());
  policy.lease.normal = absl::Seconds(10) + absl::Microseconds(1);
  EXPECT_THAT(
      Check(policy).message(),
      HasSubstr("policies[0].lease.normal is 10.000001s; the limit is 10s (handler pay.*)"));
  policy.lease.normal = absl::Seconds(10) - absl::Microseconds(1);
  EXPECT_THAT(Check(policy).message(), HasSubstr("the minimum is 10s"));
  policy.lease.greatest = absl::Seconds(10) - absl::Microseconds(1);
  EXPECT_EQ(FieldOf(Check(policy)), "policies[0].lease.greatest");
}

// ---- digest ----

TEST(CheckPoliciesTest, OnlyMembersOfJsonCanBeLeftOut) {
  EXPECT_TRUE(Check(JsonPolicy("a", {"/sent_at"})).ok());
  HandlerPolicy raw = JsonPolicy("a", {"/sent_at"});
  raw.digest.scheme = DigestScheme::kRawSha256;
  EXPECT_EQ(FieldOf(Check(raw)), "policies[0].digest.ignored_members");
}

TEST(CheckPoliciesTest, MembersAreNamedByPointers) {
  EXPECT_EQ(FieldOf(Check(JsonPolicy("a", {"sent_at"}))), "policies[0].digest.ignored_members");
  EXPECT_TRUE(Check(JsonPolicy("a", {"/" + std::string(254, 'm')})).ok());
  const absl::Status status = Check(JsonPolicy("a", {"/x", "/" + std::string(255, 'm')}));
  EXPECT_THAT(status.message(),
              HasSubstr("policies[0].digest.ignored_members[1] is 256 bytes; the limit is 255"));
  std::vector<std::string> many;
  for (size_t i = 0; i < kMaxExcludedPointers; ++i) many.push_back(absl::StrCat("/", i));
  EXPECT_TRUE(Check(JsonPolicy("a", many)).ok());
  many.push_back("/more");
  EXPECT_THAT(Check(JsonPolicy("a", many)).message(),
              HasSubstr("policies[0].digest.ignored_members has 65 items; the limit is 64"));
}

// ---- retention ----

RetentionPolicy AllWindows() {
  return {.receipt = {},
          .dedupe = {},
          .broker = 7 * kDay,
          .dead_letter = 14 * kDay,
          .backup = 30 * kDay,
          .manual_replay = 90 * kDay};
}

TEST(CheckPoliciesTest, DedupeCoversAllWindowsInARow) {
  HandlerPolicy policy = PolicyOf("pay.*");
  policy.retention = AllWindows();
  policy.retention.dedupe = 141 * kDay;
  EXPECT_TRUE(Check(policy).ok()) << Check(policy);
  policy.retention.dedupe = 141 * kDay - absl::Seconds(1);
  const absl::Status status = Check(policy);
  EXPECT_EQ(FieldOf(status), "policies[0].retention.dedupe");
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("is 140d23h59m59s, but messages can come back for 141d: "
                              "manual_replay_window 90d + broker_window 7d + "
                              "dead_letter_window 14d + backup_window 30d = 141d"),
                    HasSubstr("handler pay.*")));
}

TEST(CheckPoliciesTest, WindowsThatDoNotExistAreNotAdded) {
  HandlerPolicy policy = PolicyOf("pay.*");
  policy.retention.broker = 7 * kDay;
  policy.retention.dedupe = 7 * kDay;
  EXPECT_TRUE(Check(policy).ok());
  policy.retention.dedupe = 6 * kDay;
  EXPECT_THAT(Check(policy).message(), HasSubstr("for 7d: broker_window 7d = 7d"));
}

TEST(CheckPoliciesTest, DedupeWithoutEndCoversEverything) {
  HandlerPolicy policy = PolicyOf("pay.*");
  policy.retention = AllWindows();
  EXPECT_TRUE(Check(policy).ok());
}

TEST(CheckPoliciesTest, DedupeWithAnEndNeedsAWindow) {
  HandlerPolicy policy = PolicyOf("pay.*");
  policy.retention.dedupe = 7 * kDay;
  EXPECT_THAT(Check(policy).message(), HasSubstr("no window says"));
}

TEST(CheckPoliciesTest, ReceiptGoesNoLaterThanTheOperation) {
  HandlerPolicy policy = PolicyOf("pay.*");
  policy.retention.broker = 7 * kDay;
  policy.retention.dedupe = 7 * kDay;
  policy.retention.receipt = 7 * kDay;
  EXPECT_TRUE(Check(policy).ok());
  policy.retention.receipt = 7 * kDay + absl::Seconds(1);
  EXPECT_EQ(FieldOf(Check(policy)), "policies[0].retention.receipt");
  policy.retention.receipt = absl::Milliseconds(999);
  EXPECT_EQ(FieldOf(Check(policy)), "policies[0].retention.receipt");
}

TEST(CheckPoliciesTest, DedupeHasLimits) {
  HandlerPolicy policy = PolicyOf("pay.*");
  policy.retention.broker = absl::Milliseconds(1);
  policy.retention.dedupe = kMinRetention;
  EXPECT_TRUE(Check(policy).ok());
  policy.retention.dedupe = kMinRetention - absl::Microseconds(1);
  policy.retention.receipt = absl::Seconds(1);  // fits into every dedupe that is allowed
  EXPECT_EQ(FieldOf(Check(policy)), "policies[0].retention.dedupe");
  policy.retention.dedupe = kMaxRetention;
  EXPECT_TRUE(Check(policy).ok());
  policy.retention.dedupe = kMaxRetention + absl::Microseconds(1);
  EXPECT_EQ(FieldOf(Check(policy)), "policies[0].retention.dedupe");
}

TEST(CheckPoliciesTest, WindowsHaveLimits) {
  HandlerPolicy policy = PolicyOf("pay.*");
  policy.retention.backup = kMaxRetention;
  EXPECT_TRUE(Check(policy).ok());
  policy.retention.backup = kMaxRetention + absl::Seconds(1);
  EXPECT_EQ(FieldOf(Check(policy)), "policies[0].retention.backup_window");
  policy.retention.backup = -absl::Seconds(1);
  EXPECT_EQ(FieldOf(Check(policy)), "policies[0].retention.backup_window");
}

// ---- the set ----

TEST(CheckPoliciesTest, PatternsAreThereOnce) {
  const std::vector<HandlerPolicy> policies = {PolicyOf("a"), PolicyOf("b"), PolicyOf("a")};
  EXPECT_EQ(FieldOf(CheckPolicies(policies, Limits{})), "policies[2].handler");
}

TEST(CheckPoliciesTest, SetHasALimit) {
  std::vector<HandlerPolicy> policies;
  for (size_t i = 0; i < kMaxPolicies; ++i) policies.push_back(PolicyOf(absl::StrCat("h", i)));
  EXPECT_TRUE(CheckPolicies(policies, Limits{}).ok());
  policies.push_back(PolicyOf("more"));
  EXPECT_THAT(CheckPolicies(policies, Limits{}).message(),
              HasSubstr("policies has 257 items; the limit is 256"));
}

// ---- digests that change ----

std::vector<std::string> Changed(const std::vector<HandlerPolicy>& before,
                                 const std::vector<HandlerPolicy>& after) {
  std::vector<std::string> patterns;
  for (const DigestChange& change : DigestChanges(before, after)) {
    patterns.push_back(change.handler);
  }
  return patterns;
}

TEST(DigestChangesTest, SameDigestsAreNoChangeWhateverElseIs) {
  HandlerPolicy other = JsonPolicy("a", {"/t"});
  other.on_lapse = LapsePolicy::kProbe;
  EXPECT_THAT(Changed({JsonPolicy("a", {"/t"})}, {other}), IsEmpty());
  EXPECT_THAT(Changed({}, {PolicyOf("a")}), IsEmpty());
}

TEST(DigestChangesTest, SchemeAndMembersCount) {
  EXPECT_THAT(Changed({}, {JsonPolicy("a")}), ElementsAre("a"));
  EXPECT_THAT(Changed({JsonPolicy("a")}, {JsonPolicy("a", {"/t"})}), ElementsAre("a"));
  EXPECT_THAT(Changed({JsonPolicy("a")}, {}), ElementsAre("a"));
}

TEST(DigestChangesTest, NameThatMovesToAnotherPatternCounts) {
  // "a.b" was decided by "a.*", which is gone: "*" says something else.
  EXPECT_THAT(Changed({PolicyOf("*"), JsonPolicy("a.*")}, {PolicyOf("*")}), ElementsAre("a.*"));
  // The new, longer pattern says what the shorter one said.
  EXPECT_THAT(Changed({JsonPolicy("a.*")}, {JsonPolicy("a.*"), JsonPolicy("a.b")}), IsEmpty());
  EXPECT_THAT(Changed({JsonPolicy("a.*")}, {JsonPolicy("a.*"), PolicyOf("a.b")}),
              ElementsAre("a.b"));
}

}  // namespace
}  // namespace once::core
