#include "rpc/policy_operations.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "policy/document.h"
#include "rpc/policy_messages.h"
#include "unit/rpc/admin_fixture.h"
#include "unit/rpc/status_matchers.h"

namespace once::rpc {
namespace {

using base::ErrorReason;
using ::once::testing::AdminFixture;
using ::once::testing::HasMetadata;
using ::once::testing::IsError;
using ::once::testing::IsInvalid;
using ::once::testing::IsOk;
using ::once::testing::kCaller;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::HandlerPolicySet SetOf(const std::string& text) {
  v1::HandlerPolicySet set;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &set)) << text;
  return set;
}

std::string TextOf(const google::protobuf::Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(message, &text);
  return text;
}

class PolicyOperationsTest : public AdminFixture {
 protected:
  PolicyOperationsTest() { EXPECT_TRUE(session_->CreateTenant("acme", {}).ok()); }

  static v1::ApplyHandlerPoliciesRequest Apply(const std::string& set, int expected = 0) {
    v1::ApplyHandlerPoliciesRequest request;
    request.set_tenant("acme");
    *request.mutable_policy_set() = SetOf(set);
    request.set_expected_version(expected);
    request.set_reason("a test");
    return request;
  }
  absl::StatusOr<v1::GetHandlerPoliciesResponse> Get(int version = 0) {
    v1::GetHandlerPoliciesRequest request;
    request.set_tenant("acme");
    request.set_version(version);
    return Run(request);
  }
};

constexpr char kEverything[] = R"(
  policies {
    handler: "pay.*"
    admission: ADMISSION_REFUSED
    lease { normal { seconds: 2 } least { seconds: 1 } greatest { seconds: 3 } }
    expired_lease: EXPIRED_LEASE_PROBE
    digest { scheme: DIGEST_SCHEME_JSON_JCS_SHA256 ignored_members: "/a" ignored_members: "/b" }
    attempt_log: ATTEMPT_LOG_MODE_BUFFERED
    retention {
      receipt { seconds: 60 }
      dedupe { seconds: 100 }
      broker_window { seconds: 10 }
      dead_letter_window { seconds: 20 }
      backup_window { seconds: 30 }
      manual_replay_window { seconds: 40 }
    }
    order { guard_versions: true one_at_a_time: true }
    readable_versions: "v2*"
    readable_versions: "v3"
  })";

TEST_F(PolicyOperationsTest, WhatIsAppliedIsShown) {
  v1::ApplyHandlerPoliciesRequest request = Apply(kEverything);
  request.set_accept_digest_change(true);
  const auto made = Run(request);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->version().version(), 1);
  EXPECT_EQ(made->version().credential_id(), kCaller);
  EXPECT_EQ(made->version().reason(), "a test");
  EXPECT_EQ(made->version().create_time().seconds(), 1'700'000'000);
  for (const int version : {0, 1}) {
    const auto shown = Get(version);
    ASSERT_THAT(shown, IsOk());
    EXPECT_EQ(TextOf(shown->policy_set()), TextOf(SetOf(kEverything)));
    EXPECT_EQ(TextOf(shown->version()), TextOf(made->version()));
  }
}

