#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "store/mysql/server_check.h"
#include "store/mysql/session.h"

namespace once::store::mysql {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SessionSettings GoodSettings() {
  return {.autocommit = false,
          .sql_mode = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
          .time_zone = "+00:00",
          .client_charset = "binary",
          .connection_charset = "binary",
          .isolation = "READ-COMMITTED",
          .lock_wait_seconds = 5,
          .max_allowed_packet = 16 << 20,
          .sysdate_moves = true,
          .read_only = false};
}

TEST(SessionSettings, GoodOnesPass) {
  EXPECT_EQ(CheckSettings(GoodSettings(), false, 5), absl::OkStatus());
}

TEST(SessionSettings, EachIsAsserted) {
  const std::vector<std::pair<std::string, std::function<void(SessionSettings&)>>> faults = {
      {"autocommit", [](SessionSettings& s) { s.autocommit = true; }},
      {"sql_mode", [](SessionSettings& s) { s.sql_mode = "NO_ENGINE_SUBSTITUTION"; }},
      {"time_zone", [](SessionSettings& s) { s.time_zone = "SYSTEM"; }},
      {"character_set_client", [](SessionSettings& s) { s.client_charset = "utf8mb4"; }},
      {"character_set_connection", [](SessionSettings& s) { s.connection_charset = "latin1"; }},
      {"transaction_isolation", [](SessionSettings& s) { s.isolation = "REPEATABLE-READ"; }},
      {"innodb_lock_wait_timeout", [](SessionSettings& s) { s.lock_wait_seconds = 50; }},
      {"sysdate_is_now", [](SessionSettings& s) { s.sysdate_moves = false; }},
  };
  for (const auto& [name, spoil] : faults) {
    SessionSettings settings = GoodSettings();
    spoil(settings);
    const absl::Status status = CheckSettings(settings, false, 5);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
}

TEST(ServerVersion, KnowsBothFamiliesAndTheirFloors) {
  EXPECT_TRUE(ParseServerVersion("10.11.19-MariaDB-0+deb12u1")->mariadb);
  EXPECT_FALSE(ParseServerVersion("9.7.4-2")->mariadb);
  EXPECT_EQ(ParseServerVersion("8.0.36")->major, 8);
  for (const char* old : {"10.5.29-MariaDB", "5.7.44-log", "nonsense"}) {
    EXPECT_EQ(ParseServerVersion(old).status().code(), absl::StatusCode::kFailedPrecondition)
        << old;
  }
}

Variables GoodVariables() {
  return {{"innodb_flush_log_at_trx_commit", "1"},
          {"sync_binlog", "1"},
          {"log_bin", "ON"},
          {"binlog_format", "ROW"},
          {"innodb_doublewrite", "ON"},
          {"max_allowed_packet", "16777216"}};
}

TEST(ServerCheck, FullDurabilityGivesNoWarning) {
  const auto warnings = JudgeServer(GoodVariables(), 1 << 20);
  ASSERT_TRUE(warnings.ok()) << warnings.status();
  EXPECT_THAT(*warnings, IsEmpty());
}

TEST(ServerCheck, WeakDurabilityIsReported) {
  Variables variables = GoodVariables();
  variables["innodb_flush_log_at_trx_commit"] = "2";
  variables["sync_binlog"] = "0";
  variables["innodb_doublewrite"] = "OFF";
  const auto warnings = JudgeServer(variables, 1 << 20);
  ASSERT_TRUE(warnings.ok()) << warnings.status();
  EXPECT_THAT(*warnings,
              ElementsAre(HasSubstr("innodb_flush_log_at_trx_commit is 2"),
                          HasSubstr("sync_binlog is 0"), HasSubstr("innodb_doublewrite")));
}

TEST(ServerCheck, BinlogSettingsDoNotMatterWithoutBinlog) {
  Variables variables = GoodVariables();
  variables["log_bin"] = "OFF";
  variables["sync_binlog"] = "0";
  variables["binlog_format"] = "STATEMENT";
  const auto warnings = JudgeServer(variables, 1 << 20);
  ASSERT_TRUE(warnings.ok()) << warnings.status();
  EXPECT_THAT(*warnings, IsEmpty());
}

TEST(ServerCheck, PacketLimitIsExact) {
  Variables variables = GoodVariables();
  const size_t result = 1 << 20;
  const size_t needed = 2 * result + (64 << 10);
  variables["max_allowed_packet"] = std::to_string(needed);
  EXPECT_TRUE(JudgeServer(variables, result).ok());
  variables["max_allowed_packet"] = std::to_string(needed - 1);
  const auto refused = JudgeServer(variables, result);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr(std::to_string(needed)), HasSubstr(std::to_string(needed - 1))));
}

TEST(ServerCheck, StatementBinlogIsRefused) {
  Variables variables = GoodVariables();
  variables["binlog_format"] = "STATEMENT";
  EXPECT_EQ(JudgeServer(variables, 1).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace once::store::mysql
