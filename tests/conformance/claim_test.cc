// Claims, leases and fences.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "conformance/harness.h"

namespace once::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Gt;
using ::testing::IsEmpty;
using ::testing::Le;

class ClaimTest : public OperationTest {
 protected:
  // Two attempts that both let their lease run out; the claim of the second.
  core::ClaimInfo LapsedTwice(const core::OperationKey& key, core::ClaimInfo* first) {
    *first = Claim(key);
    Lapse(key);
    const core::ClaimInfo second = Claim(key);
    Lapse(key);
    return second;
  }
};
ONCE_OPERATION_SUITE(ClaimTest);

core::BeginRequest Forbidding(core::BeginRequest request) {
  request.on_lapse = core::LapsePolicy::kInDoubt;
  return request;
}

// What a claim is recognised by, without times that tests move.
void ExpectSameClaim(const core::ClaimInfo& actual, const core::ClaimInfo& expected) {
  EXPECT_EQ(actual.attempt, expected.attempt);
  EXPECT_EQ(actual.fence, expected.fence);
  EXPECT_EQ(actual.consumer, expected.consumer);
  EXPECT_EQ(actual.handler_version, expected.handler_version);
}

TEST_P(ClaimTest, FirstBeginIsGranted) {
  const core::OperationKey key = Key("order-1");
  const core::BeginRequest request = BeginOf(NewAttempt());

  const auto granted = Get<core::Granted>(Begin(key, request));

  EXPECT_EQ(granted.claim.attempt, request.attempt);
  EXPECT_EQ(granted.claim.consumer, request.consumer);
  EXPECT_EQ(granted.claim.handler_version, request.handler_version);
  EXPECT_EQ(granted.attempt_number, 1);
  EXPECT_FALSE(granted.earlier_attempt.has_value());
  EXPECT_THAT(granted.lease_remaining, Le(request.lease));
  EXPECT_THAT(granted.lease_remaining, Gt(request.lease - absl::Minutes(1)));
  EXPECT_EQ(granted.claim.lease_expires - granted.claim.begun, request.lease);
}

TEST_P(ClaimTest, FencesStartFromTheDatabasesClock) {
  const core::ClaimInfo claim = Claim(Key("order-1"));
  EXPECT_THAT(claim.fence.value, Ge(claim.begun.micros));
  EXPECT_THAT(claim.fence.value,
              Le(claim.begun.micros + absl::ToInt64Microseconds(absl::Seconds(1))));
}

TEST_P(ClaimTest, GrantedRowIsWhatWasAskedFor) {
  const core::OperationKey key = Key("order-1");
  const core::BeginRequest request = BeginOf(NewAttempt());
  const auto granted = Get<core::Granted>(Begin(key, request));

  const auto row = Row(key);

  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->claim, granted.claim);
  EXPECT_EQ(row->digest, request.digest);
  EXPECT_EQ(row->state, core::RowState::kClaimed);
  EXPECT_EQ(row->claims, 1);
  EXPECT_EQ(row->deliveries, told_unknown() ? 2 : 1);
  EXPECT_EQ(row->first_seen, granted.claim.begun);
  EXPECT_EQ(row->unknown_attempts, 0);
  EXPECT_FALSE(row->unknown.has_value());
  EXPECT_FALSE(row->receipt.has_value());
}

TEST_P(ClaimTest, NoRowExistsWithoutTheEndOfItsLease) {
  const core::OperationKey key = Key("order-1");
  (void)Claim(key);
  const std::string where = SqlKey(key);
  if (absl::IsUnimplemented(database().Sql("SELECT 1").status())) GTEST_SKIP() << "no SQL";

  EXPECT_FALSE(database()
                   .Sql(absl::StrCat("UPDATE operation SET lease_expires_us = NULL WHERE ", where))
                   .ok());

  EXPECT_NE(SqlValue(absl::StrCat("SELECT lease_expires_us FROM operation WHERE ", where)), "NULL");
}

TEST_P(ClaimTest, AnotherAttemptLearnsWhoHoldsTheClaim) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);

  const auto met = Get<core::InProgress>(Begin(key, BeginOf(NewAttempt())));

  EXPECT_EQ(met.reason, core::InProgress::Reason::kHeld);
  EXPECT_EQ(met.consumer, claim.consumer);
  EXPECT_EQ(met.handler_version, claim.handler_version);
  EXPECT_EQ(met.begun, claim.begun);
  EXPECT_EQ(met.attempt_number, 1);
  EXPECT_EQ(met.first_digest, DigestOf("content"));
  EXPECT_THAT(met.lease_remaining, Gt(absl::Minutes(9)));
  EXPECT_THAT(met.lease_remaining, Le(absl::Minutes(10)));
  EXPECT_EQ(Row(key)->claim, claim);
}