// Whatever is a default is not shown, in whatever way it was said.
TEST_F(PolicyOperationsTest, DefaultsAreNotShown) {
  const auto made = Run(Apply(R"(
    policies { handler: "b" admission: ADMISSION_ALLOWED expired_lease: EXPIRED_LEASE_RETRY
               digest { scheme: DIGEST_SCHEME_RAW_SHA256 } lease {}
               retention { broker_window {} } order {} }
    policies { handler: "a" })"));
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(TextOf(made->policy_set()), TextOf(SetOf(R"(
    policies { handler: "a" } policies { handler: "b" })")));
}

TEST_F(PolicyOperationsTest, TenantWithoutPoliciesHasNoVersion) {
  const auto shown = Get();
  ASSERT_THAT(shown, IsOk());
  EXPECT_FALSE(shown->has_version());
  EXPECT_EQ(shown->policy_set().policies_size(), 0);
  EXPECT_THAT(Get(1), AllOf(IsError(ErrorReason::kPoliciesNotFound, "no version 1"),
                            HasMetadata("version", "1")));
  EXPECT_THAT(Get(-1), IsInvalid("version is -1; the minimum is 0"));
}

TEST_F(PolicyOperationsTest, TenantMustExist) {
  v1::ApplyHandlerPoliciesRequest apply = Apply("");
  apply.set_tenant("globex");
  EXPECT_THAT(Run(apply), IsError(ErrorReason::kTenantNotFound, "globex"));
  v1::GetHandlerPoliciesRequest get;
  get.set_tenant("globex");
  EXPECT_THAT(Run(get), IsError(ErrorReason::kTenantNotFound, "globex"));
  v1::ListAuditRecordsRequest audit;
  audit.set_tenant("globex");
  EXPECT_THAT(Run(audit), IsError(ErrorReason::kTenantNotFound, "globex"));
}

TEST_F(PolicyOperationsTest, OfTwoWhoChangeAtOnceOneIsTold) {
  ASSERT_THAT(Run(Apply(R"(policies { handler: "a" })")), IsOk());
  EXPECT_THAT(Run(Apply(R"(policies { handler: "b" })")),
              AllOf(IsError(ErrorReason::kPolicyVersionMismatch, "version 1"),
                    HasMetadata("expected_version", "0"), HasMetadata("current_version", "1")));
  EXPECT_EQ(Get()->policy_set().policies(0).handler(), "a");
  ASSERT_THAT(Run(Apply(R"(policies { handler: "b" })", 1)), IsOk());
  EXPECT_EQ(Get()->version().version(), 2);
}

TEST_F(PolicyOperationsTest, VersionThatThereIsNotYetCannotBeFollowed) {
  for (const int expected : {1, INT32_MAX}) {
    EXPECT_THAT(Run(Apply(R"(policies { handler: "a" })", expected)),
                AllOf(IsError(ErrorReason::kPolicyVersionMismatch, "nothing was changed"),
                      HasMetadata("expected_version", absl::StrCat(expected)),
                      HasMetadata("current_version", "0")));
  }
  // Also where its digests would have to be accepted: they were compared with another version.
  EXPECT_THAT(Run(Apply(R"(policies { handler: "a"
                                      digest { scheme: DIGEST_SCHEME_JSON_JCS_SHA256 } })",
                        1)),
              IsError(ErrorReason::kPolicyVersionMismatch, "nothing was changed"));
  ASSERT_THAT(Run(Apply("")), IsOk());
  EXPECT_THAT(Run(Apply("", INT32_MAX)), HasMetadata("current_version", "1"));
}

// Its first answer was lost, so that "nothing was changed" would be wrong.
TEST_F(PolicyOperationsTest, RepeatOfAChangeThatWasReplacedSinceIsToldSo) {
  const auto request = Apply(R"(policies { handler: "a" })");
  ASSERT_THAT(Run(request), IsOk());
  ASSERT_THAT(Run(Apply(R"(policies { handler: "b" })", 1)), IsOk());
  EXPECT_THAT(Run(request), AllOf(IsError(ErrorReason::kPolicyVersionMismatch,
                                          "version 1 is what this change asks for"),
                                  HasMetadata("current_version", "2")));
}

TEST_F(PolicyOperationsTest, RepeatIsAnsweredWithWhatTheFirstMade) {
  const auto request = Apply(R"(policies { handler: "a" })");
  const auto first = Run(request);
  const auto again = Run(request);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(TextOf(*again), TextOf(*first));
}

TEST_F(PolicyOperationsTest, OtherDigestsHaveToBeAccepted) {
  v1::ApplyHandlerPoliciesRequest request = Apply(R"(
    policies { handler: "a.*" digest { scheme: DIGEST_SCHEME_JSON_JCS_SHA256 } }
    policies { handler: "b" })");
  EXPECT_THAT(Run(request), AllOf(IsError(ErrorReason::kDigestChangeNotAccepted, "a.*"),
                                  IsError(ErrorReason::kDigestChangeNotAccepted, "conflict"),
                                  HasMetadata("handlers", "a.*")));
  EXPECT_FALSE(Get()->has_version());
  request.set_accept_digest_change(true);
  ASSERT_THAT(Run(request), IsOk());
  request.set_accept_digest_change(false);
  request.set_expected_version(1);
  EXPECT_THAT(Run(request), IsOk());  // the same digests as before
  *request.mutable_policy_set() = SetOf("");
  EXPECT_THAT(Run(request), HasMetadata("handlers", "a.*"));
}

TEST_F(PolicyOperationsTest, ReasonIsNeeded) {
  v1::ApplyHandlerPoliciesRequest request = Apply("");
  request.clear_reason();
  EXPECT_THAT(Run(request), IsInvalid("reason is empty; it needs 1 to 255 bytes"));
  request.set_reason(std::string(255, 'r'));
  EXPECT_THAT(Run(request), IsOk());
  request.set_reason(std::string(256, 'r'));
  EXPECT_THAT(Run(request), IsInvalid("reason is 256 bytes; the limit is 255"));
}

TEST_F(PolicyOperationsTest, FaultsNameTheirField) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"(policies { handler: "a" } policies { })", "policies[1].handler"},
      {R"(policies { handler: "a b" })", "policies[0].handler"},
      {R"(policies { handler: "a*b" })", "policies[0].handler"},
      {R"(policies { handler: "a" } policies { handler: "a" })", "policies[1].handler"},
      {R"(policies { handler: "a" lease { least { seconds: 90000 } } })",
       "policies[0].lease.least"},
      {R"(policies { handler: "a" lease { normal {} } })", "policies[0].lease.normal"},
      {R"(policies { handler: "a" lease { normal { seconds: 1 nanos: -1 } } })",
       "policies[0].lease.normal"},
      {R"(policies { handler: "a" digest { ignored_members: "/a" } })",
       "policies[0].digest.ignored_members"},
      {R"(policies { handler: "a" retention { dedupe { seconds: 9 } broker_window { seconds: 10 } } })",
       "policies[0].retention.dedupe"},
      {R"(policies { handler: "a" retention { broker_window { seconds: -1 } } })",
       "policies[0].retention.broker_window"},
  };
  for (const auto& [set, field] : cases) {
    EXPECT_THAT(Run(Apply(set)), HasMetadata("field", field)) << set;
  }
  v1::ApplyHandlerPoliciesRequest request = Apply(R"(policies { handler: "a" })");
  request.mutable_policy_set()->mutable_policies(0)->set_expired_lease(
      static_cast<v1::ExpiredLease>(9));
  EXPECT_THAT(Run(request), HasMetadata("field", "policies[0].expired_lease"));
}

