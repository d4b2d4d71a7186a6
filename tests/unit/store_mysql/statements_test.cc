#include "store/mysql/statements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "store/mysql/sql_builder.h"

namespace once::store::mysql {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
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
  const auto statements =
      InsertOperations(Inserts(20), /*returning=*/false, Values::kInText, kLimit);
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
  EXPECT_THAT(InsertOperations(Inserts(3), /*returning=*/true, Values::kInText, 10), SizeIs(3));
}

TEST(Statements, NoRowsGiveNoStatement) {
  EXPECT_THAT(InsertOperations({}, /*returning=*/true, Values::kInText, 1000), SizeIs(0));
  EXPECT_THAT(UpdateOperations(ChangedColumns::kClaim, {}, 1000), SizeIs(0));
  EXPECT_THAT(DeleteOperations({}, 1000), SizeIs(0));
  EXPECT_THAT(SelectOperations({}, 1000), SizeIs(0));
  EXPECT_THAT(InsertAttempts({}, false, Values::kInText, 1000), SizeIs(0));
}

TEST(Statements, AttemptsNameOnlyTheColumnsThatSomeEntryHas) {
  std::vector<AttemptEntry> entries(2);
  const std::string bare = InsertAttempts(entries, false, Values::kInText, 1 << 20)[0].sql;
  EXPECT_THAT(bare, Not(HasSubstr("NULL")));
  EXPECT_THAT(bare, Not(HasSubstr("consumer")));
  entries[1].consumer = "c";
  const std::string one = InsertAttempts(entries, false, Values::kInText, 1 << 20)[0].sql;
  EXPECT_THAT(one, HasSubstr(",consumer) VALUES ("));
  EXPECT_EQ(CountOf(one, ",NULL)"), 1u);
  EXPECT_EQ(CountOf(one, ",x'63')"), 1u);
}

TEST(Statements, BoundValuesAreThoseOfTheText) {
  const auto rows = Inserts(8);
  const auto text = InsertOperations(rows, /*returning=*/true, Values::kInText, 1 << 20);
  const auto bound = InsertOperations(rows, /*returning=*/true, Values::kBound, 1 << 20);
  ASSERT_THAT(text, SizeIs(1));
  ASSERT_THAT(bound, SizeIs(1));
  EXPECT_THAT(text[0].values, SizeIs(0));
  std::string filled;
  size_t used = 0;
  for (const char c : bound[0].sql) {
    if (c != '?') {
      filled.push_back(c);
      continue;
    }
    ASSERT_LT(used, bound[0].values.size());
    const BoundValue& value = bound[0].values[used++];
    SqlBuilder literal;
    if (value.kind == BoundValue::Kind::kInt) literal.Int(value.number);
    if (value.kind == BoundValue::Kind::kBytes) literal.Bytes(value.bytes);
    if (value.kind == BoundValue::Kind::kNull) literal.Null();
    filled += literal.text();
  }
  EXPECT_EQ(used, bound[0].values.size());
  EXPECT_EQ(filled, text[0].sql);
}