TEST_P(ClaimTest, EveryDeliveryIsCounted) {
  const core::OperationKey key = Key("order-1");
  for (int i = 0; i < 5; ++i) {
    (void)Begin(key, BeginOf(NewAttempt()));
  }
  EXPECT_EQ(Row(key)->deliveries, told_unknown() ? 10 : 5);
}

// ---- repeats (A5, A13, P5) ----

TEST_P(ClaimTest, RepeatedBeginGetsTheSameClaim) {
  const core::OperationKey key = Key("order-1");
  const core::BeginRequest request = BeginOf(NewAttempt());
  const auto first = Get<core::Granted>(Begin(key, request));

  for (int i = 0; i < 3; ++i) {
    const auto again = Get<core::Granted>(Begin(key, request));
    EXPECT_EQ(again.claim, first.claim);
    EXPECT_EQ(again.attempt_number, 1);
    EXPECT_FALSE(again.earlier_attempt.has_value());
  }
}

TEST_P(ClaimTest, RestartedOwnersAreGrantedAgain) {
  std::vector<core::BeginRequest> requests;
  std::vector<core::ClaimInfo> claims;
  for (int i = 0; i < 50; ++i) {
    requests.push_back(BeginOf(NewAttempt()));
    claims.push_back(
        Get<core::Granted>(Begin(Key(absl::StrCat("order-", i)), requests.back())).claim);
  }

  RestartServer();

  for (int i = 0; i < 50; ++i) {
    const auto again =
        Get<core::Granted>(Begin(Key(absl::StrCat("order-", i)), requests[static_cast<size_t>(i)]));
    EXPECT_EQ(again.claim, claims[static_cast<size_t>(i)]);
    EXPECT_EQ(again.attempt_number, 1);
  }
}

TEST_P(ClaimTest, OwnerWhoseLeaseRanOutIsGrantedAgainWhereNobodyTookOver) {
  const core::OperationKey key = Key("order-1");
  const core::BeginRequest request = BeginOf(NewAttempt());
  const auto first = Get<core::Granted>(Begin(key, request));
  Lapse(key);

  const auto again = Get<core::Granted>(Begin(key, request));

  ExpectSameClaim(again.claim, first.claim);
  EXPECT_EQ(again.attempt_number, 1);
  EXPECT_THAT(again.lease_remaining, Gt(absl::Minutes(9)));
  EXPECT_EQ(Row(key)->claim.lease_expires, again.claim.lease_expires);
}

TEST_P(ClaimTest, RepeatedBeginExtendsALeaseThatIsNearlyOver) {
  const core::OperationKey key = Key("order-1");
  const core::BeginRequest request = BeginOf(NewAttempt());
  (void)Begin(key, request);
  MoveBack(key, absl::Minutes(9));
  EXPECT_THAT(Get<core::Granted>(Begin(key, request)).lease_remaining, Gt(absl::Minutes(9)));
}

// ---- lapsed claims (A2, P7) ----

TEST_P(ClaimTest, LapsedClaimIsTakenOverWithAHigherFenceAndTheEarlierAttempt) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo first = Claim(key);
  Lapse(key);

  const core::BeginRequest request = BeginOf(NewAttempt());
  const auto granted = Get<core::Granted>(Begin(key, request));

  EXPECT_THAT(granted.claim.fence, Gt(first.fence));
  EXPECT_EQ(granted.attempt_number, 2);
  ASSERT_TRUE(granted.earlier_attempt.has_value());
  ExpectSameClaim(*granted.earlier_attempt, first);
  const auto row = Row(key);
  EXPECT_EQ(row->claim, granted.claim);
  EXPECT_EQ(row->unknown, granted.earlier_attempt);
  EXPECT_EQ(row->unknown_attempts, 1);
}

TEST_P(ClaimTest, RepeatedTakeOverIsToldOfTheEarlierAttemptAgain) {
  const core::OperationKey key = Key("order-1");
  (void)Claim(key);
  Lapse(key);
  const core::BeginRequest request = BeginOf(NewAttempt());
  const auto first = Get<core::Granted>(Begin(key, request));

  const auto again = Get<core::Granted>(Begin(key, request));

  EXPECT_EQ(again.claim, first.claim);
  EXPECT_EQ(again.attempt_number, 2);
  EXPECT_TRUE(again.earlier_attempt.has_value());
  EXPECT_EQ(again.earlier_attempt, first.earlier_attempt);
}

TEST_P(ClaimTest, LapsedClaimIsInDoubtWhereASecondRunIsForbidden) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo first = Claim(key);
  Lapse(key);
  const auto before = Row(key);

  const auto doubt = Get<core::InDoubt>(Begin(key, Forbidding(BeginOf(NewAttempt()))));

  EXPECT_EQ(doubt.earlier_attempt_count, 1);
  ASSERT_EQ(doubt.earlier_attempts.size(), 1);
  ExpectSameClaim(doubt.earlier_attempts[0], first);
  EXPECT_EQ(Row(key)->claim, before->claim);
  EXPECT_EQ(Row(key)->claims, 1);
}

