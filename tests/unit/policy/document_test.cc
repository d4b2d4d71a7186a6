#include "policy/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace once::policy {
namespace {

using ::testing::HasSubstr;

core::HandlerPolicy FullPolicy(std::string handler) {
  return {
      .handler = std::move(handler),
      .admission = core::Admission::kRefused,
      .lease = {.normal = absl::Seconds(2),
                .least = absl::Seconds(1),
                .greatest = absl::Seconds(3)},
      .on_lapse = core::LapsePolicy::kProbe,
      .digest = {.scheme = core::DigestScheme::kJsonJcsSha256, .ignored_members = {"/a", "/b~1c"}},
      .attempt_log = core::AttemptLog::kDurable,
      .retention = {.receipt = absl::Hours(1),
                    .dedupe = absl::Hours(100),
                    .broker = absl::Hours(2),
                    .dead_letter = absl::Hours(3),
                    .backup = absl::Hours(4),
                    .manual_replay = absl::Hours(5)},
      .order = {.guards_versions = true, .one_at_a_time = true},
      .readable_versions = {"v2*", "v3"}};
}

TEST(PolicyDocumentTest, WhatIsWrittenIsRead) {
  const std::vector<core::HandlerPolicy> policies = {FullPolicy("a"), {.handler = "b*"}};
  const auto read = ReadDocument(WriteDocument(policies));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, policies);
}

TEST(PolicyDocumentTest, OrderOfTheCallerDoesNotMatter) {
  EXPECT_EQ(WriteDocument(std::vector<core::HandlerPolicy>{{.handler = "b"}, {.handler = "a"}}),
            WriteDocument(std::vector<core::HandlerPolicy>{{.handler = "a"}, {.handler = "b"}}));
}

// Stored: an older document has to stay readable, and what equals the default stays out of it.
TEST(PolicyDocumentTest, FormIsKept) {
  EXPECT_EQ(WriteDocument(std::vector<core::HandlerPolicy>{{.handler = "*"}}),
            R"([{"handler":"*"}])");
  EXPECT_EQ(
      WriteDocument(std::vector<core::HandlerPolicy>{FullPolicy("a")}),
      R"([{"handler":"a","admission":"refused",)"
      R"("lease":{"normal_us":2000000,"least_us":1000000,"greatest_us":3000000},)"
      R"("on_lapse":"probe","digest":{"scheme":"json_jcs_sha256","ignored_members":["/a","/b~1c"]},)"
      R"("attempt_log":"durable","retention":{"receipt_us":3600000000,"dedupe_us":360000000000,)"
      R"("broker_us":7200000000,"dead_letter_us":10800000000,"backup_us":14400000000,)"
      R"("manual_replay_us":18000000000},)"
      R"("order":{"guards_versions":true,"one_at_a_time":true},"readable_versions":["v2*","v3"]}])");
}

TEST(PolicyDocumentTest, WhatThisProgramDoesNotKnowIsRefused) {
  for (const char* document :
       {"", "{}", "[1]", R"([{"handler":1}])", R"([{}])", R"([{"handler":"a","new":1}])",
        R"([{"handler":"a","on_lapse":"ask"}])", R"([{"handler":"a","lease":3}])",
        R"([{"handler":"a","lease":{"new_us":1}}])",
        R"([{"handler":"a","lease":{"least_us":"1"}}])",
        R"([{"handler":"a","order":{"one_at_a_time":1}}])",
        R"([{"handler":"a","digest":{"ignored_members":[1]}}])"}) {
    const auto read = ReadDocument(document);
    EXPECT_TRUE(absl::IsFailedPrecondition(read.status())) << document << ": " << read.status();
  }
  EXPECT_THAT(ReadDocument(R"([{"handler":"a","lease":{"new_us":1}}])").status().message(),
              HasSubstr("lease.new_us"));
}

}  // namespace
}  // namespace once::policy