// Duplicates count: what is refused need not be sorted first.
TEST_F(PolicyOperationsTest, ItemsAreCountedAsTheyCome) {
  v1::ApplyHandlerPoliciesRequest request =
      Apply(R"(policies { handler: "a" digest { scheme: DIGEST_SCHEME_JSON_JCS_SHA256 } })");
  request.set_accept_digest_change(true);
  v1::HandlerPolicy* policy = request.mutable_policy_set()->mutable_policies(0);
  for (int i = 0; i < 64; ++i) policy->mutable_digest()->add_ignored_members("/m");
  EXPECT_THAT(Run(request), IsOk());
  policy->mutable_digest()->add_ignored_members("/m");
  EXPECT_THAT(
      Run(request),
      IsInvalid("policies[0].digest.ignored_members has 65 items; the limit is 64 (handler a)"));
  for (int i = 0; i < 256; ++i) request.mutable_policy_set()->add_policies();
  EXPECT_THAT(Run(request), IsInvalid("policies has 257 items; the limit is 256"));
}

TEST_F(PolicyOperationsTest, SetIsBoundedAsStored) {
  v1::ApplyHandlerPoliciesRequest request = Apply("");
  request.set_accept_digest_change(true);
  for (int i = 0; i < 48; ++i) {
    v1::HandlerPolicy* policy = request.mutable_policy_set()->add_policies();
    policy->set_handler(absl::StrCat("h", i));
    policy->mutable_digest()->set_scheme(v1::DIGEST_SCHEME_JSON_JCS_SHA256);
    for (int j = 0; j < 64; ++j) {
      policy->mutable_digest()->add_ignored_members(absl::StrCat("/", j, "/"));
    }
  }
  const auto stored = policy::WriteDocument(*ToPolicies(request.policy_set(), limits_));
  ASSERT_LT(stored.size(), core::kMaxPolicyBytes);
  size_t missing = core::kMaxPolicyBytes - stored.size();
  for (v1::HandlerPolicy& policy : *request.mutable_policy_set()->mutable_policies()) {
    for (std::string& member : *policy.mutable_digest()->mutable_ignored_members()) {
      const size_t more = std::min<size_t>(missing, 240);
      member.append(more, 'm');
      missing -= more;
    }
  }
  ASSERT_EQ(missing, 0u);
  EXPECT_THAT(Run(request), IsOk());
  request.mutable_policy_set()->mutable_policies(0)->mutable_handler()->append("h");
  EXPECT_THAT(Run(request), IsInvalid("policy_set is 524289 bytes; the limit is 524288"));
}

