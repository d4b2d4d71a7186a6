#include "integration/mysql/mysql_fixture.h"

#include <iostream>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/fingerprint.h"

namespace once::testing {
namespace {

std::optional<DatabaseEngine> chosen_engine;

store::EntryId NextEntry() {
  static uint64_t counter = 0;
  store::EntryId entry{};
  const uint64_t number = ++counter;
  for (size_t i = 0; i < 8; ++i) entry[i] = static_cast<uint8_t>(number >> (56 - 8 * i));
  return entry;
}

}  // namespace

DatabaseEngine Engine() { return *chosen_engine; }
DatabaseServer& Server() { return DatabaseServer::Shared(Engine()); }

core::OperationKey KeyOf(const std::string& event_id) {
  return {.tenant = {1}, .handler = {1}, .event_id = event_id};
}

core::AttemptId Attempt(uint8_t number) {
  core::AttemptId attempt;
  attempt.bytes.fill(number);
  return attempt;
}

store::NewOperation InsertOf(const std::string& event_id, uint8_t attempt) {
  return {.key = KeyOf(event_id),
          .digest = {},
          .attempt = Attempt(attempt),
          .lease = absl::Seconds(30),
          .consumer = "consumer",
          .handler_version = "v1"};
}

store::Command BeginOf(const std::string& event_id, uint8_t attempt) {
  store::BeginCommand begin;
  begin.key = KeyOf(event_id);
  begin.entry = NextEntry();
  begin.request.attempt = Attempt(attempt);
  begin.request.lease = absl::Seconds(30);
  begin.request.consumer = absl::StrCat("consumer", attempt);
  return begin;
}

store::Command CompleteOf(const std::string& event_id, core::Fence fence, std::string result,
                          uint8_t attempt) {
  store::CompleteCommand complete;
  complete.key = KeyOf(event_id);
  complete.entry = NextEntry();
  complete.request.attempt = Attempt(attempt);
  complete.request.fence = fence;
  complete.request.result = std::move(result);
  complete.request.content_type = "text/plain";
  complete.request.fingerprint = core::FingerprintOf(
      complete.request.status, complete.request.content_type, complete.request.result);
  return complete;
}

absl::StatusOr<std::vector<store::Answer>> RunUntilDone(store::WriteSession& session,
                                                        const std::vector<store::Command>& commands,
                                                        bool repeated) {
  absl::StatusOr<std::vector<store::Answer>> answers;
  for (int i = 0; i < 100; ++i) {
    answers = store::RunBatch(session, commands, repeated);
    if (!absl::IsAborted(answers.status())) break;
  }
  return answers;
}

std::unique_ptr<store::WriteSession> MysqlStoreTest::Write() { return Write(*store_); }

std::unique_ptr<store::WriteSession> MysqlStoreTest::Write(store::Store& store) {
  auto session = store.OpenWriteSession();
  EXPECT_TRUE(session.ok()) << session.status();
  return session.ok() ? *std::move(session) : nullptr;
}

core::ClaimInfo MysqlStoreTest::Begin(store::WriteSession& session, const std::string& event_id,
                                      uint8_t attempt) {
  auto answers = RunUntilDone(session, {BeginOf(event_id, attempt)});
  EXPECT_TRUE(answers.ok()) << answers.status();
  if (!answers.ok()) return {};
  const auto* granted = std::get_if<core::Granted>(&std::get<core::BeginOutcome>(answers->front()));
  EXPECT_NE(granted, nullptr) << "not granted";
  return granted == nullptr ? core::ClaimInfo{} : granted->claim;
}

int64_t MysqlStoreTest::Count(const std::string& table) {
  int64_t count = -1;
  EXPECT_TRUE(
      absl::SimpleAtoi(database_.Must(absl::StrCat("SELECT COUNT(*) FROM ", table)), &count));
  return count;
}

std::string MysqlStoreTest::ConnectionOf(const std::string& condition) {
  return database_.Must(absl::StrCat("SELECT ID FROM information_schema.PROCESSLIST WHERE DB='",
                                     database_.name(), "' AND ID<>CONNECTION_ID() AND ",
                                     condition));
}

}  // namespace once::testing

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (!absl::ConsumePrefix(&argument, "--engine=")) continue;
    for (const auto engine :
         {once::testing::DatabaseEngine::kMariadb, once::testing::DatabaseEngine::kMysql}) {
      if (argument == once::testing::ToString(engine)) once::testing::chosen_engine = engine;
    }
  }
  if (!once::testing::chosen_engine.has_value()) {
    std::cerr << "usage: " << argv[0] << " --engine=mariadb|mysql [--gtest_…]" << std::endl;
    return 2;
  }
  return RUN_ALL_TESTS();
}
