// Calls that wait for the end of another operation of their aggregate.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/pipeline/harness.h"

namespace once::pipeline {
namespace {

constexpr absl::Duration kLong = absl::Seconds(25);

class WaitOrderTest : public ::testing::Test {
 protected:
  static BeginCall MakeOrdered(const std::string& event, int64_t version,
                               absl::Duration wait = absl::ZeroDuration()) {
    BeginCall call = MakeBegin(event, "attempt of " + event, wait);
    call.request.order = core::OrderRequest{.aggregate_id = "account-1",
                                            .version = version,
                                            .guards_versions = true,
                                            .one_at_a_time = true};
    return call;
  }
  core::ClaimInfo Claim(const std::string& event, int64_t version) {
    const auto answer = h_.Begin(MakeOrdered(event, version));
    const auto* granted = answer.GetIf<core::Granted>();
    EXPECT_NE(granted, nullptr);
    return granted == nullptr ? core::ClaimInfo{} : granted->claim;
  }
  // A Begin that waits, once it does.
  Answer<core::BeginOutcome> Wait(const std::string& event, int64_t version,
                                  absl::Duration wait = kLong) {
    const size_t before = h_.observer.waiting();
    const auto answer = h_.Begin(MakeOrdered(event, version, wait));
    EXPECT_TRUE(h_.observer.WaitForWaiters(before + 1));
    return answer;
  }

