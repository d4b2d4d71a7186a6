// The attempt log: one row per delivery and try, whatever became of it.
#include <vector>

#include "conformance/harness.h"

namespace once::conformance {
namespace {

using store::AttemptKind;
using store::AttemptOutcome;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AttemptLogTest : public OperationTest {
 protected:
  core::BeginRequest Forbidding() {
    core::BeginRequest request = BeginOf(NewAttempt());
    request.on_lapse = core::LapsePolicy::kInDoubt;
    return request;
  }
};
ONCE_OPERATION_SUITE(AttemptLogTest);

TEST_P(AttemptLogTest, EveryOutcomeIsLogged) {
  const core::OperationKey key = Key("order-1");
  const core::BeginRequest first = BeginOf(NewAttempt());
  const auto granted = Get<core::Granted>(Begin(key, first));  // granted
  (void)Begin(key, first);                                     // regranted
  (void)Begin(key, BeginOf(NewAttempt()));                     // in progress
  (void)Begin(key, BeginOf(NewAttempt(), "other"));            // conflict
  Lapse(key);
  (void)Begin(key, Forbidding());                              // in doubt
  const core::ClaimInfo second = Claim(key);                   // taken over
  (void)Complete(key, CompleteOf(granted.claim));              // claim lost
  (void)Renew(key, RenewOf(granted.claim, absl::Minutes(1)));  // claim lost
  (void)Abandon(key, ReleaseOf(granted.claim));                // claim lost
  (void)Abandon(key, ReleaseOf(second), "try later");          // released
  const core::BeginRequest last = BeginOf(NewAttempt());
  const auto third =
      Get<core::Granted>(Begin(key, last));               // taken over: the first is still unknown
  (void)Complete(key, CompleteOf(third.claim, "done"));   // completed
  (void)Complete(key, CompleteOf(third.claim, "done"));   // replayed
  (void)Complete(key, CompleteOf(third.claim, "other"));  // conflict
  (void)Begin(key, BeginOf(NewAttempt()));                // replayed
  MakeTombstone(key);
  (void)Begin(key, BeginOf(NewAttempt()));  // expired

  EXPECT_THAT(
      LoggedOutcomes(key),
      ElementsAre(AttemptOutcome::kGranted, AttemptOutcome::kRegranted, AttemptOutcome::kInProgress,
                  AttemptOutcome::kConflict, AttemptOutcome::kInDoubt, AttemptOutcome::kTakenOver,
                  AttemptOutcome::kClaimLost, AttemptOutcome::kClaimLost,
                  AttemptOutcome::kClaimLost, AttemptOutcome::kReleased, AttemptOutcome::kTakenOver,
                  AttemptOutcome::kCompleted, AttemptOutcome::kReplayed, AttemptOutcome::kConflict,
                  AttemptOutcome::kReplayed, AttemptOutcome::kExpired));
  std::vector<AttemptKind> kinds;
  std::vector<int> numbers;
  for (const store::AttemptEntry& entry : Attempts(key)) {
    kinds.push_back(entry.kind);
    numbers.push_back(entry.attempt_number);
  }
  EXPECT_THAT(kinds, ElementsAre(AttemptKind::kBegin, AttemptKind::kBegin, AttemptKind::kBegin,
                                 AttemptKind::kBegin, AttemptKind::kBegin, AttemptKind::kBegin,
                                 AttemptKind::kComplete, AttemptKind::kRenew, AttemptKind::kAbandon,
                                 AttemptKind::kAbandon, AttemptKind::kBegin, AttemptKind::kComplete,
                                 AttemptKind::kComplete, AttemptKind::kComplete,
                                 AttemptKind::kBegin, AttemptKind::kBegin));
  EXPECT_THAT(numbers, ElementsAre(1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3));
}

TEST_P(AttemptLogTest, EntrySaysWhoAskedForWhat) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  core::BeginRequest other = BeginOf(NewAttempt(), "other content");
  other.consumer = "somebody";
  other.handler_version = "v2";
  (void)Begin(key, other);

  const auto attempts = Attempts(key);

  ASSERT_EQ(attempts.size(), 2);
  EXPECT_EQ(attempts[0].attempt, claim.attempt);
  EXPECT_EQ(attempts[0].fence, claim.fence);
  EXPECT_EQ(attempts[0].digest, DigestOf("content"));
  EXPECT_EQ(attempts[1].attempt, other.attempt);
  EXPECT_EQ(attempts[1].fence, claim.fence) << "of the operation's latest claim";
  EXPECT_EQ(attempts[1].digest, DigestOf("other content"));
  EXPECT_EQ(attempts[1].consumer, "somebody");
  EXPECT_EQ(attempts[1].handler_version, "v2");
}

TEST_P(AttemptLogTest, EntriesAreTimedByTheDatabase) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  (void)Begin(key, BeginOf(NewAttempt()));
  const auto logged = database().Attempts(key);
  ASSERT_TRUE(logged.ok());
  ASSERT_EQ(logged->size(), 2);
  EXPECT_GE((*logged)[0].logged, claim.begun);
  EXPECT_LT((*logged)[0].logged, claim.begun + absl::Minutes(1));
  EXPECT_GE((*logged)[1].logged, (*logged)[0].logged);
}

TEST_P(AttemptLogTest, SuccessfulRenewalsAreNoDeliveries) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  (void)Get<core::Renewed>(Renew(key, RenewOf(claim, absl::Hours(1))));
  EXPECT_THAT(LoggedOutcomes(key), ElementsAre(AttemptOutcome::kGranted));
  EXPECT_EQ(Row(key)->deliveries, told_unknown() ? 2 : 1);
}

TEST_P(AttemptLogTest, OutlivesForgottenOperations) {
  const core::OperationKey key = Key("order-1");
  for (int i = 0; i < 3; ++i) {
    (void)Abandon(key, ForgetOf(Claim(key)));
  }
  EXPECT_FALSE(Row(key).has_value());
  EXPECT_THAT(LoggedOutcomes(key),
              ElementsAre(AttemptOutcome::kGranted, AttemptOutcome::kForgotten,
                          AttemptOutcome::kGranted, AttemptOutcome::kForgotten,
                          AttemptOutcome::kGranted, AttemptOutcome::kForgotten));
}

TEST_P(AttemptLogTest, RefusedBatchesLogNothing) {
  const core::OperationKey key = Key("order-1");
  core::BeginRequest request = BeginOf(NewAttempt());
  request.consumer = std::string(500, 'x');
  EXPECT_FALSE(TryRun({BeginCommand(key, request)}).ok());
  EXPECT_THAT(Attempts(key), IsEmpty());
}

}  // namespace
}  // namespace once::conformance
