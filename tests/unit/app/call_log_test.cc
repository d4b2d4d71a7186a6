#include "app/call_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace once::app {
namespace {

using ::testing::SizeIs;

std::vector<nlohmann::json> Logged(LogCalls which, const std::vector<rpc::CallRecord>& records) {
  std::string out;
  {
    LogSettings settings;
    settings.format = LogFormat::kJson;
    Log log(settings, [&out](absl::string_view text) { out.append(text.data(), text.size()); });
    Metrics metrics(1);
    CallLog calls(which, &log, &metrics);
    for (const rpc::CallRecord& record : records) calls.OnCall(record);
  }
  std::vector<nlohmann::json> lines;
  for (absl::string_view line : absl::StrSplit(out, '\n', absl::SkipEmpty())) {
    lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

rpc::CallRecord Granted() {
  rpc::CallRecord record;
  record.method = "Begin";
  record.outcome = "granted";
  record.latency = absl::Microseconds(1234);
  record.tenant = "acme";
  record.credential_id = "0123456789abcdef";
  record.handler = "points.grant";
  record.event_id = "evt-1";
  record.event_id_bytes = 5;
  record.attempt_id = "000102030405060708090a0b0c0d0e0f";
  record.fence = 42;
  record.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
  return record;
}

rpc::CallRecord Failed(absl::StatusCode code, absl::string_view reason) {
  rpc::CallRecord record = Granted();
  record.code = code;
  record.outcome = reason;
  record.message = "why";
  return record;
}

TEST(CallLog, ARecordHoldsWhatPeopleSearchFor) {
  const auto lines = Logged(LogCalls::kAll, {Granted()});
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0]["message"], "call");
  EXPECT_EQ(lines[0]["level"], "info");
  EXPECT_EQ(lines[0]["method"], "Begin");
  EXPECT_EQ(lines[0]["outcome"], "granted");
  EXPECT_EQ(lines[0]["latency_ms"], 1.234);
  EXPECT_EQ(lines[0]["tenant"], "acme");
  EXPECT_EQ(lines[0]["attempt_id"], "000102030405060708090a0b0c0d0e0f");
  EXPECT_EQ(lines[0]["fence"], 42);
  EXPECT_EQ(lines[0]["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_FALSE(lines[0].contains("code"));
  EXPECT_FALSE(lines[0].contains("cancelled"));
}

TEST(CallLog, LevelsTellCallersMistakesFromOurs) {
  const auto lines =
      Logged(LogCalls::kAll, {Failed(absl::StatusCode::kInvalidArgument, "INVALID_FIELD"),
                              Failed(absl::StatusCode::kUnavailable, "DRAINING"),
                              Failed(absl::StatusCode::kInternal, "INTERNAL")});
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[0]["level"], "info");
  EXPECT_EQ(lines[0]["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(lines[0]["error"], "why");
  EXPECT_EQ(lines[1]["level"], "warn");
  EXPECT_EQ(lines[2]["level"], "error");
}

TEST(CallLog, WhichCallsAreLoggedIsASetting) {
  const std::vector<rpc::CallRecord> records = {
      Granted(), Failed(absl::StatusCode::kNotFound, "OPERATION_NOT_FOUND")};
  EXPECT_THAT(Logged(LogCalls::kAll, records), SizeIs(2));
  EXPECT_THAT(Logged(LogCalls::kProblems, records), SizeIs(1));
  EXPECT_THAT(Logged(LogCalls::kNone, records), SizeIs(0));
}

TEST(CallLog, BatchesSayHowTheirItemsFared) {
  rpc::CallRecord record;
  record.method = "BatchBegin";
  record.outcome = "batch";
  record.items = 3;
  record.item_outcomes = {{"granted", 2}, {"INVALID_FIELD", 1}};
  const auto lines = Logged(LogCalls::kAll, {record});
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0]["items"], 3);
  EXPECT_EQ(lines[0]["item_outcomes"]["granted"], 2);
}

}  // namespace
}  // namespace once::app
