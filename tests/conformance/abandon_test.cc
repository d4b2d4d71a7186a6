// Giving a claim back: release and forget.
#include <string>

#include "absl/strings/str_cat.h"
#include "conformance/harness.h"

namespace once::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::Le;

class AbandonTest : public OperationTest {};
ONCE_OPERATION_SUITE(AbandonTest);

TEST_P(AbandonTest, ReleasedOperationIsGrantedAtOnce) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo first = Claim(key);

  EXPECT_FALSE(Get<core::Abandoned>(Abandon(key, ReleaseOf(first))).forgotten);
  EXPECT_EQ(Row(key)->state, core::RowState::kReleased);
  const auto second = Get<core::Granted>(Begin(key, BeginOf(NewAttempt())));

  EXPECT_THAT(second.claim.fence, Gt(first.fence));
  EXPECT_EQ(second.attempt_number, 2);
  EXPECT_FALSE(second.earlier_attempt.has_value()) << "its outcome is known";
  EXPECT_EQ(Row(key)->state, core::RowState::kClaimed);
}

TEST_P(AbandonTest, ReleaseKeepsTheIdentity) {
  const core::OperationKey key = Key("order-1");
  (void)Abandon(key, ReleaseOf(Claim(key)));
  (void)Get<core::Conflict>(Begin(key, BeginOf(NewAttempt(), "other content")));
}

TEST_P(AbandonTest, ReleaseWithADelayHoldsEverybodyBack) {
  const core::OperationKey key = Key("order-1");
  (void)Abandon(key, ReleaseOf(Claim(key), absl::Minutes(5)));

  const auto delayed = Get<core::InProgress>(Begin(key, BeginOf(NewAttempt())));
  EXPECT_EQ(delayed.reason, core::InProgress::Reason::kDelayed);
  EXPECT_THAT(delayed.lease_remaining, Gt(absl::Minutes(4)));
  EXPECT_THAT(delayed.lease_remaining, Le(absl::Minutes(5)));
  EXPECT_EQ(Get<core::InProgress>(Lookup(key)).reason, core::InProgress::Reason::kDelayed);

  MoveBack(key, absl::Minutes(6));
  (void)Get<core::Unclaimed>(Lookup(key));
  EXPECT_EQ(Get<core::Granted>(Begin(key, BeginOf(NewAttempt()))).attempt_number, 2);
}

TEST_P(AbandonTest, RepeatedReleaseIsTheSameUntilSomebodyElseClaims) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo first = Claim(key);
  (void)Get<core::Abandoned>(Abandon(key, ReleaseOf(first)));
  (void)Get<core::Abandoned>(Abandon(key, ReleaseOf(first)));

  const core::ClaimInfo second = Claim(key);

  EXPECT_EQ(Get<core::ClaimLost>(Abandon(key, ReleaseOf(first))).fence, second.fence);
  EXPECT_EQ(Row(key)->claim, second);
}

TEST_P(AbandonTest, ReleasedClaimCanNeitherCompleteNorRenew) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  (void)Abandon(key, ReleaseOf(claim));
  EXPECT_EQ(Get<core::ClaimLost>(Complete(key, CompleteOf(claim))).state,
            core::OperationState::kReleased);
  EXPECT_EQ(Get<core::ClaimLost>(Renew(key, RenewOf(claim, absl::Hours(1)))).state,
            core::OperationState::kReleased);
  EXPECT_EQ(Row(key)->state, core::RowState::kReleased);
}

TEST_P(AbandonTest, ForgottenOperationLeavesOnlyTheLog) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);

  EXPECT_TRUE(Get<core::Abandoned>(Abandon(key, ForgetOf(claim), "invalid amount")).forgotten);

  EXPECT_FALSE(Row(key).has_value());
  (void)Get<core::NotFound>(Lookup(key));
  const auto attempts = Attempts(key);
  ASSERT_EQ(attempts.size(), 2);
  EXPECT_EQ(attempts[1].kind, store::AttemptKind::kAbandon);
  EXPECT_EQ(attempts[1].outcome, store::AttemptOutcome::kForgotten);
  EXPECT_EQ(attempts[1].fence, claim.fence);
  EXPECT_EQ(attempts[1].note, "invalid amount");
}

