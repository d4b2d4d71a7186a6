#include "app/logging.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"

namespace once::app {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// What `write` logs, line by line.
template <typename Write>
std::vector<std::string> LinesOf(LogFormat format, LogLevel level, Write write) {
  std::string out;
  {
    LogSettings settings;
    settings.format = format;
    settings.level = level;
    Log log(settings, [&out](absl::string_view text) { out.append(text.data(), text.size()); });
    write(log);
  }
  return absl::StrSplit(out, '\n', absl::SkipEmpty());
}

TEST(Log, JsonLinesAreObjectsWithTimeLevelMessageAndFields) {
  const auto lines = LinesOf(LogFormat::kJson, LogLevel::kInfo, [](Log& log) {
    log.Warn("something", {{"count", 3}, {"name", "x"}});
  });
  ASSERT_EQ(lines.size(), 1u);
  const auto record = nlohmann::json::parse(lines[0]);
  EXPECT_THAT(record["time"].get<std::string>(),
              MatchesRegex("[0-9-]+T[0-9:]+\\.[0-9][0-9][0-9][0-9][0-9][0-9]Z"));
  EXPECT_EQ(record["level"], "warn");
  EXPECT_EQ(record["message"], "something");
  EXPECT_EQ(record["count"], 3);
  EXPECT_EQ(record["name"], "x");
}

TEST(Log, HostileBytesStayInsideTheirLineAndField) {
  const std::string hostile = "a\n{\"level\":\"error\"}\x1e\"\\\xff\xc3(\x01";
  const auto json = LinesOf(LogFormat::kJson, LogLevel::kInfo, [&](Log& log) {
    log.Info("m", {{"value", hostile}});
  });
  ASSERT_EQ(json.size(), 1u);
  const auto record = nlohmann::json::parse(json[0]);  // throws on invalid UTF-8 too
  EXPECT_EQ(record["level"], "info");
  EXPECT_THAT(record["value"].get<std::string>(), HasSubstr("\xEF\xBF\xBD"));

  const auto text = LinesOf(LogFormat::kText, LogLevel::kInfo, [&](Log& log) {
    log.Info("m", {{"value", hostile}, {"b", 1}});
  });
  ASSERT_EQ(text.size(), 1u);
  EXPECT_THAT(text[0], EndsWith(" b=1"));
}

TEST(Log, TextLinesAreForPeople) {
  const auto lines = LinesOf(LogFormat::kText, LogLevel::kInfo, [](Log& log) {
    log.Error("it broke", {{"why", "no reason"}, {"code", "X"}, {"n", 2}});
  });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], EndsWith("Z ERROR it broke why=\"no reason\" code=X n=2"));
}

TEST(Log, LevelsBelowTheLeastAreLeftOut) {
  const auto lines = LinesOf(LogFormat::kText, LogLevel::kWarn, [](Log& log) {
    EXPECT_FALSE(log.Enabled(LogLevel::kInfo));
    log.Info("no");
    log.Warn("yes");
  });
  EXPECT_THAT(lines, ElementsAre(HasSubstr("WARN yes")));
}

TEST(Log, PlainSpdlogMessagesGetTheSameForm) {
  const auto lines = LinesOf(LogFormat::kJson, LogLevel::kInfo,
                             [](Log&) { spdlog::info("from \"elsewhere\"\nline 2"); });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(nlohmann::json::parse(lines[0])["message"], "from \"elsewhere\"\nline 2");
}

TEST(Log, AStreamThatDoesNotMoveBlocksNobodyAndDropsAreCounted) {
  absl::Notification entered, go;
  std::ptrdiff_t records = 0;
  LogSettings settings;
  settings.queue_records = 16;
  {
    Log log(settings, [&](absl::string_view lines) {
      if (!entered.HasBeenNotified()) entered.Notify();
      go.WaitForNotification();
      records += std::count(lines.begin(), lines.end(), '\n');
    });
    log.Info("first");
    entered.WaitForNotification();
    for (int i = 0; i < 100; ++i) log.Info("more");
    EXPECT_EQ(log.dropped(), 100 - 16);
    go.Notify();
  }
  EXPECT_EQ(records, 1 + 16);
}

}  // namespace
}  // namespace once::app