  Harness h_;
};

TEST_F(WaitOrderTest, WithoutAWaitTheSecondIsToldAtOnce) {
  Claim("one", 1);
  const auto busy = h_.Begin(MakeOrdered("two", 2));
  ASSERT_NE(busy.GetIf<core::InProgress>(), nullptr);
  EXPECT_EQ(busy.GetIf<core::InProgress>()->reason, core::InProgress::Reason::kAggregateBusy);
  EXPECT_EQ(busy.GetIf<core::InProgress>()->blocking_event_id, "one");
}

TEST_F(WaitOrderTest, CompletionOfTheOtherWakesAtOnce) {
  const core::ClaimInfo claim = Claim("one", 1);
  const auto waiter = Wait("two", 2);
  h_.Complete(MakeComplete("one", claim, "done")).Get();
  // The clock stands still: no poll had a part in it.
  EXPECT_NE(waiter.GetIf<core::Granted>(), nullptr);
  EXPECT_TRUE(h_.observer.WaitForWaiters(0));
}

TEST_F(WaitOrderTest, EndOfTheWaitNamesTheOneThatHasToEnd) {
  Claim("one", 1);
  const auto waiter = Wait("two", 2, absl::Seconds(2));
  h_.timing.Advance(absl::Milliseconds(2010));  // waits end to ten milliseconds
  ASSERT_NE(waiter.GetIf<core::InProgress>(), nullptr);
  const core::InProgress& busy = *waiter.GetIf<core::InProgress>();
  EXPECT_EQ(busy.reason, core::InProgress::Reason::kAggregateBusy);
  EXPECT_EQ(busy.blocking_event_id, "one");
  EXPECT_EQ(busy.consumer, "attempt of one");
  EXPECT_FALSE(busy.first_digest.has_value());
  EXPECT_NEAR(absl::ToDoubleSeconds(busy.lease_remaining), 28.0, 0.02);
}

TEST_F(WaitOrderTest, WaitersForTheOperationItselfAreToldOfItAsBefore) {
  const core::ClaimInfo claim = Claim("one", 1);
  BeginCall duplicate = MakeBegin("one", "another attempt", kLong);
  const auto own = h_.Begin(std::move(duplicate));
  ASSERT_TRUE(h_.observer.WaitForWaiters(1));
  BeginCall brief = MakeBegin("one", "a third attempt", absl::Seconds(2));
  const auto told = h_.Begin(std::move(brief));
  ASSERT_TRUE(h_.observer.WaitForWaiters(2));
  const auto other = Wait("two", 2);
  h_.timing.Advance(absl::Milliseconds(2010));
  ASSERT_NE(told.GetIf<core::InProgress>(), nullptr);
  EXPECT_EQ(told.GetIf<core::InProgress>()->reason, core::InProgress::Reason::kHeld);
  EXPECT_EQ(told.GetIf<core::InProgress>()->blocking_event_id, "");
  EXPECT_EQ(told.GetIf<core::InProgress>()->first_digest, DigestOf("content of one"));
  h_.Complete(MakeComplete("one", claim, "done")).Get();
  EXPECT_NE(own.GetIf<core::Completed>(), nullptr);
  EXPECT_NE(other.GetIf<core::Granted>(), nullptr);
}

TEST_F(WaitOrderTest, ManyRunOneAfterAnotherAndEachEndCostsAFewTransactions) {
  constexpr int kWaiters = 20;
  core::ClaimInfo claim = Claim("e0", 0);
  std::vector<Answer<core::BeginOutcome>> waiters;
  for (int i = 1; i <= kWaiters; ++i) waiters.push_back(Wait(absl::StrCat("e", i), i));
  const int64_t commits = h_.store().commits();
  for (int i = 1; i <= kWaiters; ++i) {
    h_.Complete(MakeComplete(absl::StrCat("e", i - 1), claim, "done")).Get();
    const auto* granted = waiters[static_cast<size_t>(i) - 1].GetIf<core::Granted>();
    ASSERT_NE(granted, nullptr) << i << ": in the order of their arrival";
    claim = granted->claim;
    if (i < kWaiters) {
      EXPECT_FALSE(waiters[static_cast<size_t>(i)].given());
    }
  }
  // Each end: the completion, the one that is granted, and one that finds out for all others whom
  // they wait for now.
  EXPECT_LE(h_.store().commits() - commits, 3 * kWaiters);
  EXPECT_TRUE(h_.observer.WaitForWaiters(0));
}

TEST_F(WaitOrderTest, ReleaseByAnotherServerIsSeenByThePoller) {
  Claim("one", 1);
  const auto waiter = Wait("two", 2);
  core::OperationRow row = *h_.store().Row(Harness::KeyOf("one"));
  row.state = core::RowState::kReleased;
  h_.store().PutRow(Harness::KeyOf("one"), row);
  h_.timing.Advance(h_.options.wait_poll_interval * 2);
  EXPECT_NE(waiter.GetIf<core::Granted>(), nullptr);
}

TEST_F(WaitOrderTest, ASilentHolderIsLookedAtNowAndThenNotAllTheTime) {
  BeginCall silent = MakeOrdered("one", 1);
  silent.request.lease = absl::Seconds(1);
  h_.Begin(std::move(silent)).Get();
  const auto waiter = Wait("two", 2);
  const size_t reads = h_.observer.read_batches();
  ASSERT_TRUE(h_.RunUntil([&] { return waiter.given(); }));
  ASSERT_NE(waiter.GetIf<core::InProgress>(), nullptr) << "nobody knows what became of it";
  EXPECT_EQ(waiter.GetIf<core::InProgress>()->lease_remaining, absl::ZeroDuration());
  EXPECT_LE(h_.observer.read_batches() - reads, 65u);  // 25 s at 500 ms
}

TEST_F(WaitOrderTest, AWaiterThatIsOvertakenIsStale) {
  const core::ClaimInfo nine = Claim("nine", 9);
  const auto waiter = Wait("two", 2);
  h_.Complete(MakeComplete("nine", nine, "done")).Get();
  ASSERT_NE(waiter.GetIf<core::Stale>(), nullptr);
  EXPECT_EQ(waiter.GetIf<core::Stale>()->current_version, 9);
}

TEST_F(WaitOrderTest, ShutdownAnswersThem) {
  Claim("one", 1);
  const auto waiter = Wait("two", 2);
  h_.Stop();
  ASSERT_NE(waiter.GetIf<core::InProgress>(), nullptr);
  EXPECT_EQ(waiter.GetIf<core::InProgress>()->blocking_event_id, "one");
}

TEST_F(WaitOrderTest, RepeatsOfOneOrderedBeginAreTakenOneByOne) {
  h_.StopCommits();
  const auto blocker = h_.Begin(MakeOrdered("one", 1));
  ASSERT_TRUE(h_.faults().WaitUntilStopped(1));
  const auto first = h_.Begin(MakeOrdered("two", 2));
  const auto second = h_.Begin(MakeOrdered("two", 2));
  h_.faults().Open();
  for (const auto& answer : {first, second}) {
    ASSERT_NE(answer.GetIf<core::InProgress>(), nullptr);
    EXPECT_EQ(answer.GetIf<core::InProgress>()->blocking_event_id, "one");
  }
}

}  // namespace
}  // namespace once::pipeline
