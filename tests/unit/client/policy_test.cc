#include "once/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy_convert.h"

namespace once {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

HandlerPolicies Parsed(const std::string& text) {
  auto policies = HandlerPolicies::Parse(text);
  EXPECT_TRUE(policies.ok()) << policies.status();
  return policies.ok() ? *policies : HandlerPolicies();
}

TEST(HandlerPoliciesTest, FileReadsBackEqual) {
  const HandlerPolicies policies = Parsed(R"(
    # What the payment team agreed on.
    policies {
      handler: "pay.*"
      lease { normal { seconds: 30 } greatest { seconds: 86400 } }
      expired_lease: EXPIRED_LEASE_PROBE
      digest { scheme: DIGEST_SCHEME_JSON_JCS_SHA256 ignored_members: "/sent_at" }
      retention { dedupe { seconds: 691200 } broker_window { seconds: 604800 nanos: 500000000 } }
    }
    policies { handler: "*" admission: ADMISSION_REFUSED })");
  EXPECT_EQ(Parsed(policies.ToText()), policies);
  EXPECT_THAT(policies.ToText(), StartsWith("policies {\n  handler: \"*\"\n"));
  EXPECT_THAT(policies.ToText(), HasSubstr("dedupe {\n      seconds: 691200  # 8d\n    }"));
  EXPECT_THAT(policies.ToText(), HasSubstr("seconds: 604800 nanos: 500000000  # 7d500ms\n"));
  EXPECT_THAT(policies.ToText(), HasSubstr("seconds: 30\n"));
}

TEST(HandlerPoliciesTest, FaultsHaveTheirPlace) {
  const auto misspelt = HandlerPolicies::Parse("policies {\n  handler: \"a\"\n  leese {}\n}\n");
  EXPECT_TRUE(absl::IsInvalidArgument(misspelt.status()));
  EXPECT_THAT(std::string(misspelt.status().message()), StartsWith("3:9: "));
  EXPECT_THAT(std::string(misspelt.status().message()), HasSubstr("leese"));
  const auto choice = HandlerPolicies::Parse("policies { expired_lease: ASK }");
  EXPECT_THAT(std::string(choice.status().message()), StartsWith("1:"));
  EXPECT_THAT(std::string(choice.status().message()), HasSubstr("ASK"));
  EXPECT_FALSE(HandlerPolicies::Parse("policies {").ok());
}

TEST(HandlerPoliciesTest, WhatMeansTheSameIsEqual) {
  EXPECT_EQ(Parsed(R"(policies { handler: "a" } policies { handler: "b" })"), Parsed(R"(
    policies { handler: "b" admission: ADMISSION_ALLOWED expired_lease: EXPIRED_LEASE_RETRY lease {}
               digest { scheme: DIGEST_SCHEME_RAW_SHA256 } retention { backup_window {} } }
    policies { handler: "a" })"));
  EXPECT_EQ(Parsed(R"(policies { handler: "a" digest { ignored_members: ["/b", "/a", "/b"] } })"),
            Parsed(R"(policies { handler: "a" digest { ignored_members: ["/a", "/b"] } })"));
  EXPECT_NE(Parsed(R"(policies { handler: "a" })"),
            Parsed(R"(policies { handler: "a" attempt_log: ATTEMPT_LOG_MODE_DURABLE })"));
  EXPECT_EQ(Parsed("# nothing"), HandlerPolicies());
}

// The server is to refuse it, so it must arrive.
TEST(HandlerPoliciesTest, RecordThatIsThereTwiceIsSentTwice) {
  const HandlerPolicies twice = Parsed(R"(policies { handler: "a" } policies { handler: "a" })");
  EXPECT_EQ(HandlerPoliciesPeer::ToProto(twice).policies_size(), 2);
}

TEST(HandlerPoliciesTest, RecordsAreFoundByPattern) {
  const HandlerPolicies policies =
      Parsed(R"(policies { handler: "b" } policies { handler: "a*" })");
  ASSERT_EQ(policies.records().size(), 2u);
  EXPECT_EQ(policies.records().at("a*"), "policies {\n  handler: \"a*\"\n}\n");
}

}  // namespace
}  // namespace once