TEST(Statements, FewRowsAreNotWorthPreparingAndManyAreSplit) {
  const auto rows_of = [](int count, size_t limit) {
    std::vector<std::pair<size_t, bool>> found;
    for (const auto& s : InsertOperations(Inserts(count), false, Values::kBound, limit)) {
      EXPECT_LE(s.bytes(), limit);
      found.emplace_back(s.rows, !s.values.empty());
    }
    return found;
  };
  EXPECT_THAT(rows_of(7, 1 << 20), ElementsAre(std::pair(7u, false)));
  EXPECT_THAT(rows_of(135, 1 << 20),
              ElementsAre(std::pair(64u, true), std::pair(64u, true), std::pair(7u, false)));
  EXPECT_THAT(rows_of(63, 10'000), AllOf(SizeIs(3), Each(std::pair(21u, true))));
}

TEST(Statements, AttemptsBindNullForWhatAnEntryDoesNotHave) {
  std::vector<AttemptEntry> entries(8);
  entries[3].note = "n";
  const auto bound = InsertAttempts(entries, false, Values::kBound, 1 << 20);
  ASSERT_THAT(bound, SizeIs(1));
  EXPECT_THAT(bound[0].sql, Not(HasSubstr("NULL")));
  EXPECT_EQ(std::count_if(bound[0].values.begin(), bound[0].values.end(),
                          [](const BoundValue& v) { return v.kind == BoundValue::Kind::kNull; }),
            7);
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

std::vector<RowChange> Changes(int count) {
  std::vector<RowChange> changes(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    RowChange& change = changes[static_cast<size_t>(i)];
    change.key = Key(1, absl::StrCat("e", 100 + i));
    change.attempt_before.bytes[0] = static_cast<uint8_t>(i + 1);
    change.fence_before.value = 1000 + i;
    change.after.claim.lease_expires.micros = 7;
  }
  return changes;
}

std::vector<const RowChange*> PointersTo(const std::vector<RowChange>& changes) {
  std::vector<const RowChange*> pointers;
  for (const RowChange& change : changes) pointers.push_back(&change);
  return pointers;
}

TEST(Statements, ChangesCarryTheirGuardInEveryForm) {
  const std::vector<RowChange> changes = Changes(3);
  const std::vector<const RowChange*> many = PointersTo(changes);
  const std::vector<const RowChange*> one = {many[0]};
  for (const auto columns : {ChangedColumns::kClaim, ChangedColumns::kLease}) {
    EXPECT_THAT(UpdateOperations(columns, one, 1 << 20)[0].sql,
                AllOf(HasSubstr("AND state=1 AND attempt_id=x'01"), HasSubstr(" AND fence=1000")));
    EXPECT_THAT(UpdateOperations(columns, many, 1 << 20)[0].sql,
                AllOf(HasSubstr("AND state=1 AND attempt_id=CASE event_id WHEN"),
                      HasSubstr(" AND fence=CASE event_id WHEN x'65313030' THEN 1000 WHEN")));
  }
  EXPECT_THAT(DeleteOperations(one, 1 << 20)[0].sql, HasSubstr("o.fence=v.f"));
}

TEST(Statements, AChangeThatAllRowsShareIsWrittenOnce) {
  const std::vector<RowChange> changes = Changes(3);
  EXPECT_THAT(UpdateOperations(ChangedColumns::kLease, PointersTo(changes), 1 << 20)[0].sql,
              HasSubstr("SET state=1,lease_expires_us=7 WHERE"));
}

TEST(Statements, AnEventIdIsInAnUpdateOnlyOnce) {
  std::vector<RowChange> changes = Changes(4);
  changes[2].key = Key(2, changes[0].key.event_id);
  changes[3].key = Key(2, changes[1].key.event_id);
  const auto updates = UpdateOperations(ChangedColumns::kLease, PointersTo(changes), 1 << 20);
  ASSERT_THAT(updates, SizeIs(2));
  EXPECT_EQ(updates[0].rows, 2u);
  EXPECT_THAT(updates[0].sql, Not(HasSubstr("handler_id=2")));
  EXPECT_EQ(updates[1].rows, 2u);
  EXPECT_THAT(updates[1].sql, Not(HasSubstr("handler_id=1")));
}

TEST(Statements, UpdatesAreSplitByRowsAndByBytes) {
  const std::vector<RowChange> changes = Changes(65);
  const auto rows = [&](size_t limit) {
    std::vector<size_t> counts;
    for (const auto& update :
         UpdateOperations(ChangedColumns::kClaim, PointersTo(changes), limit)) {
      if (update.rows > 1) {
        EXPECT_LE(update.sql.size(), limit);
      }
      counts.push_back(update.rows);
    }
    return counts;
  };
  EXPECT_THAT(rows(1 << 20), ElementsAre(64, 1));
  EXPECT_THAT(rows(20'000), AllOf(SizeIs(Gt(2u)), Contains(Gt(1u))));
  EXPECT_THAT(rows(100), AllOf(SizeIs(65), Each(1u)));
}

TEST(Statements, SmallResultsStayInTheRowLargeOnesDoNot) {
  std::vector<RowChange> changes = Changes(2);
  for (RowChange& change : changes) change.after.receipt.emplace();
  changes[0].after.receipt->result = std::string(512, 'a');
  changes[1].after.receipt->result = std::string(513, 'b');
  const std::vector<const RowChange*> all = PointersTo(changes);
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
