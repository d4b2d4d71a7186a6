// What the callers hear when the database fails: the truth, or that it is not known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "unit/pipeline/harness.h"

namespace once::pipeline {
namespace {

using base::ErrorReason;
using test::Fault;
using test::FaultPoint;

class FaultTest : public ::testing::Test {
 protected:
  FaultTest() { h_.options.committers = 1; }

  void Always(FaultPoint point, Fault fault) {
    h_.faults().SetHook([point, fault](const test::FaultSite& site) {
      return site.point == point ? fault : Fault::kNone;
    });
  }

  Harness h_;
};

// ---- unknown commits: it happened, or not, but nobody said so ----

class UnknownCommitTest : public FaultTest, public ::testing::WithParamInterface<Fault> {
 protected:
  void FailNextCommit() { h_.faults().Next(FaultPoint::kCommit, GetParam()); }
  size_t Attempts(const std::string& event) {
    return h_.store().Attempts(Harness::KeyOf(event)).size();
  }
};

TEST_P(UnknownCommitTest, BeginIsGrantedUnderItsOwnAttempt) {
  FailNextCommit();
  const auto begin = h_.Begin("e", "a");
  ASSERT_NE(begin.GetIf<core::Granted>(), nullptr);
  const core::Granted& granted = *begin.GetIf<core::Granted>();
  EXPECT_EQ(granted.attempt_number, 1);
  EXPECT_FALSE(granted.earlier_attempt.has_value());
  EXPECT_EQ(granted.claim, h_.store().Row(Harness::KeyOf("e"))->claim);
  EXPECT_EQ(Attempts("e"), 1u) << "the repeat is the same delivery";
  EXPECT_EQ(h_.observer.retries("unknown"), 1);
}

TEST_P(UnknownCommitTest, TakeOverIsToldOfTheEarlierAttempt) {
  const core::ClaimInfo first = h_.Claim("e", "a");
  h_.timing.Advance(absl::Seconds(31));
  FailNextCommit();
  const auto begin = h_.Begin("e", "b");
  ASSERT_NE(begin.GetIf<core::Granted>(), nullptr);
  ASSERT_TRUE(begin.GetIf<core::Granted>()->earlier_attempt.has_value());
  EXPECT_EQ(begin.GetIf<core::Granted>()->earlier_attempt->fence, first.fence);
  EXPECT_EQ(begin.GetIf<core::Granted>()->attempt_number, 2);
}

TEST_P(UnknownCommitTest, CompleteStoresOneReceipt) {
  const core::ClaimInfo claim = h_.Claim("e", "a");
  FailNextCommit();
  const auto complete = h_.Complete(MakeComplete("e", claim, "done"));
  ASSERT_NE(complete.GetIf<core::Completed>(), nullptr);
  EXPECT_EQ(complete.GetIf<core::Completed>()->receipt.result, "done");
  EXPECT_EQ(Attempts("e"), 2u);
}

TEST_P(UnknownCommitTest, AbandonReleases) {
  const core::ClaimInfo claim = h_.Claim("e", "a");
  FailNextCommit();
  EXPECT_NE(h_.Abandon(MakeAbandon("e", claim)).GetIf<core::Abandoned>(), nullptr);
  EXPECT_EQ(h_.store().Row(Harness::KeyOf("e"))->state, core::RowState::kReleased);
}

TEST_P(UnknownCommitTest, ForgetForgets) {
  const core::ClaimInfo claim = h_.Claim("e", "a");
  FailNextCommit();
  const auto abandon = h_.Abandon(MakeAbandon("e", claim, /*forget=*/true));
  ASSERT_NE(abandon.GetIf<core::Abandoned>(), nullptr);
  EXPECT_TRUE(abandon.GetIf<core::Abandoned>()->forgotten);
  EXPECT_FALSE(h_.store().Row(Harness::KeyOf("e")).has_value());
}

TEST_P(UnknownCommitTest, RenewExtends) {
  const core::ClaimInfo claim = h_.Claim("e", "a");
  FailNextCommit();
  const auto renew = h_.Renew(MakeRenew("e", claim, absl::Seconds(90)));
  ASSERT_NE(renew.GetIf<core::Renewed>(), nullptr);
  EXPECT_GT(renew.GetIf<core::Renewed>()->lease_remaining, absl::Seconds(80));
}

TEST_P(UnknownCommitTest, WholeBatchIsResolved) {
  h_.StopCommits();
  const auto first = h_.Begin("first", "a");
  ASSERT_TRUE(h_.faults().WaitUntilStopped());
  h_.faults().Next(FaultPoint::kCommit, GetParam(), /*times=*/1, /*skip=*/1);
  std::vector<Answer<core::BeginOutcome>> answers;
  for (int i = 0; i < 10; ++i) answers.push_back(h_.Begin("same", absl::StrCat("a", i)));
  for (int i = 0; i < 10; ++i) answers.push_back(h_.Begin(absl::StrCat("e", i), "a"));
  h_.faults().Open();
  int granted = 0;
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer.Get().ok());
    if (answer.GetIf<core::Granted>() != nullptr) ++granted;
  }
  EXPECT_EQ(granted, 11);
  EXPECT_NE(answers[0].GetIf<core::Granted>(), nullptr);
  EXPECT_EQ(Attempts("same"), 10u);
}