TEST_F(PolicyOperationsTest, VersionsArePagedNewestFirst) {
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(Run(Apply(absl::StrCat(R"(policies { handler: "h)", i, R"(" })"), i)), IsOk());
  }
  v1::ListHandlerPolicyVersionsRequest request;
  request.set_tenant("acme");
  request.set_page_size(2);
  std::vector<int> versions;
  do {
    const auto page = Run(request);
    ASSERT_THAT(page, IsOk());
    for (const auto& version : page->versions()) versions.push_back(version.version());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(versions, ElementsAre(5, 4, 3, 2, 1));
  request.set_page_token("x");
  EXPECT_THAT(Run(request), HasMetadata("field", "page_token"));
}

TEST_F(PolicyOperationsTest, AuditIsPagedNewestFirst) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(Run(Apply(absl::StrCat(R"(policies { handler: "h)", i, R"(" })"), i)), IsOk());
  }
  v1::ListAuditRecordsRequest request;
  request.set_page_size(18);
  const auto first = Run(request);
  ASSERT_THAT(first, IsOk());
  ASSERT_EQ(first->records_size(), 18);
  EXPECT_EQ(first->records(0).subject(), "version 20");
  EXPECT_EQ(first->records(0).action(), v1::AUDIT_ACTION_APPLY_HANDLER_POLICIES);
  EXPECT_EQ(first->records(0).credential_id(), kCaller);
  EXPECT_EQ(first->records(0).reason(), "a test");
  EXPECT_THAT(first->records(0).before(), HasSubstr("h18"));
  EXPECT_THAT(first->records(0).after(), HasSubstr("h19"));
  request.set_page_token(first->next_page_token());
  const auto second = Run(request);
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->records_size(), 3);
  EXPECT_EQ(second->records(2).action(), v1::AUDIT_ACTION_CREATE_TENANT);
  EXPECT_EQ(second->next_page_token(), "");
  request.set_tenant("acme");  // another query
  EXPECT_THAT(Run(request), HasMetadata("field", "page_token"));
}

// The last page is whole: no token that leads to nothing.
TEST_F(PolicyOperationsTest, AuditPageThatEndsTheListHasNoToken) {
  v1::ListAuditRecordsRequest request;
  request.set_page_size(1);
  EXPECT_EQ(Run(request)->next_page_token(), "");
}

TEST_F(PolicyOperationsTest, AuditPageOfLargeRecordsEndsEarly) {
  const auto document = [](char fill) { return std::string(core::kMaxPolicyBytes, fill); };
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(session_->ApplyPolicies({1}, i, document(static_cast<char>('a' + i)), {}).ok());
  }
  v1::ListAuditRecordsRequest request;
  int pages = 0;
  int records = 0;
  do {
    const auto page = Run(request);
    ASSERT_THAT(page, IsOk());
    EXPECT_LT(page->ByteSizeLong(), size_t{4} << 20);
    records += page->records_size();
    request.set_page_token(page->next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(records, 7);
  EXPECT_GT(pages, 1);
}

}  // namespace
}  // namespace once::rpc
