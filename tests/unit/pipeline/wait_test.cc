// Calls that wait for another attempt: what wakes them, what they are told, what they cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "unit/pipeline/harness.h"

namespace once::pipeline {
namespace {

using base::ErrorReason;
using store::AttemptOutcome;
using test::Fault;
using test::FaultPoint;
using ::testing::ElementsAre;

constexpr absl::Duration kLong = absl::Seconds(25);

class WaitTest : public ::testing::Test {
 protected:
  std::vector<AttemptOutcome> Logged(const std::string& event) {
    std::vector<AttemptOutcome> outcomes;
    for (const auto& attempt : h_.store().Attempts(Harness::KeyOf(event))) {
      outcomes.push_back(attempt.entry.outcome);
    }
    return outcomes;
  }

  // A Begin that waits, once it does.
  Answer<core::BeginOutcome> Wait(const std::string& event, const std::string& attempt,
                                  absl::Duration wait = kLong) {
    const size_t before = h_.observer.waiting();
    const auto answer = h_.Begin(event, attempt, wait);
    EXPECT_TRUE(h_.observer.WaitForWaiters(before + 1));
    return answer;
  }

  // What another server does, seen only through the database.
  void CompleteElsewhere(const std::string& event, const std::string& result) {
    core::OperationRow row = *h_.store().Row(Harness::KeyOf(event));
    row.state = core::RowState::kCompleted;
    row.receipt = core::Receipt{
        .status = core::ReceiptStatus::kSucceeded,
        .content_type = "",
        .result_size = static_cast<int64_t>(result.size()),
        .fingerprint = core::FingerprintOf(core::ReceiptStatus::kSucceeded, "", result),
        .completed = h_.store().now(),
        .result = result};
    h_.store().PutRow(Harness::KeyOf(event), row);
  }

  static std::string Said(const Answer<core::BeginOutcome>& answer) {
    return answer.Get().ok() ? absl::StrCat("outcome ", answer.Get()->index())
                             : answer.Get().status().ToString();
  }

  void Tick() { h_.timing.Advance(h_.options.wait_poll_interval * 2); }