TEST_P(UnknownCommitTest, ConflictOnTheRepeatIsNoEnd) {
  h_.faults().Next(FaultPoint::kCommit, GetParam());
  h_.faults().Next(FaultPoint::kCommit, Fault::kAborted, /*times=*/3);
  const auto begin = h_.Begin("e", "a");
  ASSERT_TRUE(h_.RunUntil([&] { return begin.given(); }));
  EXPECT_NE(begin.GetIf<core::Granted>(), nullptr);
  EXPECT_EQ(Attempts("e"), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, UnknownCommitTest,
                         ::testing::Values(Fault::kUnknownDone, Fault::kUnknownLost,
                                           Fault::kUnknownPending));

TEST_F(FaultTest, UnknownThatIsNeverResolvedIsSaidToBeUnknown) {
  Always(FaultPoint::kCommit, Fault::kUnknownLost);
  const absl::Time start = h_.timing.Now();
  const auto begin = h_.Begin("e", "a");
  ASSERT_TRUE(h_.RunUntil([&] { return begin.given(); }));
  EXPECT_EQ(begin.Reason(), ErrorReason::kOutcomeUnknown);
  EXPECT_TRUE(base::DetailsOf(begin.Get().status()).retry_delay.has_value());
  EXPECT_GE(h_.timing.Now() - start, h_.options.retry_window);
  EXPECT_LE(h_.timing.Now() - start, h_.options.retry_window + absl::Seconds(2));
  // The same request later gets the answer.
  h_.faults().Clear();
  const auto again = h_.Begin("e", "a");
  ASSERT_TRUE(h_.RunUntil([&] { return again.given(); }));
  EXPECT_NE(again.GetIf<core::Granted>(), nullptr);
}

TEST_F(FaultTest, DeadlineAfterAnUnknownCommitIsUnknownNotExceeded) {
  h_.faults().SetHook([](const test::FaultSite& site) {
    if (site.point == FaultPoint::kCommit) return Fault::kUnknownLost;
    // Every session but the first: the outcome cannot be found out.
    return site.point == FaultPoint::kTouchAndRead && site.session > 10 ? Fault::kUnavailable
                                                                        : Fault::kNone;
  });
  BeginCall call = MakeBegin("e", "a");
  call.info.deadline = h_.timing.Now() + absl::Milliseconds(200);
  const auto begin = h_.Begin(std::move(call));
  ASSERT_TRUE(h_.observer.WaitFor([&] { return h_.observer.retries("unknown") > 0; }));
  ASSERT_TRUE(h_.RunUntil([&] { return begin.given(); }));
  EXPECT_EQ(begin.Reason(), ErrorReason::kOutcomeUnknown);
}

TEST_F(FaultTest, RefusedRepeatOfAnUnknownCommitIsUnknown) {
  h_.faults().Next(FaultPoint::kCommit, Fault::kUnknownDone);
  h_.faults().Next(FaultPoint::kWrite, Fault::kInternal, /*times=*/1, /*skip=*/1);
  EXPECT_EQ(h_.Begin("e", "a").Reason(), ErrorReason::kOutcomeUnknown);
}

// ---- conflicts ----

TEST_F(FaultTest, StormOfConflictsEndsInOneGrant) {
  h_.faults().Next(FaultPoint::kTouchAndRead, Fault::kAborted, 10);
  h_.faults().Next(FaultPoint::kCommit, Fault::kAborted, 15);
  const auto begin = h_.Begin("e", "a");
  ASSERT_TRUE(h_.RunUntil([&] { return begin.given(); }));
  ASSERT_NE(begin.GetIf<core::Granted>(), nullptr);
  EXPECT_EQ(h_.observer.retries("aborted"), 25);
  EXPECT_EQ(h_.store().Attempts(Harness::KeyOf("e")).size(), 1u);
  EXPECT_TRUE(h_.pipeline().healthy());
}

TEST_F(FaultTest, FirstConflictIsRepeatedWithoutAPause) {
  h_.faults().Next(FaultPoint::kCommit, Fault::kAborted);
  EXPECT_NE(h_.Begin("e", "a").GetIf<core::Granted>(), nullptr);  // the clock stands still
}

TEST_F(FaultTest, DeadlineDuringAStormIsExceededAndNothingIsWritten) {
  Always(FaultPoint::kCommit, Fault::kAborted);
  BeginCall call = MakeBegin("e", "a");
  call.info.deadline = h_.timing.Now() + absl::Milliseconds(300);
  const auto hasty = h_.Begin(std::move(call));
  const auto patient = h_.Begin("f", "a");
  ASSERT_TRUE(h_.observer.WaitFor([&] { return h_.observer.retries("aborted") > 0; }));
  ASSERT_TRUE(h_.RunUntil([&] { return hasty.given(); }));
  EXPECT_EQ(hasty.Reason(), ErrorReason::kDeadlineExceeded);
  h_.faults().Clear();
  ASSERT_TRUE(h_.RunUntil([&] { return patient.given(); }));
  EXPECT_NE(patient.GetIf<core::Granted>(), nullptr);
  EXPECT_FALSE(h_.store().Row(Harness::KeyOf("e")).has_value());
}

TEST_F(FaultTest, EndlessStormIsUnavailableAfterTheWindow) {
  Always(FaultPoint::kCommit, Fault::kAborted);
  const absl::Time start = h_.timing.Now();
  const auto begin = h_.Begin("e", "a");
  ASSERT_TRUE(h_.RunUntil([&] { return begin.given(); }));
  EXPECT_EQ(begin.Reason(), ErrorReason::kStoreUnavailable);
  EXPECT_GE(h_.timing.Now() - start, h_.options.retry_window);
}

// ---- lost connections ----

TEST_F(FaultTest, LostConnectionIsReplacedAndTheBatchRunsAgain) {
  h_.faults().Next(FaultPoint::kTouchAndRead, Fault::kUnavailable);
  h_.faults().Next(FaultPoint::kWrite, Fault::kUnavailable);
  const auto begin = h_.Begin("e", "a");
  ASSERT_TRUE(h_.RunUntil([&] { return begin.given(); }));
  EXPECT_NE(begin.GetIf<core::Granted>(), nullptr);
  EXPECT_EQ(h_.observer.retries("unavailable"), 2);
  EXPECT_EQ(h_.store().open_transactions(), 0);
}

TEST_F(FaultTest, IdleConnectionThatTimedOutCostsNoPause) {
  h_.Begin("e", "a").Get();
  h_.faults().Next(FaultPoint::kTouchAndRead, Fault::kUnavailable);
  EXPECT_NE(h_.Begin("f", "a").GetIf<core::Granted>(), nullptr);  // the clock stands still
}

TEST_F(FaultTest, OutageAnswersUnavailableThenRecoversByItself) {
  h_.Begin("warm", "a").Get();
  EXPECT_TRUE(h_.pipeline().healthy());
  h_.faults().SetHook([](const test::FaultSite& site) {
    return site.point == FaultPoint::kOpen || site.point == FaultPoint::kTouchAndRead
               ? Fault::kUnavailable
               : Fault::kNone;
  });
  const absl::Time start = h_.timing.Now();
  const auto begin = h_.Begin("e", "a");
  ASSERT_TRUE(h_.RunUntil([&] { return begin.given(); }));
  EXPECT_EQ(begin.Reason(), ErrorReason::kStoreUnavailable);
  EXPECT_LE(h_.timing.Now() - start, h_.options.retry_window + absl::Seconds(2));
  EXPECT_FALSE(h_.pipeline().healthy());
  // A call that comes late in the outage waits no longer than one that came early.
  const absl::Time second = h_.timing.Now();
  const auto late = h_.Begin("f", "a");
  ASSERT_TRUE(h_.RunUntil([&] { return late.given(); }));
  EXPECT_EQ(late.Reason(), ErrorReason::kStoreUnavailable);
  EXPECT_LE(h_.timing.Now() - second, h_.options.retry_window + absl::Seconds(2));
  // Nobody asks, but readiness comes back.
  h_.faults().Clear();
  EXPECT_TRUE(h_.RunUntil([&] { return h_.pipeline().healthy(); }));
  EXPECT_NE(h_.Begin("e", "a").GetIf<core::Granted>(), nullptr);
}

TEST_F(FaultTest, UnreachableDatabaseAtTheStartIsNotHealthy) {
  Always(FaultPoint::kOpen, Fault::kUnavailable);
  EXPECT_TRUE(h_.RunUntil([&] { return !h_.pipeline().healthy(); }));
  h_.faults().Clear();
  EXPECT_TRUE(h_.RunUntil([&] { return h_.pipeline().healthy(); }));
}

TEST_F(FaultTest, DefectInTheStoreIsInternalAndStopsNobody) {
  h_.faults().Next(FaultPoint::kWrite, Fault::kInternal);
  const auto begin = h_.Begin("e", "a");
  EXPECT_EQ(begin.Reason(), ErrorReason::kInternal);
  EXPECT_THAT(std::string(begin.Get().status().message()),
              ::testing::Not(::testing::HasSubstr("played")));
  EXPECT_NE(h_.Begin("e", "a").GetIf<core::Granted>(), nullptr);
}

TEST_F(FaultTest, HandlerNamesAreInternedThroughFaults) {
  h_.faults().Next(FaultPoint::kControl, Fault::kUnavailable);
  h_.faults().Next(FaultPoint::kControl, Fault::kAborted);
  h_.faults().Next(FaultPoint::kControl, Fault::kUnknownDone);
  const auto begin = h_.Begin("e", "a");
  ASSERT_TRUE(h_.RunUntil([&] { return begin.given(); }));
  EXPECT_NE(begin.GetIf<core::Granted>(), nullptr);
}

TEST_F(FaultTest, LookupsAreReadAgain) {
  h_.Begin("e", "a").Get();
  h_.faults().Next(FaultPoint::kRead, Fault::kUnavailable, 2);
  h_.faults().Next(FaultPoint::kRead, Fault::kAborted, 2);
  const auto lookup = h_.Lookup(MakeLookup("e"));
  ASSERT_TRUE(h_.RunUntil([&] { return lookup.given(); }));
  EXPECT_NE(lookup.GetIf<core::InProgress>(), nullptr);
}

TEST_F(FaultTest, LookupsDuringAnOutageAreUnavailable) {
  h_.Begin("e", "a").Get();
  Always(FaultPoint::kRead, Fault::kUnavailable);
  const auto lookup = h_.Lookup(MakeLookup("e"));
  ASSERT_TRUE(h_.RunUntil([&] { return lookup.given(); }));
  EXPECT_EQ(lookup.Reason(), ErrorReason::kStoreUnavailable);
}

}  // namespace
}  // namespace once::pipeline
