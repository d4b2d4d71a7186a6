#include "core/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace once::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr DbTime kNow{1'000'000'000};

class OrderTest : public ::testing::Test {
 protected:
  static OperationRow Claimed(absl::Duration lease_left = absl::Seconds(10)) {
    OperationRow row;
    row.claim.consumer = "worker-1";
    row.claim.begun = kNow + -absl::Seconds(20);
    row.claim.lease_expires = kNow + lease_left;
    row.claims = 2;
    return row;
  }
  static OperationRow Ended(RowState state) {
    OperationRow row = Claimed();
    row.state = state;
    if (state != RowState::kReleased) row.receipt = Receipt{};
    return row;
  }

  AggregateRow SettleAll(AggregateRow aggregate) {
    return Settle(std::move(aggregate), [this](const std::string& id) { return Find(id); });
  }
  std::optional<std::variant<Stale, InProgress>> Check(const AggregateRow& aggregate,
                                                       const std::string& event_id,
                                                       const OrderRequest& order) {
    return CheckOrder(
        aggregate, event_id, order, [this](const std::string& id) { return Find(id); }, kNow);
  }
  const OperationRow* Find(const std::string& id) {
    const auto row = rows_.find(id);
    return row == rows_.end() ? nullptr : &row->second;
  }

  std::map<std::string, OperationRow> rows_;
};

OrderRequest Guarded(int64_t version) {
  return {.aggregate_id = "account-1", .version = version, .guards_versions = true};
}
OrderRequest OneAtATime(int64_t version) {
  return {.aggregate_id = "account-1", .version = version, .one_at_a_time = true};
}

TEST_F(OrderTest, SettlingFoldsCompletedOnesIntoTheGreatestVersion) {
  rows_["five"] = Ended(RowState::kCompleted);
  rows_["four"] = Ended(RowState::kTombstone);
  rows_["six"] = Claimed();
  const AggregateRow settled = SettleAll(
      {.done = AggregateEvent{"three", 3}, .open = {{"five", 5}, {"four", 4}, {"six", 6}}});
  EXPECT_EQ(settled.done, (AggregateEvent{"five", 5}));
  EXPECT_THAT(settled.open, ElementsAre(AggregateEvent{"six", 6}));
}

TEST_F(OrderTest, ReleasedAndForgottenOnesAreAsIfTheyHadNotBegun) {
  rows_["released"] = Ended(RowState::kReleased);
  const AggregateRow settled =
      SettleAll({.done = std::nullopt, .open = {{"released", 5}, {"forgotten", 6}}});
  EXPECT_EQ(settled, AggregateRow{});
}

TEST_F(OrderTest, AClaimWhoseLeaseIsOverIsOpenStill) {
  rows_["silent"] = Claimed(-absl::Seconds(1));
  EXPECT_THAT(SettleAll({.done = std::nullopt, .open = {{"silent", 1}}}).open,
              ElementsAre(AggregateEvent{"silent", 1}));
}

TEST_F(OrderTest, VersionsUpToTheDoneOneAreStale) {
  const AggregateRow aggregate{.done = AggregateEvent{"five", 5}, .open = {}};
  for (const int64_t version : {0, 4, 5}) {
    const auto kept = Check(aggregate, "other", Guarded(version));
    ASSERT_TRUE(kept.has_value()) << version;
    const Stale& stale = std::get<Stale>(*kept);
    EXPECT_EQ(stale.aggregate_id, "account-1");
    EXPECT_EQ(stale.current_version, 5);
    EXPECT_EQ(stale.current_event_id, "five");
  }
  EXPECT_FALSE(Check(aggregate, "other", Guarded(6)).has_value());
  EXPECT_FALSE(Check(aggregate, "other", OneAtATime(4)).has_value()) << "no guard";
  EXPECT_FALSE(Check(aggregate, "five", Guarded(5)).has_value()) << "the operation itself";
}

TEST_F(OrderTest, OpenVersionsDoNotMakeOthersStale) {
  rows_["five"] = Claimed();
  EXPECT_FALSE(
      Check({.done = std::nullopt, .open = {{"five", 5}}}, "four", Guarded(4)).has_value());
}

TEST_F(OrderTest, OneAtATimeNamesTheOneThatHasToEnd) {
  rows_["first"] = Claimed(absl::Seconds(7));
  const AggregateRow aggregate{.done = std::nullopt, .open = {{"first", 1}}};
  const auto kept = Check(aggregate, "second", OneAtATime(2));
  ASSERT_TRUE(kept.has_value());
  const InProgress& busy = std::get<InProgress>(*kept);
  EXPECT_EQ(busy.reason, InProgress::Reason::kAggregateBusy);
  EXPECT_EQ(busy.blocking_event_id, "first");
  EXPECT_EQ(busy.consumer, "worker-1");
  EXPECT_EQ(busy.lease_remaining, absl::Seconds(7));
  EXPECT_EQ(busy.attempt_number, 2);
  EXPECT_FALSE(busy.first_digest.has_value());

  EXPECT_FALSE(Check(aggregate, "first", OneAtATime(1)).has_value()) << "a new attempt of its own";
  EXPECT_FALSE(Check(aggregate, "second", Guarded(2)).has_value()) << "no such order";
}

TEST_F(OrderTest, AClaimWhoseLeaseIsOverBlocksWithoutALease) {
  rows_["silent"] = Claimed(-absl::Seconds(1));
  const auto kept = Check({.done = std::nullopt, .open = {{"silent", 1}}}, "next", OneAtATime(2));
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(std::get<InProgress>(*kept).lease_remaining, absl::ZeroDuration());
}

TEST_F(OrderTest, StaleComesBeforeBusy) {
  rows_["six"] = Claimed();
  OrderRequest both = Guarded(4);
  both.one_at_a_time = true;
  const auto kept = Check({.done = AggregateEvent{"five", 5}, .open = {{"six", 6}}}, "four", both);
  ASSERT_TRUE(kept.has_value());
  EXPECT_TRUE(std::holds_alternative<Stale>(*kept)) << "waiting would change nothing";
}

TEST_F(OrderTest, WhatEndsOrWasNeverThereBlocksNobody) {
  EXPECT_FALSE(BlockedBy("x", nullptr, kNow).has_value());
  for (const RowState state : {RowState::kReleased, RowState::kCompleted, RowState::kTombstone}) {
    const OperationRow row = Ended(state);
    EXPECT_FALSE(BlockedBy("x", &row, kNow).has_value());
  }
}

TEST_F(OrderTest, AnOperationIsOpenOnce) {
  AggregateRow aggregate = WithOpen({}, {"a", 1});
  aggregate = WithOpen(std::move(aggregate), {"b", 2});
  aggregate = WithOpen(std::move(aggregate), {"a", 1});
  EXPECT_THAT(aggregate.open, ElementsAre(AggregateEvent{"b", 2}, AggregateEvent{"a", 1}));
  EXPECT_THAT(AggregateRow{}.open, IsEmpty());
}

}  // namespace
}  // namespace once::core
