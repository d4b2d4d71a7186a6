#include "store/mysql/statements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "store/mysql/sql_builder.h"

namespace once::store::mysql {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

core::OperationKey Key(int handler, std::string event_id) {
  return {
      .tenant = {1}, .handler = {static_cast<uint32_t>(handler)}, .event_id = std::move(event_id)};
}

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(SqlBuilder, EveryByteBecomesTwoDigits) {
  SqlBuilder sql;
  sql.Bytes(absl::string_view("\0'\\\xff", 4));
  EXPECT_EQ(sql.text(), "x'00275cff'");
}

TEST(SqlBuilder, EmptyIsNoNull) {
  SqlBuilder sql;
  sql.Bytes("").Raw(",").BytesOrNull("");
  EXPECT_EQ(sql.text(), "x'',NULL");
}

std::vector<NewOperation> Inserts(int count) {
  std::vector<NewOperation> rows;
  for (int i = 0; i < count; ++i) {
    rows.push_back({.key = Key(1, std::string(200, static_cast<char>(i))),
                    .digest = {},
                    .attempt = {},
                    .lease = absl::Seconds(30),
                    .consumer = "c",
                    .handler_version = "v"});
  }
  return rows;
}

TEST(Statements, AreSplitBelowTheLimitWithAllRowsOnce) {
  constexpr size_t kLimit = 4000;
  const auto statements = InsertOperations(Inserts(20), /*returning=*/false, kLimit);
  EXPECT_GT(statements.size(), 1u);
  size_t rows = 0;
  for (const RowStatement& statement : statements) {
    EXPECT_LE(statement.sql.size(), kLimit);
    EXPECT_EQ(CountOf(statement.sql, "SYSDATE"), statement.rows);
    EXPECT_THAT(statement.sql, HasSubstr("ON DUPLICATE KEY UPDATE"));
    rows += statement.rows;
  }
  EXPECT_EQ(rows, 20u);
}

TEST(Statements, ARowAboveTheLimitGetsAStatementOfItsOwn) {
  EXPECT_THAT(InsertOperations(Inserts(3), /*returning=*/true, 10), SizeIs(3));
}

TEST(Statements, NoRowsGiveNoStatement) {
  EXPECT_THAT(InsertOperations({}, /*returning=*/true, 1000), SizeIs(0));
  EXPECT_THAT(UpdateOperations(ChangedColumns::kClaim, {}, 1000), SizeIs(0));
  EXPECT_THAT(DeleteOperations({}, 1000), SizeIs(0));
  EXPECT_THAT(SelectOperations({}, 1000), SizeIs(0));
  EXPECT_THAT(InsertAttempts({}, false, 1000), SizeIs(0));
}

TEST(Statements, AttemptsNameOnlyTheColumnsThatSomeEntryHas) {
  std::vector<AttemptEntry> entries(2);
  const std::string bare = InsertAttempts(entries, false, 1 << 20)[0].sql;
  EXPECT_THAT(bare, Not(HasSubstr("NULL")));
  EXPECT_THAT(bare, Not(HasSubstr("consumer")));
  entries[1].consumer = "c";
  const std::string one = InsertAttempts(entries, false, 1 << 20)[0].sql;
  EXPECT_THAT(one, HasSubstr(",consumer) VALUES ("));
  EXPECT_EQ(CountOf(one, ",NULL)"), 1u);
  EXPECT_EQ(CountOf(one, ",x'63')"), 1u);
}

TEST(Statements, KeysAreGroupedByHandlerInShortLists) {
  std::vector<core::OperationKey> keys;
  for (int i = 0; i < 450; ++i) keys.push_back(Key(1, std::to_string(1000 + i)));
  keys.push_back(Key(2, "a"));
  std::vector<const core::OperationKey*> pointers;
  for (const auto& key : keys) pointers.push_back(&key);
  const auto statements = SelectOperations(pointers, 1 << 20);
  ASSERT_THAT(statements, SizeIs(1));
  EXPECT_EQ(CountOf(statements[0].sql, "event_id IN ("), 4u);  // 200 + 200 + 50, and 1
  EXPECT_EQ(CountOf(statements[0].sql, "x'"), 451u);
  EXPECT_THAT(statements[0].sql, HasSubstr("FORCE INDEX (PRIMARY)"));
}

TEST(Statements, ChangesCarryTheirGuardInEveryForm) {
  std::vector<RowChange> changes(3);
  std::vector<const RowChange*> one = {&changes[0]};
  std::vector<const RowChange*> many = {&changes[0], &changes[1], &changes[2]};
  for (const auto columns : {ChangedColumns::kClaim, ChangedColumns::kLease}) {
    EXPECT_THAT(UpdateOperations(columns, one, 1 << 20)[0].sql,
                HasSubstr(" AND state=1 AND attempt_id=x'"));
    EXPECT_THAT(UpdateOperations(columns, many, 1 << 20)[0].sql,
                HasSubstr("WHERE o.state=v.s AND o.attempt_id=v.a AND o.fence=v.f"));
  }
  EXPECT_THAT(DeleteOperations(one, 1 << 20)[0].sql, HasSubstr("o.fence=v.f"));
}

TEST(Statements, SmallResultsStayInTheRowLargeOnesDoNot) {
  std::vector<RowChange> changes(2);
  for (RowChange& change : changes) change.after.receipt.emplace();
  changes[0].after.receipt->result = std::string(512, 'a');
  changes[1].after.receipt->result = std::string(513, 'b');
  const std::vector<const RowChange*> all = {&changes[0], &changes[1]};
  const auto updates = UpdateOperations(ChangedColumns::kCompletion, all, 1 << 20);
  EXPECT_THAT(updates[0].sql, HasSubstr("616161"));
  EXPECT_THAT(updates[0].sql, Not(HasSubstr("626262")));
  const auto bodies = InsertBodies(all, 1 << 20);
  ASSERT_THAT(bodies, SizeIs(1));
  EXPECT_EQ(bodies[0].rows, 1u);
  EXPECT_THAT(bodies[0].sql, HasSubstr("626262"));
}

}  // namespace
}  // namespace once::store::mysql
