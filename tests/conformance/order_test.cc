// Order among the operations of an aggregate: versions that are overtaken, one at a time.
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "conformance/harness.h"

namespace once::conformance {
namespace {

using store::AttemptOutcome;
using ::testing::ElementsAre;
using ::testing::Gt;

class OrderTest : public OperationTest {
 protected:
  core::BeginRequest Ordered(int64_t version, std::string aggregate = "account-1") {
    core::BeginRequest request = BeginOf(NewAttempt());
    request.order = core::OrderRequest{.aggregate_id = std::move(aggregate),
                                       .version = version,
                                       .guards_versions = guards_versions_,
                                       .one_at_a_time = one_at_a_time_};
    return request;
  }
  core::ClaimInfo ClaimVersion(absl::string_view event, int64_t version) {
    return Get<core::Granted>(Begin(Key(event), Ordered(version))).claim;
  }
  core::ClaimInfo CompleteVersion(absl::string_view event, int64_t version) {
    const core::ClaimInfo claim = ClaimVersion(event, version);
    Get<core::Completed>(Complete(Key(event), CompleteOf(claim)));
    return claim;
  }

  bool guards_versions_ = true;
  bool one_at_a_time_ = false;
};
ONCE_OPERATION_SUITE(OrderTest);

TEST_P(OrderTest, AnOvertakenVersionIsStaleAndLeavesOnlyItsLogEntry) {
  CompleteVersion("five", 5);

  const auto stale = Get<core::Stale>(Begin(Key("four"), Ordered(4)));

  EXPECT_EQ(stale.aggregate_id, "account-1");
  EXPECT_EQ(stale.current_version, 5);
  EXPECT_EQ(stale.current_event_id, "five");
  EXPECT_FALSE(Row(Key("four")).has_value());
  EXPECT_THAT(LoggedOutcomes(Key("four")), testing::Contains(AttemptOutcome::kStale));
}

TEST_P(OrderTest, TheSameVersionOfAnotherEventIsStaleANewerOneIsNot) {
  CompleteVersion("five", 5);
  Get<core::Stale>(Begin(Key("five again"), Ordered(5)));
  ClaimVersion("six", 6);
}

TEST_P(OrderTest, TheGreatestCompletedVersionCountsNotTheLast) {
  const core::ClaimInfo four = ClaimVersion("four", 4);
  CompleteVersion("five", 5);
  // It was granted before, and completes after.
  Get<core::Completed>(Complete(Key("four"), CompleteOf(four)));
  EXPECT_EQ(Get<core::Stale>(Begin(Key("other"), Ordered(5))).current_event_id, "five");
}

TEST_P(OrderTest, ADuplicateGetsItsReceiptWhateverIsDoneByThen) {
  CompleteVersion("four", 4);
  CompleteVersion("five", 5);
  EXPECT_TRUE(Get<core::Completed>(Begin(Key("four"), Ordered(4))).replayed);
  core::BeginRequest changed = Ordered(4);
  changed.digest = DigestOf("other content");
  Get<core::Conflict>(Begin(Key("four"), changed));
}

TEST_P(OrderTest, AReleasedOperationThatIsOvertakenDoesNotRunAgain) {
  const core::ClaimInfo four = ClaimVersion("four", 4);
  Get<core::Abandoned>(Abandon(Key("four"), ReleaseOf(four)));
  CompleteVersion("five", 5);
  const auto before = Row(Key("four"));
  Get<core::Stale>(Begin(Key("four"), Ordered(4)));
  const auto after = Row(Key("four"));
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(after->state, core::RowState::kReleased);
  EXPECT_EQ(after->claim, before->claim);
}

TEST_P(OrderTest, TheHoldersRepeatIsGrantedAgainWhateverIsDoneByThen) {
  const core::BeginRequest request = Ordered(4);
  const auto first = Get<core::Granted>(Begin(Key("four"), request));
  CompleteVersion("five", 5);
  EXPECT_EQ(Get<core::Granted>(Begin(Key("four"), request)).claim.fence, first.claim.fence);
}

TEST_P(OrderTest, EachAggregateAndEachHandlerHasAnOrderOfItsOwn) {
  CompleteVersion("five", 5);
  Get<core::Granted>(Begin(Key("elsewhere"), Ordered(1, "account-2")));
  core::OperationKey other_handler = Key("audit");
  other_handler.handler = NewHandler(other_handler.tenant);
  Get<core::Granted>(Begin(other_handler, Ordered(1)));
}

TEST_P(OrderTest, WithoutAnOrderNothingIsRefused) {
  CompleteVersion("five", 5);
  Get<core::Granted>(Begin(Key("four"), BeginOf(NewAttempt())));
}

TEST_P(OrderTest, IdsOfAggregatesAreBytes) {
  const std::string strange("a\0,:'\"\xff", 7);
  const core::OperationKey key = Key(strange);
  const auto granted = Get<core::Granted>(Begin(key, Ordered(7, strange)));
  Get<core::Completed>(Complete(key, CompleteOf(granted.claim)));
  EXPECT_EQ(Get<core::Stale>(Begin(Key("next"), Ordered(7, strange))).current_event_id, strange);
  Get<core::Granted>(Begin(Key("next"), Ordered(7, "A" + strange.substr(1))));
}

TEST_P(OrderTest, OneAtATimeTheSecondIsToldWhoHasToEnd) {
  one_at_a_time_ = true;
  const core::ClaimInfo first = ClaimVersion("one", 1);

  const auto busy = Get<core::InProgress>(Begin(Key("two"), Ordered(2)));

  EXPECT_EQ(busy.reason, core::InProgress::Reason::kAggregateBusy);
  EXPECT_EQ(busy.blocking_event_id, "one");
  EXPECT_EQ(busy.consumer, first.consumer);
  EXPECT_THAT(busy.lease_remaining, Gt(absl::ZeroDuration()));
  EXPECT_FALSE(Row(Key("two")).has_value());
  EXPECT_THAT(LoggedOutcomes(Key("two")), testing::Contains(AttemptOutcome::kInProgress));

  Get<core::Completed>(Complete(Key("one"), CompleteOf(first)));
  ClaimVersion("two", 2);
}

TEST_P(OrderTest, WhoeverGivesBackLetsTheNextRun) {
  one_at_a_time_ = true;
  const core::ClaimInfo first = ClaimVersion("one", 1);
  Get<core::Abandoned>(Abandon(Key("one"), ReleaseOf(first)));
  const core::ClaimInfo second = ClaimVersion("two", 2);
  // And now the first one has to wait.
  EXPECT_EQ(Get<core::InProgress>(Begin(Key("one"), Ordered(1))).blocking_event_id, "two");
  Get<core::Abandoned>(Abandon(Key("two"), ForgetOf(second)));
  ClaimVersion("one", 1);
}

TEST_P(OrderTest, ASilentAttemptBlocksUntilItsOutcomeIsKnown) {
  one_at_a_time_ = true;
  const core::ClaimInfo first = ClaimVersion("one", 1);
  Lapse(Key("one"));

  const auto busy = Get<core::InProgress>(Begin(Key("two"), Ordered(2)));
  EXPECT_EQ(busy.blocking_event_id, "one");
  EXPECT_EQ(busy.lease_remaining, absl::ZeroDuration());

  // Its own next attempt takes over, and ends it.
  const auto taken = Get<core::Granted>(Begin(Key("one"), Ordered(1)));
  EXPECT_EQ(taken.earlier_attempt->fence, first.fence);
  Get<core::Completed>(Complete(Key("one"), CompleteOf(taken.claim)));
  ClaimVersion("two", 2);
}

TEST_P(OrderTest, OneBatchDecidesItsCommandsOneAfterAnother) {
  one_at_a_time_ = true;
  const auto answers =
      Run({BeginCommand(Key("one"), Ordered(1)), BeginCommand(Key("two"), Ordered(2)),
           BeginCommand(Key("else"), Ordered(1, "account-2"))});
  const auto first = Get<core::Granted>(std::get<core::BeginOutcome>(answers.at(0)));
  EXPECT_EQ(Get<core::InProgress>(std::get<core::BeginOutcome>(answers.at(1))).blocking_event_id,
            "one");
  Get<core::Granted>(std::get<core::BeginOutcome>(answers.at(2)));

  const auto later =
      Run({CompleteCommand(Key("one"), CompleteOf(first.claim)),
           BeginCommand(Key("old"), Ordered(1)), BeginCommand(Key("two"), Ordered(2))});
  EXPECT_EQ(Get<core::Stale>(std::get<core::BeginOutcome>(later.at(1))).current_version, 1);
  Get<core::Granted>(std::get<core::BeginOutcome>(later.at(2)));
}

TEST_P(OrderTest, OrderedBeginsHaveTheirKeyAlone) {
  const auto answers =
      TryRun({BeginCommand(Key("one"), Ordered(1)), BeginCommand(Key("one"), Ordered(1))});
  EXPECT_EQ(answers.status().code(), absl::StatusCode::kInternal);
}

TEST_P(OrderTest, OrderOutlivesARestart) {
  CompleteVersion("five", 5);
  RestartServer();
  Get<core::Stale>(Begin(Key("four"), Ordered(4)));
}

// Sessions at once, on a few aggregates, completing and giving back: at no time two of one
// aggregate have a claim.
TEST_P(OrderTest, NeverTwoAtATimeOverManySessions) {
  constexpr int kSessions = 4;
  constexpr int kRounds = 40;
  one_at_a_time_ = true;
  guards_versions_ = false;
  std::array<std::atomic<int>, 3> running{};
  std::atomic<int> grants = 0;
  std::vector<std::thread> threads;
  for (int number = 0; number < std::min(kSessions, store().max_write_sessions()); ++number) {
    threads.emplace_back([&, number] {
      auto session = store().OpenWriteSession();
      ASSERT_TRUE(session.ok()) << session.status();
      const auto run = [&](const store::Command& command) -> std::optional<store::Answer> {
        for (int tries = 0; tries < 100; ++tries) {
          auto answers = store::RunBatch(**session, {&command, 1}, false);
          if (answers.ok()) return std::move(answers->at(0));
          if (!absl::IsAborted(answers.status())) {
            ADD_FAILURE() << answers.status();
            return std::nullopt;
          }
        }
        ADD_FAILURE() << "aborted too often";
        return std::nullopt;
      };
      for (int round = 0; round < kRounds; ++round) {
        const auto which = static_cast<size_t>((round + number) % 3);
        const core::OperationKey key = Key(absl::StrCat("e-", number, "-", round));
        core::BeginRequest request = BeginOf(AttemptNumber(1'000'000u + number * 1000u + round));
        request.order = core::OrderRequest{.aggregate_id = absl::StrCat("a", which),
                                           .version = round,
                                           .guards_versions = false,
                                           .one_at_a_time = true};
        const auto answer = run(BeginCommand(key, request));
        if (!answer.has_value()) return;
        const auto* granted = std::get_if<core::Granted>(&std::get<core::BeginOutcome>(*answer));
        if (granted == nullptr) continue;
        ++grants;
        EXPECT_EQ(running.at(which).fetch_add(1), 0) << "two at a time";
        // The work: another transaction, so that the others have time to go wrong.
        run(BeginCommand(Key(absl::StrCat("work-", number, "-", round)), BeginOf(request.attempt)));
        running.at(which).fetch_sub(1);
        if (round % 2 == 0) {
          run(CompleteCommand(key, CompleteOf(granted->claim)));
        } else {
          run(AbandonCommand(key, ReleaseOf(granted->claim)));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(grants.load(), 0);
}

}  // namespace
}  // namespace once::conformance