TEST_P(ClaimTest, EarlierAttemptsAreListedLatestFirst) {
  const core::OperationKey key = Key("order-1");
  core::ClaimInfo first;
  const core::ClaimInfo second = LapsedTwice(key, &first);

  const auto doubt = Get<core::InDoubt>(Begin(key, Forbidding(BeginOf(NewAttempt()))));

  EXPECT_EQ(doubt.earlier_attempt_count, 2);
  ASSERT_EQ(doubt.earlier_attempts.size(), 2);
  ExpectSameClaim(doubt.earlier_attempts[0], second);
  ExpectSameClaim(doubt.earlier_attempts[1], first);
}

TEST_P(ClaimTest, EachTakeOverIsCountedAndTheLatestUnknownAttemptShown) {
  const core::OperationKey key = Key("order-1");
  core::ClaimInfo first;
  const core::ClaimInfo second = LapsedTwice(key, &first);

  const auto third = Get<core::Granted>(Begin(key, BeginOf(NewAttempt())));

  EXPECT_EQ(third.attempt_number, 3);
  ASSERT_TRUE(third.earlier_attempt.has_value());
  ExpectSameClaim(*third.earlier_attempt, second);
  EXPECT_EQ(Row(key)->unknown_attempts, 2);
}

TEST_P(ClaimTest, OwnerInDoubtMayStillComplete) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  Lapse(key);
  (void)Get<core::InDoubt>(Begin(key, Forbidding(BeginOf(NewAttempt()))));

  (void)Get<core::Completed>(Complete(key, CompleteOf(claim)));

  (void)Get<core::Completed>(Begin(key, Forbidding(BeginOf(NewAttempt()))));
}

TEST_P(ClaimTest, CompleteSucceedsAfterTheLeaseWhereNobodyTookOver) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  Lapse(key);
  const auto completed = Get<core::Completed>(Complete(key, CompleteOf(claim, "late")));
  EXPECT_EQ(completed.fence, claim.fence);
  EXPECT_EQ(ReceiptOf(key).result, "late");
}

// ---- late owners (A3, A4) ----

TEST_P(ClaimTest, LateOwnerLosesItsClaimAndWritesNothing) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo slow = Claim(key);
  Lapse(key);
  const core::ClaimInfo quick = Claim(key);
  const auto before = Row(key);

  const auto lost = Get<core::ClaimLost>(Complete(key, CompleteOf(slow, "slow")));

  EXPECT_EQ(lost.state, core::OperationState::kClaimed);
  EXPECT_EQ(lost.consumer, quick.consumer);
  EXPECT_EQ(lost.fence, quick.fence);
  EXPECT_EQ(lost.begun, quick.begun);
  EXPECT_EQ(Row(key), before);
  EXPECT_EQ(LoggedOutcomes(key).back(), store::AttemptOutcome::kClaimLost);

  (void)Get<core::Completed>(Complete(key, CompleteOf(quick, "quick")));
  (void)Get<core::ClaimLost>(Complete(key, CompleteOf(slow, "slow")));
  EXPECT_EQ(ReceiptOf(key).result, "quick");
}

TEST_P(ClaimTest, LateOwnerCannotRenew) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo slow = Claim(key);
  Lapse(key);
  const core::ClaimInfo quick = Claim(key);
  const auto before = Row(key);

  const auto lost = Get<core::ClaimLost>(Renew(key, RenewOf(slow, absl::Hours(2))));

  EXPECT_EQ(lost.consumer, quick.consumer);
  EXPECT_EQ(lost.begun, quick.begun);
  EXPECT_EQ(Row(key), before);
}

TEST_P(ClaimTest, LateOwnerCannotRelease) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo slow = Claim(key);
  Lapse(key);
  (void)Claim(key);
  const auto before = Row(key);
  (void)Get<core::ClaimLost>(Abandon(key, ReleaseOf(slow)));
  (void)Get<core::ClaimLost>(Abandon(key, ForgetOf(slow)));
  EXPECT_EQ(Row(key), before);
}

TEST_P(ClaimTest, LateOwnersRepeatedBeginDoesNotTakeTheClaimBack) {
  const core::OperationKey key = Key("order-1");
  const core::BeginRequest slow = BeginOf(NewAttempt());
  (void)Begin(key, slow);
  Lapse(key);
  const core::ClaimInfo quick = Claim(key);
  (void)Get<core::InProgress>(Begin(key, slow));
  EXPECT_EQ(Row(key)->claim, quick);
}

