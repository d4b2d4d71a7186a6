#include "policy/policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "policy/document.h"

namespace once::policy {
namespace {

constexpr core::TenantId kShop{1};
constexpr core::TenantId kBank{2};

store::PolicyVersionRow VersionOf(core::TenantId tenant, int64_t change,
                                  const std::vector<core::HandlerPolicy>& policies) {
  store::PolicyVersionRow row;
  row.change_id = change;
  row.tenant = tenant;
  row.version = 1;
  row.document = WriteDocument(policies);
  return row;
}

std::shared_ptr<const Policies> With(const Policies& policies, const store::PolicyVersionRow& row) {
  auto next = policies.With({&row, 1});
  EXPECT_TRUE(next.ok()) << next.status();
  return *next;
}

TEST(PoliciesTest, HandlersWithoutAPolicyHaveTheServersDefaults) {
  core::Limits limits;
  limits.default_lease = absl::Seconds(7);
  const Policies policies(limits);
  const Rules& rules = policies.For(kShop, "pay.out");
  EXPECT_EQ(rules.pattern, "");
  EXPECT_EQ(rules.admission, core::Admission::kAllowed);
  EXPECT_EQ(rules.lease.normal, absl::Seconds(7));
  EXPECT_EQ(rules.lease.greatest, limits.max_lease);
  EXPECT_EQ(rules.on_lapse, core::LapsePolicy::kRetry);
  EXPECT_EQ(rules.digest.scheme, core::DigestScheme::kRawSha256);
  EXPECT_FALSE(rules.attempt_log.has_value());
  EXPECT_FALSE(rules.dedupe_retention.has_value());
}

TEST(PoliciesTest, LongestMatchOfTheTenantDecides) {
  const auto policies = With(Policies(core::Limits{}), VersionOf(kShop, 1,
                                                                 {{.handler = "*"},
                                                                  {.handler = "pay.*"},
                                                                  {.handler = "pay.out"},
                                                                  {.handler = "pay.out*"},
                                                                  {.handler = "ads*"}}));
  EXPECT_EQ(policies->For(kShop, "pay.out").pattern, "pay.out");
  EXPECT_EQ(policies->For(kShop, "pay.out.eu").pattern, "pay.out*");
  EXPECT_EQ(policies->For(kShop, "pay.in").pattern, "pay.*");
  EXPECT_EQ(policies->For(kShop, "pay").pattern, "*");
  EXPECT_EQ(policies->For(kShop, "ads").pattern, "ads*");
  EXPECT_EQ(policies->For(kBank, "pay.out").pattern, "");
}

TEST(PoliciesTest, AgreesWithTheReferenceOnEveryName) {
  const std::vector<core::HandlerPolicy> set = {{.handler = "a"},
                                                {.handler = "a*"},
                                                {.handler = "ab*"},
                                                {.handler = "abc"},
                                                {.handler = "b*"}};
  const auto policies = With(Policies(core::Limits{}), VersionOf(kShop, 1, set));
  for (const char* name : {"a", "ab", "abc", "abcd", "ac", "b", "bc", "c", "cab"}) {
    const core::HandlerPolicy* reference = core::FindPolicy(set, name);
    EXPECT_EQ(policies->For(kShop, name).pattern, reference == nullptr ? "" : reference->handler)
        << name;
  }
}

TEST(PoliciesTest, LeaseIsHeldWithinThisServersLimits) {
  core::Limits limits;
  limits.min_lease = absl::Seconds(5);
  limits.max_lease = absl::Seconds(50);
  core::HandlerPolicy policy{.handler = "a"};
  policy.lease = {
      .normal = absl::Seconds(100), .least = absl::Seconds(1), .greatest = absl::Seconds(100)};
  const auto policies = With(Policies(limits), VersionOf(kShop, 1, {policy}));
  const core::LeaseRange& lease = policies->For(kShop, "a").lease;
  EXPECT_EQ(lease.least, absl::Seconds(5));
  EXPECT_EQ(lease.normal, absl::Seconds(50));
  EXPECT_EQ(lease.greatest, absl::Seconds(50));
}

TEST(PoliciesTest, NormalLeaseFollowsTheLeastOne) {
  core::HandlerPolicy policy{.handler = "a"};
  policy.lease.least = absl::Minutes(2);
  const auto policies = With(Policies(core::Limits{}), VersionOf(kShop, 1, {policy}));
  EXPECT_EQ(policies->For(kShop, "a").lease.normal, absl::Minutes(2));
}

TEST(PoliciesTest, ChangeReplacesOneTenantAndLeavesTheOthers) {
  const auto first = With(Policies(core::Limits{}), VersionOf(kShop, 3, {{.handler = "a"}}));
  const auto second = With(*first, VersionOf(kBank, 4, {{.handler = "b"}}));
  const auto third = With(*second, VersionOf(kShop, 5, {{.handler = "c"}}));
  EXPECT_EQ(third->For(kShop, "a").pattern, "");
  EXPECT_EQ(third->For(kShop, "c").pattern, "c");
  EXPECT_EQ(third->For(kBank, "b").pattern, "b");
  EXPECT_EQ(third->change_id(), 5);
  EXPECT_EQ(first->For(kShop, "a").pattern, "a");  // who looks at it still sees the same
}

}  // namespace
}  // namespace once::policy