  Harness h_;
};

// ---- A7: the owner completes, or nobody does ----

TEST_F(WaitTest, CompletionHereWakesAtOnce) {
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  const auto waiter = Wait("e", "b", absl::Seconds(2));
  h_.Complete(MakeComplete("e", claim, "done")).Get();
  // The clock stands still: no poll had a part in it.
  ASSERT_NE(waiter.GetIf<core::Completed>(), nullptr);
  EXPECT_EQ(waiter.GetIf<core::Completed>()->receipt.result, "done");
  EXPECT_TRUE(waiter.GetIf<core::Completed>()->replayed);
  EXPECT_THAT(Logged("e"), ElementsAre(AttemptOutcome::kGranted, AttemptOutcome::kInProgress,
                                       AttemptOutcome::kCompleted))
      << "a delivery that waited is logged once";
  EXPECT_TRUE(h_.observer.WaitForWaiters(0));
}

TEST_F(WaitTest, EndOfTheWaitIsInProgressWithTheLeaseThatIsLeft) {
  h_.Claim("e", "owner");
  const auto waiter = Wait("e", "b", absl::Seconds(2));
  h_.timing.Advance(absl::Milliseconds(1999));
  EXPECT_FALSE(waiter.given());
  h_.timing.Advance(absl::Milliseconds(11));  // waits end to ten milliseconds
  ASSERT_NE(waiter.GetIf<core::InProgress>(), nullptr);
  EXPECT_EQ(waiter.GetIf<core::InProgress>()->consumer, "owner");
  EXPECT_NEAR(absl::ToDoubleSeconds(waiter.GetIf<core::InProgress>()->lease_remaining), 28.0, 0.02);
}

TEST_F(WaitTest, WaitEndsBeforeTheDeadline) {
  h_.Claim("e", "owner");
  BeginCall call = MakeBegin("e", "b", absl::Seconds(10));
  call.info.deadline = h_.timing.Now() + absl::Seconds(1);
  const auto waiter = h_.Begin(std::move(call));
  ASSERT_TRUE(h_.observer.WaitForWaiters(1));
  h_.timing.Advance(absl::Milliseconds(990));
  EXPECT_NE(waiter.GetIf<core::InProgress>(), nullptr) << Said(waiter);
}

TEST_F(WaitTest, BeginWithoutWaitIsAnsweredAtOnce) {
  h_.Claim("e", "owner");
  EXPECT_NE(h_.Begin("e", "b").GetIf<core::InProgress>(), nullptr);
  BeginCall call = MakeBegin("e", "c", absl::Seconds(1));
  call.info.deadline = h_.timing.Now() + absl::Milliseconds(10);  // no time to wait in
  EXPECT_NE(h_.Begin(std::move(call)).GetIf<core::InProgress>(), nullptr);
}

TEST_F(WaitTest, LargeResultReachesWaitersWithItsBody) {
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  const auto begin = Wait("e", "b");
  const auto lookup = h_.Lookup(MakeLookup("e", kLong));
  ASSERT_TRUE(h_.observer.WaitForWaiters(2));
  const std::string result(5000, 'r');
  h_.Complete(MakeComplete("e", claim, result)).Get();
  ASSERT_NE(begin.GetIf<core::Completed>(), nullptr);
  EXPECT_EQ(begin.GetIf<core::Completed>()->receipt.result, result);
  // The lookup may have begun to wait before or after the commit was seen.
  ASSERT_TRUE(h_.RunUntil([&] { return lookup.given(); }));
  ASSERT_NE(lookup.GetIf<core::Completed>(), nullptr);
  EXPECT_EQ(lookup.GetIf<core::Completed>()->receipt.result, result);
}

// ---- other servers ----

TEST_F(WaitTest, CompletionOnAnotherServerIsSeenByPolling) {
  h_.Claim("e", "owner");
  const auto waiter = Wait("e", "b");
  CompleteElsewhere("e", "done");
  Tick();
  ASSERT_NE(waiter.GetIf<core::Completed>(), nullptr);
  EXPECT_EQ(waiter.GetIf<core::Completed>()->receipt.result, "done");
}

TEST_F(WaitTest, ManyKeysArePolledInOneRead) {
  for (int i = 0; i < 20; ++i) h_.Claim(absl::StrCat("e", i), "owner");
  std::vector<Answer<core::BeginOutcome>> waiters;
  for (int i = 0; i < 20; ++i) waiters.push_back(Wait(absl::StrCat("e", i), "b"));
  const size_t reads = h_.observer.read_batches();
  const size_t keys = h_.observer.keys_read();
  Tick();
  ASSERT_TRUE(h_.observer.WaitFor([&] { return h_.observer.keys_read() == keys + 20; }));
  EXPECT_EQ(h_.observer.read_batches(), reads + 1);
}

TEST_F(WaitTest, KeyThatDoesNotChangeIsReadLessAndLess) {
  h_.Claim("e", "owner");
  const auto waiter = Wait("e", "b");
  const size_t reads = h_.observer.read_batches();
  ASSERT_TRUE(h_.RunUntil([&] { return waiter.given(); }));
  EXPECT_NE(waiter.GetIf<core::InProgress>(), nullptr) << Said(waiter);
  const size_t polls = h_.observer.read_batches() - reads;
  EXPECT_GE(polls, 45u);  // 25 s at 500 ms
  EXPECT_LE(polls, 65u);
}

TEST_F(WaitTest, OtherContentBegunElsewhereIsAConflict) {
  h_.Claim("e", "owner");
  const auto begin = Wait("e", "b");
  LookupCall lookup_call = MakeLookup("e", kLong);
  lookup_call.request.digest = DigestOf("content of e");
  const auto lookup = h_.Lookup(std::move(lookup_call));
  ASSERT_TRUE(h_.observer.WaitForWaiters(2));
  core::OperationRow row = *h_.store().Row(Harness::KeyOf("e"));
  row.digest = DigestOf("other content");  // forgotten and begun again
  h_.store().PutRow(Harness::KeyOf("e"), row);
  Tick();
  EXPECT_NE(begin.GetIf<core::Conflict>(), nullptr);
  EXPECT_NE(lookup.GetIf<core::Conflict>(), nullptr);
}

TEST_F(WaitTest, OperationForgottenElsewhereIsBegunByTheWaiter) {
  h_.Claim("e", "owner");
  const auto begin = Wait("e", "b");
  const auto lookup = h_.Lookup(MakeLookup("e", kLong));
  ASSERT_TRUE(h_.observer.WaitForWaiters(2));
  h_.store().DeleteRow(Harness::KeyOf("e"));
  Tick();
  ASSERT_NE(begin.GetIf<core::Granted>(), nullptr);
  EXPECT_EQ(begin.GetIf<core::Granted>()->attempt_number, 1);
  EXPECT_NE(lookup.GetIf<core::NotFound>(), nullptr);
}

// ---- release, lapse ----

TEST_F(WaitTest, ReleaseGrantsTheFirstWaiterAndTheOthersGoOnWaiting) {
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  const auto first = Wait("e", "first");
  const auto second = Wait("e", "second");
  const auto third = Wait("e", "third");
  const int64_t commits = h_.store().commits();
  h_.Abandon(MakeAbandon("e", claim)).Get();
  ASSERT_NE(first.GetIf<core::Granted>(), nullptr);
  const core::ClaimInfo second_claim = first.GetIf<core::Granted>()->claim;
  EXPECT_GT(second_claim.fence, claim.fence);
  ASSERT_TRUE(h_.observer.WaitForWaiters(2));
  EXPECT_EQ(h_.store().commits(), commits + 2) << "the release and one Begin";
  EXPECT_THAT(Logged("e"), ElementsAre(AttemptOutcome::kGranted, AttemptOutcome::kInProgress,
                                       AttemptOutcome::kInProgress, AttemptOutcome::kInProgress,
                                       AttemptOutcome::kReleased, AttemptOutcome::kGranted));
  EXPECT_FALSE(second.given());
  h_.Complete(MakeComplete("e", second_claim, "done")).Get();
  EXPECT_NE(second.GetIf<core::Completed>(), nullptr);
  EXPECT_NE(third.GetIf<core::Completed>(), nullptr);
}

TEST_F(WaitTest, WaitersAreToldOfTheNewHolder) {
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  const auto first = Wait("e", "first");
  const auto second = Wait("e", "second", absl::Seconds(5));
  const size_t reads = h_.observer.read_batches();
  h_.Abandon(MakeAbandon("e", claim)).Get();
  ASSERT_NE(first.GetIf<core::Granted>(), nullptr);
  ASSERT_TRUE(h_.observer.WaitFor([&] { return h_.observer.read_batches() >= reads + 2; }));
  h_.timing.Advance(absl::Seconds(5));
  ASSERT_NE(second.GetIf<core::InProgress>(), nullptr);
  EXPECT_EQ(second.GetIf<core::InProgress>()->consumer, "first");
}

TEST_F(WaitTest, LapsedLeaseIsTakenOverOnTimeAndTellsTheEarlierAttempt) {
  BeginCall owner = MakeBegin("e", "owner");
  owner.request.lease = absl::Milliseconds(730);
  const auto owned = h_.Begin(std::move(owner));
  ASSERT_NE(owned.GetIf<core::Granted>(), nullptr);
  const auto waiter = Wait("e", "b");
  const absl::Time start = h_.timing.Now();
  ASSERT_TRUE(h_.RunUntil([&] { return waiter.given(); }));
  ASSERT_NE(waiter.GetIf<core::Granted>(), nullptr) << Said(waiter);
  ASSERT_TRUE(waiter.GetIf<core::Granted>()->earlier_attempt.has_value());
  EXPECT_EQ(waiter.GetIf<core::Granted>()->earlier_attempt->consumer, "owner");
  EXPECT_LE(h_.timing.Now() - start, absl::Milliseconds(800));
}

TEST_F(WaitTest, LapsedLeaseIsInDoubtWhereThePolicySaysSo) {
  BeginCall owner = MakeBegin("e", "owner");
  owner.request.lease = absl::Seconds(1);
  h_.Begin(std::move(owner)).Get();
  BeginCall call = MakeBegin("e", "b", kLong);
  call.request.on_lapse = core::LapsePolicy::kInDoubt;
  const auto waiter = h_.Begin(std::move(call));
  ASSERT_TRUE(h_.observer.WaitForWaiters(1));
  ASSERT_TRUE(h_.RunUntil([&] { return waiter.given(); }));
  EXPECT_NE(waiter.GetIf<core::InDoubt>(), nullptr);
}

TEST_F(WaitTest, RetryDelayIsWaitedFor) {
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  h_.Abandon(MakeAbandon("e", claim, /*forget=*/false, absl::Seconds(5))).Get();
  const absl::Time start = h_.timing.Now();
  const auto waiter = Wait("e", "b");
  ASSERT_TRUE(h_.RunUntil([&] { return waiter.given(); }));
  EXPECT_NE(waiter.GetIf<core::Granted>(), nullptr);
  EXPECT_GE(h_.timing.Now() - start, absl::Seconds(5) - absl::Milliseconds(1));
  EXPECT_LE(h_.timing.Now() - start, absl::Seconds(5) + absl::Milliseconds(100));
}

TEST_F(WaitTest, RenewalMovesTheTakeOver) {
  BeginCall owner = MakeBegin("e", "owner");
  owner.request.lease = absl::Seconds(2);
  const auto owned = h_.Begin(std::move(owner));
  const auto waiter = Wait("e", "b");
  const absl::Time start = h_.timing.Now();
  h_.Renew(MakeRenew("e", owned.GetIf<core::Granted>()->claim, absl::Seconds(10))).Get();
  ASSERT_TRUE(h_.RunUntil([&] { return waiter.given(); }));
  EXPECT_NE(waiter.GetIf<core::Granted>(), nullptr);
  EXPECT_GE(h_.timing.Now() - start, absl::Seconds(9.9));
}

TEST_F(WaitTest, SameAttemptWaitingTwiceIsGrantedTheSameClaim) {
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  const auto first = Wait("e", "b");
  const auto transport_retry = Wait("e", "b");
  h_.Abandon(MakeAbandon("e", claim)).Get();
  ASSERT_NE(first.GetIf<core::Granted>(), nullptr);
  ASSERT_NE(transport_retry.GetIf<core::Granted>(), nullptr);
  EXPECT_EQ(first.GetIf<core::Granted>()->claim.fence,
            transport_retry.GetIf<core::Granted>()->claim.fence);
}

TEST_F(WaitTest, LookupWaitsForCompletion) {
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  const auto lookup = h_.Lookup(MakeLookup("e", kLong));
  ASSERT_TRUE(h_.observer.WaitForWaiters(1));
  h_.Complete(MakeComplete("e", claim, "done")).Get();
  EXPECT_NE(lookup.GetIf<core::Completed>(), nullptr);
}

TEST_F(WaitTest, LookupsWaitEndsInProgress) {
  h_.Claim("e", "owner");
  const auto lookup = h_.Lookup(MakeLookup("e", absl::Seconds(3)));
  ASSERT_TRUE(h_.observer.WaitForWaiters(1));
  h_.timing.Advance(absl::Seconds(3));
  ASSERT_NE(lookup.GetIf<core::InProgress>(), nullptr);
  EXPECT_NEAR(absl::ToDoubleSeconds(lookup.GetIf<core::InProgress>()->lease_remaining), 27.0, 0.01);
}

TEST_F(WaitTest, LookupIsToldWhenNobodyHoldsTheClaimAnyMore) {
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  const auto lookup = h_.Lookup(MakeLookup("e", kLong));
  ASSERT_TRUE(h_.observer.WaitForWaiters(1));
  h_.Abandon(MakeAbandon("e", claim)).Get();
  EXPECT_NE(lookup.GetIf<core::Unclaimed>(), nullptr);
}

// ---- A8: many on one key ----

size_t Threads() {
  namespace fs = std::filesystem;
  return static_cast<size_t>(
      std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator{}));
}

TEST_F(WaitTest, TwoThousandWaitersCostNoThreadNoConnectionAndOneBegin) {
  constexpr size_t kWaiters = 2000;
  const core::ClaimInfo claim = h_.Claim("hot", "owner");
  Wait("hot", "w0");  // the poller has connected
  Tick();
  // Two committers with a control session, the reader, the reader of bodies, the poller.
  ASSERT_TRUE(h_.observer.WaitFor([&] { return h_.store().open_sessions() >= 6; }));
  const size_t threads = Threads();
  const int sessions = h_.store().open_sessions();
  std::vector<Answer<core::BeginOutcome>> waiters;
  for (size_t i = 1; i < kWaiters; ++i) {
    waiters.push_back(h_.Begin("hot", absl::StrCat("w", i), kLong));
  }
  ASSERT_TRUE(h_.observer.WaitForWaiters(kWaiters));
  EXPECT_EQ(Threads(), threads);
  EXPECT_EQ(h_.store().open_sessions(), sessions);
  EXPECT_EQ(h_.store().open_transactions(), 0);
  for (int i = 0; i < 100; ++i) {
    ASSERT_NE(h_.Begin(absl::StrCat("unrelated", i), "a").GetIf<core::Granted>(), nullptr);
  }
  const size_t logged = h_.store().Attempts(Harness::KeyOf("hot")).size();
  h_.Abandon(MakeAbandon("hot", claim)).Get();
  ASSERT_TRUE(h_.observer.WaitForWaiters(kWaiters - 1));
  EXPECT_EQ(h_.store().Attempts(Harness::KeyOf("hot")).size(), logged + 2);
  const core::ClaimInfo second = h_.store().Row(Harness::KeyOf("hot"))->claim;
  EXPECT_EQ(second.consumer, "w0") << "the first by arrival";
  h_.Complete(MakeComplete("hot", second, "done")).Get();
  for (const auto& waiter : waiters) ASSERT_NE(waiter.GetIf<core::Completed>(), nullptr);
  ASSERT_TRUE(h_.observer.WaitForWaiters(0));
  h_.Stop();
  for (const auto& waiter : waiters) ASSERT_EQ(waiter.answers(), 1);
}

TEST_F(WaitTest, RoomIsBounded) {
  h_.options.max_waiters = 3;
  h_.Claim("e", "owner");
  const auto first = Wait("e", "b");
  Wait("e", "c");
  Wait("e", "d");
  EXPECT_EQ(h_.Begin("e", "e", kLong).Reason(), ErrorReason::kOverloaded);
  EXPECT_EQ(h_.Lookup(MakeLookup("e", kLong)).Reason(), ErrorReason::kOverloaded);
  h_.timing.Advance(kLong);
  EXPECT_NE(first.GetIf<core::InProgress>(), nullptr);
  ASSERT_TRUE(h_.observer.WaitForWaiters(0));
  Wait("e", "f", absl::Seconds(1));
}

TEST_F(WaitTest, TenantHasAShareOfTheRoom) {
  h_.options.max_waiters_per_tenant = 2;
  h_.Claim("e", "owner");
  Wait("e", "b");
  Wait("e", "c");
  EXPECT_EQ(h_.Begin("e", "d", kLong).Reason(), ErrorReason::kQuotaExceeded);
  BeginCall other = MakeBegin("e", "owner");
  other.info.tenant = {8};
  ASSERT_NE(h_.Begin(std::move(other)).GetIf<core::Granted>(), nullptr);
  BeginCall waiting = MakeBegin("e", "b", kLong);
  waiting.info.tenant = {8};
  const auto of_other = h_.Begin(std::move(waiting));
  EXPECT_TRUE(h_.observer.WaitForWaiters(3));
  EXPECT_FALSE(of_other.given());
}

// ---- leaving, faults ----

TEST_F(WaitTest, CancelledWaitersLeave) {
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  BeginCall call = MakeBegin("e", "gone", kLong);
  call.info.cancellation = std::make_shared<Cancellation>();
  const auto cancellation = call.info.cancellation;
  const auto gone = h_.Begin(std::move(call));
  ASSERT_TRUE(h_.observer.WaitForWaiters(1));
  const auto stays = Wait("e", "stays");
  cancellation->cancelled = true;
  // Released before anyone noticed that the first one left: it must not be granted.
  h_.Abandon(MakeAbandon("e", claim)).Get();
  ASSERT_NE(stays.GetIf<core::Granted>(), nullptr);
  h_.timing.Advance(absl::Milliseconds(200));
  EXPECT_EQ(gone.Reason(), ErrorReason::kDeadlineExceeded);
  EXPECT_TRUE(h_.observer.WaitForWaiters(0));
}

TEST_F(WaitTest, NextWaiterTriesWhenTheFirstOnesTransactionFails) {
  h_.options.committers = 1;
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  const auto first = Wait("e", "first");
  const auto second = Wait("e", "second");
  h_.faults().Next(FaultPoint::kWrite, Fault::kInternal, /*times=*/1, /*skip=*/1);
  h_.Abandon(MakeAbandon("e", claim)).Get();
  EXPECT_EQ(first.Reason(), ErrorReason::kInternal);
  EXPECT_NE(second.GetIf<core::Granted>(), nullptr);
}

TEST_F(WaitTest, LoserAgainstAnotherServerGoesBackToItsPlace) {
  h_.options.committers = 1;
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  const auto first = Wait("e", "first");
  const auto second = Wait("e", "second");
  // Between the read that says "released" and the Begin, another server takes the claim.
  core::OperationRow taken = *h_.store().Row(Harness::KeyOf("e"));
  taken.claim.consumer = "elsewhere";
  taken.claim.attempt = AttemptOf("elsewhere");
  taken.claim.fence.value += 1'000'000;
  taken.claims = 2;
  std::atomic<int> touches{0};
  h_.faults().SetHook([&](const test::FaultSite& site) {
    if (site.point == FaultPoint::kTouchAndRead && ++touches == 2) {
      h_.store().PutRow(Harness::KeyOf("e"), taken);
    }
    return Fault::kNone;
  });
  const size_t batches = h_.observer.batches().size();
  h_.Abandon(MakeAbandon("e", claim)).Get();
  // The Begin's transaction has to be over too: what it writes must not come after their
  // completion.
  ASSERT_TRUE(h_.observer.WaitFor([&] { return h_.observer.batches().size() >= batches + 2; }));
  ASSERT_EQ(touches, 2);
  const size_t reads = h_.observer.read_batches();
  Tick();
  ASSERT_TRUE(h_.observer.WaitFor([&] { return h_.observer.read_batches() > reads; }));
  EXPECT_FALSE(first.given());
  EXPECT_FALSE(second.given());
  h_.faults().Clear();
  CompleteElsewhere("e", "theirs");
  ASSERT_TRUE(h_.RunUntil([&] { return first.given() && second.given(); }));
  EXPECT_NE(first.GetIf<core::Completed>(), nullptr);
  EXPECT_NE(second.GetIf<core::Completed>(), nullptr);
}

TEST_F(WaitTest, FullQueueSendsTheWaiterBackToWait) {
  h_.options.committers = 1;
  h_.options.max_queue_calls = 2;
  h_.Claim("e", "owner");
  const auto waiter = Wait("e", "b");
  h_.StopCommits();
  const auto holder = h_.Begin("holder", "a");
  ASSERT_TRUE(h_.faults().WaitUntilStopped());
  const auto queued1 = h_.Begin("q1", "a");
  const auto queued2 = h_.Begin("q2", "a");
  const size_t reads = h_.observer.read_batches();
  h_.store().DeleteRow(Harness::KeyOf("e"));
  Tick();
  ASSERT_TRUE(h_.observer.WaitFor([&] { return h_.observer.read_batches() > reads; }));
  EXPECT_FALSE(waiter.given());
  h_.faults().Open();
  EXPECT_NE(queued2.GetIf<core::Granted>(), nullptr);
  ASSERT_TRUE(h_.RunUntil([&] { return waiter.given(); }));
  EXPECT_NE(waiter.GetIf<core::Granted>(), nullptr);
}

TEST_F(WaitTest, WaitsEndOnTimeWhileTheDatabaseHangs) {
  h_.Claim("e", "owner");
  const auto waiter = Wait("e", "b", absl::Seconds(2));
  h_.faults().Close(FaultPoint::kRead);
  Tick();
  ASSERT_TRUE(h_.faults().WaitUntilStopped());
  h_.timing.Advance(absl::Seconds(2));
  EXPECT_NE(waiter.GetIf<core::InProgress>(), nullptr) << Said(waiter);
  h_.faults().Open();
}

TEST_F(WaitTest, WaitersSurviveAnOutageOfReads) {
  h_.Claim("e", "owner");
  const auto waiter = Wait("e", "b");
  h_.faults().Next(FaultPoint::kRead, Fault::kUnavailable, 5);
  h_.faults().Next(FaultPoint::kOpen, Fault::kUnavailable, 3);
  CompleteElsewhere("e", "done");
  ASSERT_TRUE(h_.RunUntil([&] { return waiter.given(); }));
  EXPECT_NE(waiter.GetIf<core::Completed>(), nullptr);
}

TEST_F(WaitTest, UnknownCommitOfTheWokenBeginIsResolved) {
  h_.options.committers = 1;
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  const auto waiter = Wait("e", "b");
  h_.faults().Next(FaultPoint::kCommit, Fault::kUnknownDone, /*times=*/1, /*skip=*/1);
  h_.Abandon(MakeAbandon("e", claim)).Get();
  ASSERT_NE(waiter.GetIf<core::Granted>(), nullptr) << Said(waiter);
  EXPECT_EQ(waiter.GetIf<core::Granted>()->claim, h_.store().Row(Harness::KeyOf("e"))->claim);
}

}  // namespace
}  // namespace once::pipeline