TEST_P(ClaimTest, RightAttemptWithAWrongFenceHoldsNothing) {
  const core::OperationKey key = Key("order-1");
  core::ClaimInfo claim = Claim(key);
  const auto before = Row(key);
  ++claim.fence.value;
  (void)Get<core::ClaimLost>(Complete(key, CompleteOf(claim)));
  (void)Get<core::ClaimLost>(Renew(key, RenewOf(claim, absl::Hours(1))));
  (void)Get<core::ClaimLost>(Abandon(key, ReleaseOf(claim)));
  EXPECT_EQ(Row(key), before);
}

// ---- renewals ----

TEST_P(ClaimTest, RenewExtendsTheLease) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);

  const auto renewed = Get<core::Renewed>(Renew(key, RenewOf(claim, absl::Hours(2))));

  ExpectSameClaim(renewed.claim, claim);
  EXPECT_EQ(renewed.claim.begun, claim.begun);
  EXPECT_THAT(renewed.lease_remaining, Gt(absl::Hours(2) - absl::Minutes(1)));
  EXPECT_THAT(renewed.lease_remaining, Le(absl::Hours(2)));
  EXPECT_EQ(Row(key)->claim.lease_expires, renewed.claim.lease_expires);
}

TEST_P(ClaimTest, RenewNeverShortensALease) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  const auto renewed = Get<core::Renewed>(Renew(key, RenewOf(claim, absl::Milliseconds(100))));
  EXPECT_EQ(renewed.claim.lease_expires, claim.lease_expires);
  EXPECT_EQ(Row(key)->claim, claim);
}

TEST_P(ClaimTest, RenewBringsALapsedClaimBackWhereNobodyTookOver) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  Lapse(key);
  (void)Get<core::Renewed>(Renew(key, RenewOf(claim, absl::Minutes(5))));
  (void)Get<core::InProgress>(Begin(key, BeginOf(NewAttempt())));
}

TEST_P(ClaimTest, RenewedLeaseCanLapseAndBeTakenOver) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  (void)Get<core::Renewed>(Renew(key, RenewOf(claim, absl::Minutes(20))));
  Lapse(key);
  EXPECT_THAT(Claim(key).fence, Gt(claim.fence));
}

TEST_P(ClaimTest, CommandsOnUnknownOperationsSayNotFound) {
  const core::OperationKey key = Key("never-begun");
  core::ClaimInfo claim;
  claim.attempt = NewAttempt();
  claim.fence = {1};
  (void)Get<core::NotFound>(Complete(key, CompleteOf(claim)));
  (void)Get<core::NotFound>(Renew(key, RenewOf(claim, absl::Minutes(1))));
  (void)Get<core::NotFound>(Abandon(key, ReleaseOf(claim)));
  (void)Get<core::NotFound>(Lookup(key));
  EXPECT_FALSE(Row(key).has_value());
  EXPECT_THAT(LoggedOutcomes(key),
              ElementsAre(store::AttemptOutcome::kNotFound, store::AttemptOutcome::kNotFound,
                          store::AttemptOutcome::kNotFound));
}

TEST_P(ClaimTest, FencesOfOneOperationGrowOverManyTakeOvers) {
  const core::OperationKey key = Key("order-1");
  core::Fence last;
  for (int i = 1; i <= 20; ++i) {
    const auto granted = Get<core::Granted>(Begin(key, BeginOf(NewAttempt())));
    EXPECT_THAT(granted.claim.fence, Gt(last));
    EXPECT_EQ(granted.attempt_number, i);
    last = granted.claim.fence;
    Lapse(key);
  }
}

// ---- lookups ----

TEST_P(ClaimTest, LookupShowsTheClaimAndChangesNothing) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  const auto before = Row(key);

  const auto met = Get<core::InProgress>(Lookup(key));

  EXPECT_EQ(met.consumer, claim.consumer);
  EXPECT_THAT(met.lease_remaining, Gt(absl::Minutes(9)));
  EXPECT_EQ(Row(key), before);
  EXPECT_EQ(Attempts(key).size(), 1);
}

TEST_P(ClaimTest, LookupShowsALapsedClaimByPolicy) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  Lapse(key);

  const auto unclaimed = Get<core::Unclaimed>(Lookup(key));
  EXPECT_EQ(unclaimed.state, core::OperationState::kLapsed);
  ASSERT_TRUE(unclaimed.earlier_attempt.has_value());
  ExpectSameClaim(*unclaimed.earlier_attempt, claim);

  const auto doubt = Get<core::InDoubt>(Lookup(key, std::nullopt, core::LapsePolicy::kInDoubt));
  EXPECT_EQ(doubt.earlier_attempt_count, 1);
}

}  // namespace
}  // namespace once::conformance
