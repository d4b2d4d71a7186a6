// Commands through queue, batch and transaction: order, batching, bounds, deadlines, bodies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/pipeline/harness.h"

namespace once::pipeline {
namespace {

using base::ErrorReason;
using test::Fault;
using test::FaultPoint;
using ::testing::ElementsAre;

class CommitTest : public ::testing::Test {
 protected:
  CommitTest() { h_.options.committers = 1; }

  // Holds the one committer in the transaction of a first call.
  Answer<core::BeginOutcome> HoldCommitter() {
    h_.StopCommits();
    auto answer = h_.Begin("holder", "holder");
    EXPECT_TRUE(h_.faults().WaitUntilStopped());
    return answer;
  }

  Harness h_;
};

TEST_F(CommitTest, AnswersComeFromCommittedRows) {
  const auto begin = h_.Begin("e", "a");
  ASSERT_NE(begin.GetIf<core::Granted>(), nullptr);
  const core::ClaimInfo claim = begin.GetIf<core::Granted>()->claim;
  EXPECT_EQ(h_.store().Row(Harness::KeyOf("e"))->claim.fence, claim.fence);
  EXPECT_NE(h_.Begin("e", "b").GetIf<core::InProgress>(), nullptr);
  EXPECT_NE(h_.Renew(MakeRenew("e", claim, absl::Seconds(60))).GetIf<core::Renewed>(), nullptr);
  const auto complete = h_.Complete(MakeComplete("e", claim, "done"));
  ASSERT_NE(complete.GetIf<core::Completed>(), nullptr);
  EXPECT_FALSE(complete.GetIf<core::Completed>()->replayed);
  const auto again = h_.Begin("e", "b");
  ASSERT_NE(again.GetIf<core::Completed>(), nullptr);
  EXPECT_EQ(again.GetIf<core::Completed>()->receipt.result, "done");
  EXPECT_NE(h_.Lookup(MakeLookup("e")).GetIf<core::Completed>(), nullptr);
}

TEST_F(CommitTest, UnknownHandlerIsNotFoundAndNotCreated) {
  EXPECT_NE(h_.Complete(MakeComplete("e", {}, "x")).GetIf<core::NotFound>(), nullptr);
  EXPECT_NE(h_.Abandon(MakeAbandon("e", {})).GetIf<core::NotFound>(), nullptr);
  EXPECT_NE(h_.Abandon(MakeAbandon("e", {}, /*forget=*/true)).GetIf<core::Abandoned>(), nullptr);
  EXPECT_NE(h_.Renew(MakeRenew("e", {}, absl::Seconds(1))).GetIf<core::NotFound>(), nullptr);
  EXPECT_NE(h_.Lookup(MakeLookup("e")).GetIf<core::NotFound>(), nullptr);
  auto control = h_.store().OpenControlSession();
  EXPECT_TRUE(
      absl::IsNotFound((*control)->InternHandler(kTenant, kHandler, /*create=*/false).status()));
}

TEST_F(CommitTest, CallsThatGatherDuringACommitShareTheNextOne) {
  const auto first = HoldCommitter();
  std::vector<Answer<core::BeginOutcome>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(h_.Begin(absl::StrCat("e", i), "a"));
  h_.faults().Open();
  for (const auto& answer : answers) EXPECT_NE(answer.GetIf<core::Granted>(), nullptr);
  EXPECT_NE(first.GetIf<core::Granted>(), nullptr);
  EXPECT_THAT(h_.observer.batches(), ElementsAre(1, 20));
}

TEST_F(CommitTest, BatchesAreBounded) {
  h_.options.max_batch_calls = 8;
  HoldCommitter();
  std::vector<Answer<core::BeginOutcome>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(h_.Begin(absl::StrCat("e", i), "a"));
  h_.faults().Open();
  for (const auto& answer : answers) EXPECT_NE(answer.GetIf<core::Granted>(), nullptr);
  EXPECT_THAT(h_.observer.batches(), ElementsAre(1, 8, 8, 4));
}

TEST_F(CommitTest, CommandsOnOneKeyRunInTheOrderOfTheirArrival) {
  const core::ClaimInfo claim = h_.Claim("e", "a");
  HoldCommitter();
  const auto renew = h_.Renew(MakeRenew("e", claim, absl::Seconds(60)));
  const auto before = h_.Begin("e", "b");
  const auto complete = h_.Complete(MakeComplete("e", claim, "done"));
  const auto after = h_.Begin("e", "c");
  const auto late = h_.Renew(MakeRenew("e", claim, absl::Seconds(60)));
  h_.faults().Open();
  EXPECT_NE(renew.GetIf<core::Renewed>(), nullptr);
  ASSERT_NE(before.GetIf<core::InProgress>(), nullptr);
  EXPECT_GT(before.GetIf<core::InProgress>()->lease_remaining, absl::Seconds(31));
  EXPECT_NE(complete.GetIf<core::Completed>(), nullptr);
  EXPECT_NE(after.GetIf<core::Completed>(), nullptr);
  EXPECT_NE(late.GetIf<core::ClaimLost>(), nullptr);
}

TEST_F(CommitTest, SameKeyTwiceInOneBatchIsGrantedOnce) {
  HoldCommitter();
  const auto first = h_.Begin("e", "a");
  const auto second = h_.Begin("e", "b");
  const auto retry = h_.Begin("e", "a");
  h_.faults().Open();
  ASSERT_NE(first.GetIf<core::Granted>(), nullptr);
  EXPECT_NE(second.GetIf<core::InProgress>(), nullptr);
  ASSERT_NE(retry.GetIf<core::Granted>(), nullptr);
  EXPECT_EQ(first.GetIf<core::Granted>()->claim.fence, retry.GetIf<core::Granted>()->claim.fence);
  EXPECT_EQ(h_.store().Attempts(Harness::KeyOf("e")).size(), 3u);
}

TEST_F(CommitTest, OneBadCommandDoesNotFailItsNeighbours) {
  HoldCommitter();
  const auto good1 = h_.Begin("e1", "a");
  BeginCall bad = MakeBegin("e2", "a");
  bad.request.consumer = std::string(1000, 'x');  // the store has no room for it
  const auto refused = h_.Begin(std::move(bad));
  const auto good2 = h_.Begin("e3", "a");
  h_.faults().Open();
  EXPECT_NE(good1.GetIf<core::Granted>(), nullptr);
  EXPECT_EQ(refused.Reason(), ErrorReason::kInternal);
  EXPECT_NE(good2.GetIf<core::Granted>(), nullptr);
  EXPECT_EQ(h_.observer.retries("split"), 1);
  EXPECT_FALSE(h_.store().Row(Harness::KeyOf("e2")).has_value());
  EXPECT_TRUE(h_.pipeline().healthy());
}

TEST_F(CommitTest, FullQueueIsOverloadedAtOnceAndRecovers) {
  h_.options.max_queue_calls = 5;
  HoldCommitter();
  std::vector<Answer<core::BeginOutcome>> queued;
  for (int i = 0; i < 5; ++i) queued.push_back(h_.Begin(absl::StrCat("q", i), "a"));
  for (int i = 0; i < 100; ++i) {
    const auto refused = h_.Begin(absl::StrCat("r", i), "a");
    ASSERT_TRUE(refused.given());
    ASSERT_EQ(refused.Reason(), ErrorReason::kOverloaded);
    ASSERT_TRUE(base::DetailsOf(refused.Get().status()).retry_delay.has_value());
  }
  h_.faults().Open();
  for (const auto& answer : queued) EXPECT_NE(answer.GetIf<core::Granted>(), nullptr);
  EXPECT_NE(h_.Begin("later", "a").GetIf<core::Granted>(), nullptr);
}

TEST_F(CommitTest, QueueIsBoundedByBytesToo) {
  h_.options.max_queue_bytes = 100'000;
  const core::ClaimInfo claim = h_.Claim("e", "a");
  HoldCommitter();
  const auto first = h_.Complete(MakeComplete("e", claim, std::string(60'000, 'x')));
  const auto second = h_.Complete(MakeComplete("e", claim, std::string(60'000, 'x')));
  EXPECT_EQ(second.Reason(), ErrorReason::kOverloaded);
  h_.faults().Open();
  EXPECT_NE(first.GetIf<core::Completed>(), nullptr);
}

// 4,000 calls on a database that stands still: all beyond the bound are refused early, all are
// answered once.
TEST_F(CommitTest, ManyCallsOnASlowDatabaseAreBounded) {
  h_.options.max_queue_calls = 1000;
  HoldCommitter();
  std::vector<Answer<core::BeginOutcome>> answers;
  for (int i = 0; i < 4000; ++i) answers.push_back(h_.Begin(absl::StrCat("e", i), "a"));
  int refused = 0;
  for (const auto& answer : answers) {
    if (answer.given()) ++refused;
  }
  EXPECT_EQ(refused, 3000);
  h_.faults().Open();
  int granted = 0;
  for (const auto& answer : answers) {
    if (answer.GetIf<core::Granted>() != nullptr) ++granted;
  }
  EXPECT_EQ(granted, 1000);
  h_.Stop();
  for (const auto& answer : answers) EXPECT_EQ(answer.answers(), 1);
}

// D2: 1,000 calls with 50 ms to live while the database takes seconds.
TEST_F(CommitTest, NothingStartsAfterItsDeadlineAndNothingPilesUp) {
  const auto first = HoldCommitter();
  std::vector<Answer<core::BeginOutcome>> answers;
  for (int i = 0; i < 1000; ++i) {
    BeginCall call = MakeBegin(absl::StrCat("e", i), "a");
    call.info.deadline = h_.timing.Now() + absl::Milliseconds(50);
    answers.push_back(h_.Begin(std::move(call)));
  }
  h_.timing.Advance(absl::Milliseconds(50));
  // Answered while the committer still hangs.
  for (const auto& answer : answers) EXPECT_EQ(answer.Reason(), ErrorReason::kDeadlineExceeded);
  h_.timing.Advance(absl::Seconds(5));
  h_.faults().Open();
  EXPECT_NE(first.GetIf<core::Granted>(), nullptr);
  EXPECT_NE(h_.Begin("later", "a").GetIf<core::Granted>(), nullptr);
  EXPECT_EQ(h_.store().commits(), 2);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(h_.store().Row(Harness::KeyOf(absl::StrCat("e", i))).has_value());
  }
}

TEST_F(CommitTest, CallThatIsLateOnArrivalIsRefused) {
  BeginCall call = MakeBegin("e", "a");
  call.info.deadline = h_.timing.Now();
  EXPECT_EQ(h_.Begin(std::move(call)).Reason(), ErrorReason::kDeadlineExceeded);
}

TEST_F(CommitTest, CancelledCallIsDroppedBeforeItsTransaction) {
  HoldCommitter();
  BeginCall call = MakeBegin("e", "a");
  call.info.cancellation = std::make_shared<Cancellation>();
  auto cancellation = call.info.cancellation;
  const auto cancelled = h_.Begin(std::move(call));
  const auto other = h_.Begin("other", "a");
  cancellation->cancelled = true;
  h_.faults().Open();
  EXPECT_EQ(cancelled.Reason(), ErrorReason::kDeadlineExceeded);
  EXPECT_NE(other.GetIf<core::Granted>(), nullptr);
  EXPECT_FALSE(h_.store().Row(Harness::KeyOf("e")).has_value());
}

TEST_F(CommitTest, LargeResultsComeWithTheirBodies) {
  const std::string result(100'000, 'r');
  const core::ClaimInfo claim = h_.Claim("e", "a");
  const auto complete = h_.Complete(MakeComplete("e", claim, result));
  ASSERT_NE(complete.GetIf<core::Completed>(), nullptr);
  EXPECT_EQ(complete.GetIf<core::Completed>()->receipt.result, result);
  const auto begin = h_.Begin("e", "b");
  ASSERT_NE(begin.GetIf<core::Completed>(), nullptr);
  EXPECT_EQ(begin.GetIf<core::Completed>()->receipt.result, result);
  const auto lookup = h_.Lookup(MakeLookup("e"));
  ASSERT_NE(lookup.GetIf<core::Completed>(), nullptr);
  EXPECT_EQ(lookup.GetIf<core::Completed>()->receipt.result, result);
  const auto conflict = h_.Complete(MakeComplete("e", claim, "another"));
  ASSERT_NE(conflict.GetIf<core::CompletionConflict>(), nullptr);
  EXPECT_EQ(conflict.GetIf<core::CompletionConflict>()->stored.receipt.result, result);
}

TEST_F(CommitTest, BodiesAreReadAgainAfterALostConnection) {
  const core::ClaimInfo claim = h_.Claim("e", "a");
  h_.Complete(MakeComplete("e", claim, std::string(2000, 'r'))).Get();
  h_.faults().Next(FaultPoint::kReadBodies, Fault::kUnavailable, /*times=*/3);
  const auto begin = h_.Begin("e", "b");
  ASSERT_TRUE(h_.RunUntil([&] { return begin.given(); }));
  ASSERT_NE(begin.GetIf<core::Completed>(), nullptr);
  EXPECT_EQ(begin.GetIf<core::Completed>()->receipt.result->size(), 2000u);
}

// Never a receipt with another operation's bytes, or with none.
TEST_F(CommitTest, BodyThatIsNotTheReceiptsOwnIsNotAnswered) {
  const core::ClaimInfo claim = h_.Claim("e", "a");
  h_.Complete(MakeComplete("e", claim, std::string(2000, 'r'))).Get();
  core::OperationRow row = *h_.store().Row(Harness::KeyOf("e"));
  row.receipt->result = std::string(2000, 's');
  h_.store().PutRow(Harness::KeyOf("e"), row);
  EXPECT_EQ(h_.Begin("e", "b").Reason(), ErrorReason::kStoreUnavailable);
}

TEST_F(CommitTest, SlowBodiesDoNotHoldUpCommitters) {
  const core::ClaimInfo claim = h_.Claim("e", "a");
  h_.Complete(MakeComplete("e", claim, std::string(2000, 'r'))).Get();
  h_.faults().Close(FaultPoint::kReadBodies);
  const auto replay = h_.Begin("e", "b");
  ASSERT_TRUE(h_.faults().WaitUntilStopped());
  EXPECT_NE(h_.Begin("other", "a").GetIf<core::Granted>(), nullptr);
  EXPECT_FALSE(replay.given());
  h_.faults().Open();
  EXPECT_NE(replay.GetIf<core::Completed>(), nullptr);
}

TEST_F(CommitTest, CommittersAreNoMoreThanTheStoreCanUse) {
  test::MemoryStore store({.clock = &h_.timing, .max_write_sessions = 1});
  Options options;
  options.committers = 16;
  auto pipeline = StartPipelineWithTiming(options, &store, &h_.timing, &h_.observer);
  // A committer, a reader, the reader of bodies; the poller connects when somebody waits.
  EXPECT_TRUE(h_.observer.WaitFor([&] { return store.sessions_opened() == 3; }));
}

TEST_F(CommitTest, KeysOfOneHandlerAreSharedOutOverCommittersAndReaders) {
  constexpr int kKeys = 40;
  h_.options.committers = 2;
  h_.options.readers = 2;
  h_.Claim("e0", "a");  // the handler has its number
  std::vector<Answer<core::BeginOutcome>> begins;
  h_.StopCommits();
  for (int i = 0; i < kKeys; ++i) begins.push_back(h_.Begin(absl::StrCat("e", i), "a"));
  EXPECT_TRUE(h_.faults().WaitUntilStopped(2));
  h_.faults().Open();
  for (const auto& begin : begins) EXPECT_NE(begin.GetIf<core::Granted>(), nullptr);

  std::vector<Answer<core::LookupOutcome>> lookups;
  h_.faults().Close(FaultPoint::kRead);
  for (int i = 0; i < kKeys; ++i) lookups.push_back(h_.Lookup(MakeLookup(absl::StrCat("e", i))));
  EXPECT_TRUE(h_.faults().WaitUntilStopped(2));
  h_.faults().Open();
  for (const auto& lookup : lookups) EXPECT_NE(lookup.GetIf<core::InProgress>(), nullptr);
}

TEST_F(CommitTest, ManyThreadsAndKeysKeepTheOrderOfEachKey) {
  h_.options.committers = 4;
  constexpr int kKeys = 50;
  std::vector<Answer<core::CompleteOutcome>> completes;
  std::vector<Answer<core::BeginOutcome>> replays;
  std::vector<core::ClaimInfo> claims;
  for (int i = 0; i < kKeys; ++i) claims.push_back(h_.Claim(absl::StrCat("e", i), "a"));
  for (int i = 0; i < kKeys; ++i) {
    completes.push_back(h_.Complete(
        MakeComplete(absl::StrCat("e", i), claims[static_cast<size_t>(i)], absl::StrCat(i))));
    replays.push_back(h_.Begin(absl::StrCat("e", i), "b"));
  }
  for (size_t i = 0; i < kKeys; ++i) {
    EXPECT_NE(completes[i].GetIf<core::Completed>(), nullptr);
    ASSERT_NE(replays[i].GetIf<core::Completed>(), nullptr);
    EXPECT_EQ(replays[i].GetIf<core::Completed>()->receipt.result, absl::StrCat(i));
  }
}

}  // namespace
}  // namespace once::pipeline
