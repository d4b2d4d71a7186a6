// Shutting down: everyone is answered, in time, with something true.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "unit/pipeline/harness.h"

namespace once::pipeline {
namespace {

using base::ErrorReason;
using test::Fault;
using test::FaultPoint;

class DrainTest : public ::testing::Test {
 protected:
  DrainTest() { h_.options.committers = 1; }
  Harness h_;
};

// D1: 500 calls wait, others are queued behind a transaction.
TEST_F(DrainTest, WaitingCallsHearInProgressAndQueuedOnesAreRun) {
  h_.Claim("e", "owner");
  std::vector<Answer<core::BeginOutcome>> waiters;
  for (int i = 0; i < 500; ++i) {
    waiters.push_back(h_.Begin("e", absl::StrCat("w", i), absl::Seconds(25)));
  }
  ASSERT_TRUE(h_.observer.WaitForWaiters(500));
  h_.StopCommits();
  std::vector<Answer<core::BeginOutcome>> queued = {h_.Begin("holder", "a")};
  ASSERT_TRUE(h_.faults().WaitUntilStopped());
  for (int i = 0; i < 50; ++i) queued.push_back(h_.Begin(absl::StrCat("q", i), "a"));
  const auto would_wait = h_.Begin("e", "late", absl::Seconds(25));

  std::thread drain([&] { h_.pipeline().Drain(h_.timing.Now() + absl::Seconds(10)); });
  for (const auto& waiter : waiters) {
    ASSERT_NE(waiter.GetIf<core::InProgress>(), nullptr);
    EXPECT_GT(waiter.GetIf<core::InProgress>()->lease_remaining, absl::Seconds(29));
  }
  EXPECT_EQ(h_.Begin("new", "a").Reason(), ErrorReason::kDraining);
  EXPECT_EQ(h_.Lookup(MakeLookup("e")).Reason(), ErrorReason::kDraining);
  h_.faults().Open();
  drain.join();
  for (const auto& call : queued) {
    ASSERT_TRUE(call.given()) << "Drain returned before everyone was answered";
    EXPECT_NE(call.GetIf<core::Granted>(), nullptr);
  }
  EXPECT_NE(would_wait.GetIf<core::InProgress>(), nullptr);
  h_.Stop();
  for (const auto& waiter : waiters) EXPECT_EQ(waiter.answers(), 1);
}

TEST_F(DrainTest, AtTheDeadlineQueuedCallsHearDrainingAndThoseInATransactionUnknown) {
  h_.StopCommits();
  const auto in_transaction = h_.Begin("holder", "a");
  ASSERT_TRUE(h_.faults().WaitUntilStopped());
  const auto queued = h_.Begin("q", "a");
  h_.pipeline().Drain(h_.timing.Now());
  ASSERT_TRUE(in_transaction.given());
  EXPECT_EQ(in_transaction.Reason(), ErrorReason::kOutcomeUnknown);
  EXPECT_EQ(queued.Reason(), ErrorReason::kDraining);
  h_.faults().Open();
  h_.Stop();
  EXPECT_EQ(in_transaction.answers(), 1);
  EXPECT_EQ(queued.answers(), 1);
  EXPECT_FALSE(h_.store().Row(Harness::KeyOf("q")).has_value());
}

TEST_F(DrainTest, DeadlineEndsRetriesToo) {
  h_.faults().SetHook([](const test::FaultSite& site) {
    return site.point == FaultPoint::kTouchAndRead ? Fault::kUnavailable : Fault::kNone;
  });
  const auto call = h_.Begin("e", "a");
  ASSERT_TRUE(h_.observer.WaitFor([&] { return h_.observer.retries("unavailable") >= 2; }));
  h_.pipeline().Drain(h_.timing.Now());
  EXPECT_TRUE(call.given());
  EXPECT_FALSE(call.Get().ok());
  h_.Stop();  // does not hang, although the clock stands still
}

TEST_F(DrainTest, LookupsAndBodiesThatHangAreAnsweredAtTheDeadline) {
  const core::ClaimInfo claim = h_.Claim("e", "a");
  h_.Complete(MakeComplete("e", claim, std::string(5000, 'r'))).Get();
  h_.faults().Close(FaultPoint::kReadBodies);
  const auto body = h_.Begin("e", "b");
  ASSERT_TRUE(h_.faults().WaitUntilStopped());
  h_.pipeline().Drain(h_.timing.Now());
  EXPECT_EQ(body.Reason(), ErrorReason::kDraining);
  h_.faults().Open();
}

TEST_F(DrainTest, DrainingTwiceAndWithoutCallsReturnsAtOnce) {
  h_.pipeline().Drain(absl::InfiniteFuture());
  h_.pipeline().Drain(absl::InfiniteFuture());
}

TEST_F(DrainTest, DestructionAnswersWhoeverIsInside) {
  h_.Claim("e", "owner");
  const auto waiter = h_.Begin("e", "b", absl::Seconds(25));
  ASSERT_TRUE(h_.observer.WaitForWaiters(1));
  h_.Stop();
  EXPECT_NE(waiter.GetIf<core::InProgress>(), nullptr);
}

// A woken waiter on its way through a committer is answered as well.
TEST_F(DrainTest, WaiterAtTheDoorIsAnswered) {
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  const auto first = h_.Begin("e", "first", absl::Seconds(25));
  ASSERT_TRUE(h_.observer.WaitForWaiters(1));
  const auto second = h_.Begin("e", "second", absl::Seconds(25));
  ASSERT_TRUE(h_.observer.WaitForWaiters(2));
  h_.Abandon(MakeAbandon("e", claim)).Get();
  h_.pipeline().Drain(absl::InfiniteFuture());
  ASSERT_TRUE(first.given());
  ASSERT_TRUE(second.given());
  // Whether the first one was woken in time is a race; that at most one was granted is not.
  EXPECT_TRUE(first.GetIf<core::Granted>() != nullptr ||
              first.GetIf<core::InProgress>() != nullptr);
  EXPECT_NE(second.GetIf<core::InProgress>(), nullptr);
}

// Calls come in from many threads while the door closes: each is answered once, and none after
// Drain returned.
TEST_F(DrainTest, RaceOfCallsAgainstDrainLosesNone) {
  constexpr int kThreads = 4;
  constexpr int kCalls = 500;
  h_.pipeline();
  std::vector<std::vector<Answer<core::BeginOutcome>>> answers(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        answers[static_cast<size_t>(t)].push_back(h_.Begin(absl::StrCat(t, "-", i), "a"));
      }
    });
  }
  h_.Begin("go", "a").Get();
  h_.pipeline().Drain(absl::InfiniteFuture());
  for (auto& thread : threads) thread.join();
  for (const auto& of_thread : answers) {
    for (const auto& answer : of_thread) {
      ASSERT_TRUE(answer.given());
      ASSERT_TRUE(answer.GetIf<core::Granted>() != nullptr ||
                  answer.Reason() == ErrorReason::kDraining);
    }
  }
}

}  // namespace
}  // namespace once::pipeline
