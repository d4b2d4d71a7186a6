// Committers that share a shard: one works on the next transaction while the other commits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "unit/pipeline/harness.h"

namespace once::pipeline {
namespace {

using test::Fault;
using test::FaultPoint;

class OverlapTest : public ::testing::Test {
 protected:
  OverlapTest() {
    h_.options.committers = 1;
    h_.options.sessions_per_committer = 2;
  }

  // Until there is another hook.
  void MakeCommitsSlow() {
    h_.faults().SetHook([this](const test::FaultSite& site) {
      if (site.point == FaultPoint::kCommit) h_.timing.Advance(absl::Milliseconds(10));
      return Fault::kNone;
    });
    h_.Claim("slow", "a");
    h_.faults().SetHook([](const test::FaultSite&) { return Fault::kNone; });
  }

  // Begins "e" and, when its transaction runs, `second`, which waits behind it in the queue.
  // Commits are stopped. `otherwise` answers for all that the transactions meet.
  std::pair<Answer<core::BeginOutcome>, Answer<core::BeginOutcome>> BeginBehind(
      BeginCall second,
      test::FaultScript::Hook otherwise = [](const test::FaultSite&) { return Fault::kNone; }) {
    h_.faults().SetHook([this, otherwise = std::move(otherwise)](const test::FaultSite& site) {
      if (site.point == FaultPoint::kTouchAndRead && ++transactions_ == 1) {
        behind_.WaitForNotification();
      }
      return otherwise(site);
    });
    h_.StopCommits();
    const auto first = h_.Begin("e", "a");
    EXPECT_TRUE(h_.observer.WaitFor([this] { return transactions_ == 1; }));
    const auto behind = h_.Begin(std::move(second));
    behind_.Notify();
    return {first, behind};
  }

  absl::Notification behind_;
  std::atomic<int> transactions_{0};
  Harness h_;
};

TEST_F(OverlapTest, NextTransactionIsWrittenWhileASlowCommitRuns) {
  MakeCommitsSlow();
  const auto [first, second] = BeginBehind(MakeBegin("f", "a"));
  EXPECT_TRUE(h_.faults().WaitUntilStopped(2)) << "both stand right before their commit";
  h_.faults().Open();
  EXPECT_NE(first.GetIf<core::Granted>(), nullptr);
  EXPECT_NE(second.GetIf<core::Granted>(), nullptr);
}

TEST_F(OverlapTest, CallsGatherWhileAQuickCommitRuns) {
  const auto [first, second] = BeginBehind(MakeBegin("f", "a"));
  ASSERT_TRUE(h_.faults().WaitUntilStopped(1));
  EXPECT_EQ(transactions_, 1);
  h_.faults().Open();
  EXPECT_NE(first.GetIf<core::Granted>(), nullptr);
  EXPECT_NE(second.GetIf<core::Granted>(), nullptr);
}

TEST_F(OverlapTest, KeyOfATransactionThatCommitsIsNotInTheNextOne) {
  MakeCommitsSlow();
  const auto [first, same_key] = BeginBehind(MakeBegin("e", "b"));
  ASSERT_TRUE(h_.faults().WaitUntilStopped(1));
  EXPECT_EQ(transactions_, 1);
  h_.faults().Open();
  EXPECT_NE(first.GetIf<core::Granted>(), nullptr);
  EXPECT_NE(same_key.GetIf<core::InProgress>(), nullptr);
}

TEST_F(OverlapTest, CommandsOnOneKeyKeepTheirOrderOverTransactions) {
  constexpr int kKeys = 20;
  constexpr int kRounds = 30;
  std::vector<core::ClaimInfo> claims;
  for (int k = 0; k < kKeys; ++k) claims.push_back(h_.Claim(absl::StrCat("e", k), "owner"));
  // Each renewal is longer than the one before: the last one must win, and conflicts must not
  // change that.
  h_.faults().Next(FaultPoint::kCommit, Fault::kAborted, /*times=*/5, /*skip=*/3);
  std::vector<Answer<core::RenewOutcome>> answers;
  for (int r = 1; r <= kRounds; ++r) {
    for (int k = 0; k < kKeys; ++k) {
      answers.push_back(h_.Renew(
          MakeRenew(absl::StrCat("e", k), claims[static_cast<size_t>(k)], absl::Seconds(100 + r))));
    }
  }
  ASSERT_TRUE(h_.RunUntil([&] {
    return std::all_of(answers.begin(), answers.end(), [](const auto& a) { return a.given(); });
  }));
  for (int k = 0; k < kKeys; ++k) {
    const auto row = h_.store().Row(Harness::KeyOf(absl::StrCat("e", k)));
    EXPECT_GT(row->claim.lease_expires - row->claim.begun, absl::Seconds(100 + kRounds - 1));
  }
}

TEST_F(OverlapTest, ManyThreadsLoseNoCall) {
  h_.pipeline();
  std::vector<std::thread> threads;
  std::atomic<int> granted{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string event = absl::StrCat("e", t, "-", i % 50);
        const auto begin = h_.Begin(event, absl::StrCat(t, "-", i));
        if (const auto* outcome = begin.GetIf<core::Granted>()) {
          ++granted;
          h_.Complete(MakeComplete(event, outcome->claim, "done")).Get();
        } else {
          EXPECT_NE(begin.GetIf<core::Completed>(), nullptr);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted, 200);
}

TEST_F(OverlapTest, LostConnectionOfOneIsNoHarmToTheOther) {
  h_.faults().Next(FaultPoint::kCommit, Fault::kUnavailable, 2);
  std::vector<Answer<core::BeginOutcome>> answers;
  for (int i = 0; i < 50; ++i) answers.push_back(h_.Begin(absl::StrCat("e", i), "a"));
  ASSERT_TRUE(h_.RunUntil([&] {
    return std::all_of(answers.begin(), answers.end(), [](const auto& a) { return a.given(); });
  }));
  for (const auto& answer : answers) EXPECT_NE(answer.GetIf<core::Granted>(), nullptr);
  EXPECT_TRUE(h_.pipeline().healthy());
}

TEST_F(OverlapTest, CommitterThatGaveUpBecomesHealthyAgainWithoutTheTurn) {
  h_.options.retry_window = absl::ZeroDuration();
  MakeCommitsSlow();
  std::atomic<bool> lost{false};
  const auto [first,
              second] = BeginBehind(MakeBegin("f", "a"), [&lost](const test::FaultSite& site) {
    const bool of_first = site.point == FaultPoint::kCommit && site.keys.front().event_id == "e";
    return of_first && !lost.exchange(true) ? Fault::kUnavailable : Fault::kNone;
  });
  ASSERT_TRUE(h_.faults().WaitUntilStopped(2));
  h_.faults().Open();
  // From now on the second committer waits for calls, and has the turn.
  EXPECT_EQ(first.Reason(), base::ErrorReason::kStoreUnavailable);
  EXPECT_NE(second.GetIf<core::Granted>(), nullptr);
  EXPECT_TRUE(h_.RunUntil([&] { return h_.pipeline().healthy(); }));
}

}  // namespace
}  // namespace once::pipeline