TEST_P(AbandonTest, ForgottenIdentityMayBeUsedForOtherContent) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo first = Claim(key);
  (void)Abandon(key, ForgetOf(first));

  const auto second = Get<core::Granted>(Begin(key, BeginOf(NewAttempt(), "other content")));

  EXPECT_EQ(second.attempt_number, 1);
  EXPECT_THAT(second.claim.fence, Gt(first.fence));
}

TEST_P(AbandonTest, FencesGrowOverForget) {
  const core::OperationKey key = Key("order-1");
  core::Fence last;
  for (int i = 0; i < 20; ++i) {
    const core::ClaimInfo claim = Claim(key);
    EXPECT_THAT(claim.fence, Gt(last));
    last = claim.fence;
    (void)Get<core::Abandoned>(Abandon(key, ForgetOf(claim)));
  }
}

TEST_P(AbandonTest, FencesGrowOverReleasesAndForget) {
  const core::OperationKey key = Key("order-1");
  core::Fence last;
  for (int i = 0; i < 10; ++i) {
    const core::ClaimInfo claim = Claim(key);
    EXPECT_THAT(claim.fence, Gt(last));
    last = claim.fence;
    (void)Abandon(key, i % 3 == 2 ? ForgetOf(claim) : ReleaseOf(claim));
  }
}

TEST_P(AbandonTest, RepeatedForgetIsTheSame) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  (void)Abandon(key, ForgetOf(claim));
  EXPECT_TRUE(Get<core::Abandoned>(Abandon(key, ForgetOf(claim))).forgotten);
  EXPECT_FALSE(Row(key).has_value());
}

TEST_P(AbandonTest, RepeatedForgetDoesNotTouchAnotherAttempt) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo first = Claim(key);
  (void)Abandon(key, ForgetOf(first));
  const core::ClaimInfo second = Claim(key);
  (void)Get<core::ClaimLost>(Abandon(key, ForgetOf(first)));
  EXPECT_EQ(Row(key)->claim, second);
}

TEST_P(AbandonTest, ForgetIsAReleaseWhereAnEarlierAttemptsOutcomeIsUnknown) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo first = Claim(key);
  Lapse(key);
  const core::ClaimInfo second = Claim(key);

  EXPECT_FALSE(Get<core::Abandoned>(Abandon(key, ForgetOf(second))).forgotten);

  EXPECT_EQ(LoggedOutcomes(key).back(), store::AttemptOutcome::kReleased);
  core::BeginRequest forbidding = BeginOf(NewAttempt());
  forbidding.on_lapse = core::LapsePolicy::kInDoubt;
  const auto doubt = Get<core::InDoubt>(Begin(key, forbidding));
  EXPECT_EQ(doubt.earlier_attempt_count, 1);
  ASSERT_EQ(doubt.earlier_attempts.size(), 1);
  EXPECT_EQ(doubt.earlier_attempts[0].fence, first.fence);

  const auto third = Get<core::Granted>(Begin(key, BeginOf(NewAttempt())));
  ASSERT_TRUE(third.earlier_attempt.has_value());
  EXPECT_EQ(third.earlier_attempt->fence, first.fence);
}

TEST_P(AbandonTest, ReleaseDoesNotHideAnEarlierUnknownAttempt) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo first = Claim(key);
  Lapse(key);
  (void)Abandon(key, ReleaseOf(Claim(key)));
  const auto third = Get<core::Granted>(Begin(key, BeginOf(NewAttempt())));
  ASSERT_TRUE(third.earlier_attempt.has_value());
  EXPECT_EQ(third.earlier_attempt->fence, first.fence);
  EXPECT_EQ(third.attempt_number, 3);
}

TEST_P(AbandonTest, LapsedOwnerMayStillGiveBack) {
  const core::OperationKey released = Key("order-1");
  const core::OperationKey forgotten = Key("order-2");
  const core::ClaimInfo first = Claim(released);
  const core::ClaimInfo second = Claim(forgotten);
  Lapse(released);
  Lapse(forgotten);

  (void)Get<core::Abandoned>(Abandon(released, ReleaseOf(first)));
  EXPECT_TRUE(Get<core::Abandoned>(Abandon(forgotten, ForgetOf(second))).forgotten);

  EXPECT_FALSE(
      Get<core::Granted>(Begin(released, BeginOf(NewAttempt()))).earlier_attempt.has_value());
  EXPECT_FALSE(Row(forgotten).has_value());
}

}  // namespace
}  // namespace once::conformance
