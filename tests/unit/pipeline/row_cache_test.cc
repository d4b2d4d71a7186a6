// Duplicates that are answered from memory: what they are told, what is logged, what bounds them.
#include "pipeline/row_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
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

store::KnownOperation Completed(const std::string& event, const std::string& result) {
  store::KnownOperation operation;
  operation.key = {kTenant, {1}, event};
  operation.row.state = core::RowState::kCompleted;
  operation.row.receipt.emplace().result = result;
  return operation;
}

TEST(RowCacheTest, KeepsWhatWasUsedLastWithinItsBytes) {
  RowCache cache(size_t{16} * 20'000, absl::Hours(1));
  const absl::Time now = absl::UnixEpoch();
  const auto key = [](int i) { return CallKey{kTenant, kHandler, absl::StrCat("e", i)}; };
  for (int i = 0; i < 5000; ++i) {
    cache.Put(key(i), Completed(absl::StrCat("e", i), std::string(100, 'r')), now);
    EXPECT_NE(cache.Find(key(0), now), nullptr);  // in use all the time
  }
  EXPECT_LE(cache.bytes(), size_t{16} * 20'000);
  EXPECT_EQ(cache.Find(key(1), now), nullptr);
  EXPECT_NE(cache.Find(key(4999), now), nullptr);
}

TEST(RowCacheTest, ForgetsAfterItsTime) {
  RowCache cache(1 << 20, absl::Seconds(10));
  const absl::Time now = absl::UnixEpoch();
  const CallKey key{kTenant, kHandler, "e"};
  cache.Put(key, Completed("e", "r"), now);
  EXPECT_NE(cache.Find(key, now + absl::Seconds(9)), nullptr);
  EXPECT_EQ(cache.Find(key, now + absl::Seconds(10)), nullptr);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST(RowCacheTest, WhatIsTakenIsGone) {
  RowCache cache(1 << 20, absl::Seconds(10));
  const absl::Time now = absl::UnixEpoch();
  const CallKey key{kTenant, kHandler, "e"};
  cache.Put(key, Completed("e", "r"), now);
  EXPECT_NE(cache.Take(key, now), nullptr);
  EXPECT_EQ(cache.Take(key, now), nullptr);
  EXPECT_EQ(cache.bytes(), 0u);
  cache.Put(key, Completed("e", "r"), now);
  EXPECT_EQ(cache.Take(key, now + absl::Seconds(10)), nullptr) << "too old";
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST(RowCacheTest, WithoutBytesItKeepsNothing) {
  RowCache cache(0, absl::Hours(1));
  EXPECT_FALSE(cache.enabled());
  const CallKey key{kTenant, kHandler, "e"};
  cache.Put(key, Completed("e", "r"), absl::UnixEpoch());
  EXPECT_EQ(cache.Find(key, absl::UnixEpoch()), nullptr);
}

class RepeatTest : public ::testing::Test {
 protected:
  RepeatTest() {
    h_.options.committers = 1;
    h_.options.receipt_cache_bytes = 1 << 20;
  }

  void Complete(const std::string& event, const std::string& result) {
    const core::ClaimInfo claim = h_.Claim(event, "owner");
    h_.Complete(MakeComplete(event, claim, result)).Get();
  }

  std::vector<AttemptOutcome> Logged(const std::string& event) {
    std::vector<AttemptOutcome> outcomes;
    for (const auto& attempt : h_.store().Attempts(Harness::KeyOf(event))) {
      outcomes.push_back(attempt.entry.outcome);
    }
    return outcomes;
  }

  // From now on whoever reads a row from the database gets an error.
  void ForbidReads() {
    h_.faults().SetHook([](const test::FaultSite& site) {
      return site.point == FaultPoint::kRead ? Fault::kInternal : Fault::kNone;
    });
  }

  Harness h_;
};

TEST_F(RepeatTest, DurableModeCountsAndLogsEachDuplicateBeforeItsAnswer) {
  Complete("e", "result");
  h_.StopCommits();
  const auto again = h_.Begin("e", "b");
  ASSERT_TRUE(h_.faults().WaitUntilStopped());
  EXPECT_FALSE(again.given());
  h_.faults().Open();
  ASSERT_NE(again.GetIf<core::Completed>(), nullptr);
  EXPECT_EQ(h_.store().Row(Harness::KeyOf("e"))->deliveries, 2);
  EXPECT_THAT(Logged("e"), ElementsAre(AttemptOutcome::kGranted, AttemptOutcome::kCompleted,
                                       AttemptOutcome::kReplayed));
}

TEST_F(RepeatTest, LookupNeedsNoRead) {
  Complete("e", "result");
  ForbidReads();
  const auto found = h_.Lookup(MakeLookup("e"));
  ASSERT_NE(found.GetIf<core::Completed>(), nullptr);
  LookupCall other = MakeLookup("e");
  other.request.digest = DigestOf("other content");
  EXPECT_NE(h_.Lookup(std::move(other)).GetIf<core::Conflict>(), nullptr);
}

TEST_F(RepeatTest, NothingButCompletedOperationsComesIn) {
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  h_.Begin("e", "b").Get();
  ASSERT_NE(h_.Lookup(MakeLookup("e")).GetIf<core::InProgress>(), nullptr);
  h_.Abandon(MakeAbandon("e", claim)).Get();
  const auto granted = h_.Begin("e", "c");
  EXPECT_NE(granted.GetIf<core::Granted>(), nullptr);
}

class BufferedTest : public RepeatTest {
 protected:
  BufferedTest() { h_.options.attempt_log = core::AttemptLog::kBuffered; }
};

TEST_F(BufferedTest, DuplicateIsAnsweredAtOnceAndLoggedWithinTheWindow) {
  Complete("e", "result");
  h_.StopCommits();
  ASSERT_NE(h_.Begin("e", "b").GetIf<core::Completed>(), nullptr);
  ASSERT_NE(h_.Begin("e", "c").GetIf<core::Completed>(), nullptr);
  h_.faults().Open();
  const int64_t commits = h_.store().commits();
  ASSERT_TRUE(h_.RunUntil([&] { return Logged("e").size() == 4; }));
  EXPECT_EQ(h_.store().commits(), commits + 1);
  EXPECT_EQ(Logged("e").back(), AttemptOutcome::kReplayed);
}

TEST_F(BufferedTest, WhatTheDatabaseForgotIsSeenAfterTheTime) {
  Complete("e", "result");
  h_.store().DeleteRow(Harness::KeyOf("e"));
  EXPECT_NE(h_.Begin("e", "b").GetIf<core::Completed>(), nullptr);
  h_.timing.Advance(h_.options.receipt_cache_ttl);
  EXPECT_NE(h_.Begin("e", "b").GetIf<core::Granted>(), nullptr);
}

TEST_F(BufferedTest, LargeResultsAreReadEachTime) {
  Complete("e", std::string(5000, 'x'));
  const int64_t deliveries = h_.store().Row(Harness::KeyOf("e"))->deliveries;
  const auto again = h_.Begin("e", "b");
  ASSERT_NE(again.GetIf<core::Completed>(), nullptr);
  EXPECT_EQ(again.GetIf<core::Completed>()->receipt.result->size(), 5000u);
  EXPECT_EQ(h_.store().Row(Harness::KeyOf("e"))->deliveries, deliveries + 1);
}

TEST_F(BufferedTest, TenantsDoNotShareReceipts) {
  Complete("e", "result");
  BeginCall other = MakeBegin("e", "b");
  other.info.tenant = {8};
  EXPECT_NE(h_.Begin(std::move(other)).GetIf<core::Granted>(), nullptr);
}

TEST_F(BufferedTest, OtherContentIsAConflictFromMemoryToo) {
  Complete("e", "result");
  BeginCall call = MakeBegin("e", "b");
  call.request.digest = DigestOf("other content");
  const auto conflict = h_.Begin(std::move(call));
  ASSERT_NE(conflict.GetIf<core::Conflict>(), nullptr);
  EXPECT_EQ(conflict.GetIf<core::Conflict>()->state, core::OperationState::kCompleted);
  ASSERT_TRUE(h_.RunUntil([&] { return Logged("e").size() == 3; }));
  EXPECT_EQ(Logged("e").back(), AttemptOutcome::kConflict);
  EXPECT_EQ(h_.store().Row(Harness::KeyOf("e"))->deliveries, 1) << "the row was touched";
}

TEST_F(BufferedTest, ClaimsAndCompletionsAreLoggedInTheirTransaction) {
  Complete("e", "result");
  EXPECT_THAT(Logged("e"), ElementsAre(AttemptOutcome::kGranted, AttemptOutcome::kCompleted));
}

TEST_F(BufferedTest, DrainWritesWhatIsLeft) {
  Complete("e", "result");
  ASSERT_NE(h_.Begin("e", "b").GetIf<core::Completed>(), nullptr);
  h_.pipeline().Drain(h_.timing.Now() + absl::Seconds(5));
  EXPECT_EQ(Logged("e").size(), 3u);
  EXPECT_EQ(h_.observer.attempts_lost(), 0u);
}

TEST_F(BufferedTest, EntriesSurviveLostConnectionsAndUnknownCommits) {
  Complete("e", "result");
  h_.faults().Next(FaultPoint::kCommit, Fault::kUnknownDone);
  ASSERT_NE(h_.Begin("e", "b").GetIf<core::Completed>(), nullptr);
  ASSERT_TRUE(h_.RunUntil([&] { return h_.observer.store_errors() == 1; }));
  h_.pipeline().Drain(h_.timing.Now() + absl::Seconds(5));
  EXPECT_EQ(Logged("e").size(), 3u) << "once, though the transaction ran twice";
  EXPECT_EQ(h_.observer.attempts_lost(), 0u);
}

TEST_F(BufferedTest, EntriesThatCannotBeWrittenAreCounted) {
  Complete("e", "result");
  h_.faults().Next(FaultPoint::kCommit, Fault::kUnavailable, 1000);
  ASSERT_NE(h_.Begin("e", "b").GetIf<core::Completed>(), nullptr);
  h_.pipeline().Drain(h_.timing.Now());
  EXPECT_EQ(h_.observer.attempts_lost(), 1u);
}

class KnownClaimTest : public RepeatTest {
 protected:
  KnownClaimTest() { h_.options.claim_cache_bytes = 1 << 20; }

  // Rows that transactions asked for, by event.
  void CountReads() {
    h_.faults().SetHook([this](const test::FaultSite& site) {
      if (site.point == FaultPoint::kTouchAndRead) {
        for (const core::OperationKey& key : site.keys) read_.insert(key.event_id);
      }
      return Fault::kNone;
    });
  }

  std::multiset<std::string> read_;
};

TEST_F(KnownClaimTest, CompletionsOfOwnClaimsReadOneRowForTheTime) {
  std::vector<core::ClaimInfo> claims;
  for (int i = 0; i < 5; ++i) claims.push_back(h_.Claim(absl::StrCat("e", i), "owner"));
  h_.StopCommits();
  const auto holder = h_.Begin("holder", "a");
  ASSERT_TRUE(h_.faults().WaitUntilStopped());
  CountReads();
  std::vector<Answer<core::CompleteOutcome>> answers;
  for (size_t i = 0; i < claims.size(); ++i) {
    answers.push_back(h_.Complete(MakeComplete(absl::StrCat("e", i), claims[i], "done")));
  }
  h_.faults().Open();
  for (const auto& answer : answers) {
    ASSERT_NE(answer.GetIf<core::Completed>(), nullptr);
    EXPECT_FALSE(answer.GetIf<core::Completed>()->replayed);
  }
  EXPECT_THAT(read_, ElementsAre("e0"));
  for (int i = 0; i < 5; ++i) {
    const auto row = h_.store().Row(Harness::KeyOf(absl::StrCat("e", i)));
    EXPECT_EQ(row->state, core::RowState::kCompleted);
    EXPECT_GT(row->receipt->completed, row->claim.begun);
  }
}

TEST_F(KnownClaimTest, ClaimThatAnotherServerTookIsLost) {
  const core::ClaimInfo mine = h_.Claim("e", "owner");
  const core::ClaimInfo other = h_.Claim("f", "owner");
  core::OperationRow taken = *h_.store().Row(Harness::KeyOf("e"));
  taken.claim.consumer = "elsewhere";
  taken.claim.attempt = AttemptOf("elsewhere");
  taken.claim.fence.value += 1'000'000;
  h_.store().PutRow(Harness::KeyOf("e"), taken);
  // Both in one transaction, so that the lost one is decided on what is known of it.
  h_.StopCommits();
  const auto holder = h_.Begin("holder", "a");
  ASSERT_TRUE(h_.faults().WaitUntilStopped());
  const auto good = h_.Complete(MakeComplete("d-f", other, "x"));
  const auto kept = h_.Complete(MakeComplete("f", other, "done"));
  const auto lost = h_.Complete(MakeComplete("e", mine, "done"));
  h_.faults().Open();
  ASSERT_NE(lost.GetIf<core::ClaimLost>(), nullptr);
  EXPECT_NE(kept.GetIf<core::Completed>(), nullptr);
  EXPECT_NE(good.GetIf<core::NotFound>(), nullptr);
  EXPECT_EQ(h_.store().Row(Harness::KeyOf("e"))->state, core::RowState::kClaimed);
  EXPECT_GE(h_.observer.retries("aborted"), 1);
}

TEST_F(KnownClaimTest, OperationThatWasCompletedElsewhereKeepsItsReceipt) {
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  const core::ClaimInfo other = h_.Claim("f", "owner");
  core::OperationRow row = *h_.store().Row(Harness::KeyOf("e"));
  row.state = core::RowState::kCompleted;
  row.receipt.emplace().result = "theirs";
  row.receipt->fingerprint = core::FingerprintOf(core::ReceiptStatus::kSucceeded, "", "theirs");
  h_.store().PutRow(Harness::KeyOf("e"), row);
  h_.StopCommits();
  const auto holder = h_.Begin("holder", "a");
  ASSERT_TRUE(h_.faults().WaitUntilStopped());
  const auto kept = h_.Complete(MakeComplete("d", other, "x"));
  const auto late = h_.Complete(MakeComplete("e", claim, "mine"));
  h_.faults().Open();
  ASSERT_NE(late.GetIf<core::CompletionConflict>(), nullptr);
  EXPECT_EQ(h_.store().Row(Harness::KeyOf("e"))->receipt->result, "theirs");
}

TEST_F(KnownClaimTest, RepeatedCompleteIsAnsweredFromItsReceipt) {
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  const auto first = h_.Complete(MakeComplete("e", claim, "done"));
  ASSERT_NE(first.GetIf<core::Completed>(), nullptr);
  const auto again = h_.Complete(MakeComplete("e", claim, "done"));
  ASSERT_NE(again.GetIf<core::Completed>(), nullptr);
  EXPECT_TRUE(again.GetIf<core::Completed>()->replayed);
  EXPECT_EQ(again.GetIf<core::Completed>()->receipt.completed,
            first.GetIf<core::Completed>()->receipt.completed);
  const auto other = h_.Complete(MakeComplete("e", claim, "other"));
  EXPECT_NE(other.GetIf<core::CompletionConflict>(), nullptr);
}

TEST_F(KnownClaimTest, UnknownCommitOfACompletionIsResolved) {
  const core::ClaimInfo claim = h_.Claim("e", "owner");
  h_.faults().Next(FaultPoint::kCommit, Fault::kUnknownDone);
  const auto completed = h_.Complete(MakeComplete("e", claim, "done"));
  ASSERT_NE(completed.GetIf<core::Completed>(), nullptr);
  EXPECT_EQ(h_.store().Row(Harness::KeyOf("e"))->receipt->result, "done");
}

}  // namespace
}  // namespace once::pipeline
