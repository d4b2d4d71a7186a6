#include "core/decide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "core/fingerprint.h"

namespace once::core {
namespace {

using ::testing::SizeIs;

constexpr DbTime kNow{1'700'000'000'000'000};
constexpr absl::Duration kLease = absl::Seconds(30);

AttemptId Attempt(uint8_t number) {
  AttemptId attempt;
  attempt.bytes.fill(number);
  return attempt;
}

Digest DigestNumber(uint8_t number, DigestScheme scheme = DigestScheme::kRawSha256) {
  Digest digest;
  digest.scheme = scheme;
  digest.sha256.fill(number);
  return digest;
}

const AttemptId kHolder = Attempt(1);
const AttemptId kOther = Attempt(2);
const AttemptId kEarlier = Attempt(3);

ClaimInfo ClaimOf(AttemptId attempt, int64_t fence, DbTime lease_expires) {
  return {.attempt = attempt,
          .fence = {fence},
          .consumer = "consumer",
          .handler_version = "v1",
          .begun = kNow + -absl::Seconds(10),
          .lease_expires = lease_expires};
}

// ---- rows ----

OperationRow Claimed(absl::Duration lease_left) {
  OperationRow row;
  row.digest = DigestNumber(1);
  row.claim = ClaimOf(kHolder, 100, kNow + lease_left);
  row.first_seen = kNow + -absl::Seconds(10);
  return row;
}

OperationRow WithUnknown(OperationRow row) {
  row.unknown = ClaimOf(kEarlier, 90, kNow + -absl::Seconds(20));
  row.unknown_attempts = 1;
  row.claims = 2;
  return row;
}

OperationRow Released(absl::Duration delay) {
  OperationRow row = Claimed(delay);
  row.state = RowState::kReleased;
  return row;
}

OperationRow Completed_(ReceiptStatus status = ReceiptStatus::kSucceeded) {
  OperationRow row = Claimed(-absl::Seconds(1));
  row.state = RowState::kCompleted;
  row.receipt = Receipt{.status = status,
                        .content_type = "text/plain",
                        .result_size = 6,
                        .fingerprint = FingerprintOf(status, "text/plain", "result"),
                        .completed = kNow + -absl::Seconds(5),
                        .result = "result"};
  return row;
}

OperationRow Tombstone() {
  OperationRow row = Completed_();
  row.state = RowState::kTombstone;
  row.receipt->result.reset();
  return row;
}

// ---- requests ----

BeginRequest BeginBy(AttemptId attempt, LapsePolicy on_lapse = LapsePolicy::kRetry) {
  return {.digest = DigestNumber(1),
          .attempt = attempt,
          .lease = kLease,
          .consumer = "asking",
          .handler_version = "v2",
          .on_lapse = on_lapse};
}

CompleteRequest CompleteBy(AttemptId attempt, int64_t fence, std::string result = "result") {
  const Sha256 fingerprint = FingerprintOf(ReceiptStatus::kSucceeded, "text/plain", result);
  return {.attempt = attempt,
          .fence = {fence},
          .status = ReceiptStatus::kSucceeded,
          .result = std::move(result),
          .content_type = "text/plain",
          .fingerprint = fingerprint};
}

AbandonRequest AbandonBy(AttemptId attempt, int64_t fence, bool forget = false,
                         absl::Duration delay = absl::ZeroDuration()) {
  return {.attempt = attempt, .fence = {fence}, .forget = forget, .retry_delay = delay};
}

RenewRequest RenewBy(AttemptId attempt, int64_t fence, absl::Duration lease = kLease) {
  return {.attempt = attempt, .fence = {fence}, .lease = lease};
}

// ---- tables ----

// What happens, in a word, and if the row is written.
struct Name {
  std::string operator()(const Granted&) const { return "granted"; }
  std::string operator()(const Completed&) const { return "completed"; }
  std::string operator()(const InProgress& met) const {
    return met.reason == InProgress::Reason::kHeld ? "held" : "delayed";
  }
  std::string operator()(const Conflict&) const { return "conflict"; }
  std::string operator()(const InDoubt&) const { return "in doubt"; }
  std::string operator()(const Stale&) const { return "stale"; }
  std::string operator()(const Expired&) const { return "expired"; }
  std::string operator()(const Unclaimed&) const { return "unclaimed"; }
  std::string operator()(const ClaimLost&) const { return "claim lost"; }
  std::string operator()(const CompletionConflict&) const { return "completion conflict"; }
  std::string operator()(const Abandoned& abandoned) const {
    return abandoned.forgotten ? "forgotten" : "released";
  }
  std::string operator()(const Renewed&) const { return "renewed"; }
  std::string operator()(const NotFound&) const { return "not found"; }
};

template <typename Outcome>
std::string Told(const Decision<Outcome>& decision) {
  std::string told = std::visit(Name{}, decision.outcome);
  if (decision.row_after.has_value()) told += ", written";
  if (decision.delete_row) told += ", deleted";
  return told;
}

struct RowCase {
  const char* name;
  OperationRow row;
  // By the holder and by another attempt, for handlers that retry and that do not.
  const char* holder_retry;
  const char* holder_doubt;
  const char* other_retry;
  const char* other_doubt;
};

const std::vector<RowCase>& BeginTable() {
  static const auto* const table = new std::vector<RowCase>{
      {"live claim", Claimed(absl::Seconds(29)), "granted", "granted", "held", "held"},
      {"live claim, last microsecond", Claimed(absl::Microseconds(1)), "granted, written",
       "granted, written", "held", "held"},
      {"lapsed this very microsecond", Claimed(absl::ZeroDuration()), "granted, written",
       "granted, written", "granted, written", "in doubt"},
      {"lapsed claim", Claimed(-absl::Hours(1)), "granted, written", "granted, written",
       "granted, written", "in doubt"},
      {"live take-over", WithUnknown(Claimed(absl::Seconds(29))), "granted", "granted", "held",
       "held"},
      {"lapsed take-over", WithUnknown(Claimed(-absl::Seconds(1))), "granted, written",
       "granted, written", "granted, written", "in doubt"},
      {"released", Released(absl::ZeroDuration()), "granted, written", "granted, written",
       "granted, written", "granted, written"},
      {"released, delayed", Released(absl::Microseconds(1)), "delayed", "delayed", "delayed",
       "delayed"},
      {"released after a take-over", WithUnknown(Released(-absl::Seconds(1))), "granted, written",
       "in doubt", "granted, written", "in doubt"},
      {"completed", Completed_(), "completed", "completed", "completed", "completed"},
      {"rejected", Completed_(ReceiptStatus::kRejected), "completed", "completed", "completed",
       "completed"},
      {"tombstone", Tombstone(), "expired", "expired", "expired", "expired"},
  };
  return *table;
}

TEST(DecideBeginTest, OutcomeFollowsFromRowAttemptAndPolicy) {
  for (const RowCase& c : BeginTable()) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(Told(DecideBegin(c.row, BeginBy(kHolder), kNow)), c.holder_retry);
    EXPECT_EQ(Told(DecideBegin(c.row, BeginBy(kHolder, LapsePolicy::kInDoubt), kNow)),
              c.holder_doubt);
    EXPECT_EQ(Told(DecideBegin(c.row, BeginBy(kOther), kNow)), c.other_retry);
    EXPECT_EQ(Told(DecideBegin(c.row, BeginBy(kOther, LapsePolicy::kInDoubt), kNow)),
              c.other_doubt);
  }
}

TEST(DecideBeginTest, OtherContentIsAConflictInEveryState) {
  for (const RowCase& c : BeginTable()) {
    SCOPED_TRACE(c.name);
    for (const AttemptId attempt : {kHolder, kOther}) {
      for (const LapsePolicy policy : {LapsePolicy::kRetry, LapsePolicy::kInDoubt}) {
        for (const Digest& digest : {DigestNumber(2), DigestNumber(1, DigestScheme::kJsonJcsSha256),
                                     DigestNumber(2, DigestScheme::kJsonJcsSha256)}) {
          BeginRequest request = BeginBy(attempt, policy);
          request.digest = digest;
          const auto decision = DecideBegin(c.row, request, kNow);
          ASSERT_EQ(Told(decision), "conflict");
          const auto& conflict = std::get<Conflict>(decision.outcome);
          EXPECT_EQ(conflict.first_digest, c.row.digest);
          EXPECT_EQ(conflict.request_digest, digest);
          EXPECT_EQ(conflict.difference, digest.scheme == DigestScheme::kRawSha256
                                             ? Conflict::Difference::kDigest
                                             : Conflict::Difference::kScheme);
          EXPECT_EQ(conflict.state, StateOf(c.row, policy, kNow));
          EXPECT_EQ(conflict.consumer, "consumer");
          EXPECT_EQ(conflict.first_seen, c.row.first_seen);
        }
      }
    }
  }
}

TEST(DecideBeginTest, ConflictTellsTheLeaseOnlyOfALiveClaim) {
  BeginRequest request = BeginBy(kOther);
  request.digest = DigestNumber(2);
  const auto lease_of = [&](const OperationRow& row) {
    return std::get<Conflict>(DecideBegin(row, request, kNow).outcome).lease_remaining;
  };
  EXPECT_EQ(lease_of(Claimed(absl::Seconds(7))), absl::Seconds(7));
  EXPECT_EQ(lease_of(Claimed(-absl::Seconds(7))), absl::ZeroDuration());
  EXPECT_EQ(lease_of(Released(absl::Seconds(7))), absl::ZeroDuration());
  EXPECT_EQ(lease_of(Completed_()), absl::ZeroDuration());
}

TEST(DecideBeginTest, NewRowIsAClaimOfItsRequest) {
  const BeginRequest request = BeginBy(kOther);
  const OperationRow row = NewRow(request, kNow);
  EXPECT_EQ(row.state, RowState::kClaimed);
  EXPECT_EQ(row.digest, request.digest);
  EXPECT_EQ(row.claim.attempt, kOther);
  EXPECT_EQ(row.claim.fence.value, kNow.micros);
  EXPECT_EQ(row.claim.begun, kNow);
  EXPECT_EQ(row.claim.lease_expires, kNow + kLease);
  EXPECT_EQ(row.claim.consumer, "asking");
  EXPECT_EQ(row.claim.handler_version, "v2");
  EXPECT_EQ(row.claims, 1);
  EXPECT_EQ(row.first_seen, kNow);
  const auto decision = DecideBegin(row, request, kNow);
  EXPECT_EQ(Told(decision), "granted");
  EXPECT_EQ(std::get<Granted>(decision.outcome).claim, row.claim);
  EXPECT_EQ(std::get<Granted>(decision.outcome).attempt_number, 1);
}

TEST(DecideBeginTest, TakeOverKeepsTheLapsedClaimAndRaisesTheFence) {
  const OperationRow row = Claimed(-absl::Seconds(1));
  const auto decision = DecideBegin(row, BeginBy(kOther), kNow);
  const auto& granted = std::get<Granted>(decision.outcome);
  EXPECT_EQ(granted.claim.attempt, kOther);
  EXPECT_EQ(granted.claim.fence.value, kNow.micros);
  EXPECT_EQ(granted.claim.consumer, "asking");
  EXPECT_EQ(granted.claim.handler_version, "v2");
  EXPECT_EQ(granted.claim.begun, kNow);
  EXPECT_EQ(granted.lease_remaining, kLease);
  EXPECT_EQ(granted.attempt_number, 2);
  EXPECT_EQ(granted.earlier_attempt, row.claim);
  ASSERT_TRUE(decision.row_after.has_value());
  EXPECT_EQ(decision.row_after->claim, granted.claim);
  EXPECT_EQ(decision.row_after->claims, 2);
  EXPECT_EQ(decision.row_after->unknown, row.claim);
  EXPECT_EQ(decision.row_after->unknown_attempts, 1);
  EXPECT_EQ(decision.row_after->digest, row.digest);
  EXPECT_EQ(decision.row_after->first_seen, row.first_seen);
}

TEST(DecideBeginTest, FenceGrowsByOneWhereTheClockIsBehindIt) {
  for (OperationRow row : {Claimed(-absl::Seconds(1)), Released(-absl::Seconds(1))}) {
    row.claim.fence = {kNow.micros};
    EXPECT_EQ(std::get<Granted>(DecideBegin(row, BeginBy(kOther), kNow).outcome).claim.fence.value,
              kNow.micros + 1);
    row.claim.fence = {kNow.micros + 1'000'000};
    EXPECT_EQ(std::get<Granted>(DecideBegin(row, BeginBy(kOther), kNow).outcome).claim.fence.value,
              kNow.micros + 1'000'001);
  }
}

TEST(DecideBeginTest, ClaimAfterReleaseHasNoEarlierAttemptOfItsOwn) {
  const auto decision = DecideBegin(Released(-absl::Seconds(1)), BeginBy(kOther), kNow);
  const auto& granted = std::get<Granted>(decision.outcome);
  EXPECT_EQ(granted.attempt_number, 2);
  EXPECT_FALSE(granted.earlier_attempt.has_value());
  EXPECT_EQ(decision.row_after->state, RowState::kClaimed);
  EXPECT_EQ(decision.row_after->unknown_attempts, 0);
}

TEST(DecideBeginTest, ClaimAfterReleaseStillTellsOfAnUnknownAttempt) {
  const OperationRow row = WithUnknown(Released(-absl::Seconds(1)));
  const auto decision = DecideBegin(row, BeginBy(kOther), kNow);
  EXPECT_EQ(std::get<Granted>(decision.outcome).earlier_attempt, row.unknown);
  EXPECT_EQ(decision.row_after->unknown, row.unknown);
  EXPECT_EQ(decision.row_after->unknown_attempts, 1);
}

TEST(DecideBeginTest, RepeatedTakeOverTellsOfTheEarlierAttemptAgain) {
  const OperationRow row = WithUnknown(Claimed(absl::Seconds(29)));
  const auto granted = std::get<Granted>(DecideBegin(row, BeginBy(kHolder), kNow).outcome);
  EXPECT_EQ(granted.claim, row.claim);
  EXPECT_EQ(granted.attempt_number, 2);
  EXPECT_EQ(granted.earlier_attempt, row.unknown);
}

TEST(DecideBeginTest, RepeatExtendsALeaseOfWhichLessThanHalfIsLeft) {
  const auto half = DecideBegin(Claimed(kLease / 2), BeginBy(kHolder), kNow);
  EXPECT_EQ(Told(half), "granted");
  EXPECT_EQ(std::get<Granted>(half.outcome).lease_remaining, kLease / 2);

  const OperationRow row = Claimed(kLease / 2 - absl::Microseconds(1));
  const auto less = DecideBegin(row, BeginBy(kHolder), kNow);
  EXPECT_EQ(Told(less), "granted, written");
  EXPECT_EQ(std::get<Granted>(less.outcome).lease_remaining, kLease);
  OperationRow expected = row;
  expected.claim.lease_expires = kNow + kLease;
  EXPECT_EQ(less.row_after, expected) << "nothing but the lease changes";
}

TEST(DecideBeginTest, InDoubtListsTheLapsedHolderAndTheOneBefore) {
  const OperationRow row = WithUnknown(Claimed(-absl::Seconds(1)));
  const auto doubt =
      std::get<InDoubt>(DecideBegin(row, BeginBy(kOther, LapsePolicy::kInDoubt), kNow).outcome);
  EXPECT_EQ(doubt.earlier_attempt_count, 2);
  ASSERT_THAT(doubt.earlier_attempts, SizeIs(2));
  EXPECT_EQ(doubt.earlier_attempts[0], row.claim);
  EXPECT_EQ(doubt.earlier_attempts[1], *row.unknown);

  const OperationRow released = WithUnknown(Released(-absl::Seconds(1)));
  const auto after_release = std::get<InDoubt>(
      DecideBegin(released, BeginBy(kOther, LapsePolicy::kInDoubt), kNow).outcome);
  EXPECT_EQ(after_release.earlier_attempt_count, 1);
  ASSERT_THAT(after_release.earlier_attempts, SizeIs(1));
  EXPECT_EQ(after_release.earlier_attempts[0], *released.unknown);
}

// ---- PROBE ----

BeginRequest ProbingBy(AttemptId attempt, LapsePolicy on_lapse = LapsePolicy::kProbe) {
  BeginRequest request = BeginBy(attempt, on_lapse);
  request.can_probe = true;
  return request;
}

TEST(DecideBeginTest, ProbeGrantsALapsedClaimOnlyToWhoAsksItsData) {
  for (const OperationRow& row :
       {Claimed(-absl::Seconds(1)), WithUnknown(Claimed(-absl::Seconds(1))),
        WithUnknown(Released(absl::ZeroDuration()))}) {
    const auto refused = DecideBegin(row, BeginBy(kOther, LapsePolicy::kProbe), kNow);
    EXPECT_FALSE(refused.row_after.has_value());
    EXPECT_TRUE(std::get<InDoubt>(refused.outcome).probe_allowed);
    const auto granted = DecideBegin(row, ProbingBy(kOther), kNow);
    ASSERT_TRUE(granted.row_after.has_value());
    EXPECT_TRUE(std::get<Granted>(granted.outcome).recovery);
    EXPECT_TRUE(std::get<Granted>(granted.outcome).earlier_attempt.has_value());
  }
}

TEST(DecideBeginTest, ProbeDoesNotEndALiveClaimOrADelay) {
  EXPECT_TRUE(std::holds_alternative<InProgress>(
      DecideBegin(Claimed(absl::Seconds(1)), ProbingBy(kOther), kNow).outcome));
  EXPECT_TRUE(std::holds_alternative<InProgress>(
      DecideBegin(WithUnknown(Released(absl::Seconds(1))), ProbingBy(kOther), kNow).outcome));
}

TEST(DecideBeginTest, WhoCanProbeIsNotGrantedWhereNobodyIs) {
  const auto decision =
      DecideBegin(Claimed(-absl::Seconds(1)), ProbingBy(kOther, LapsePolicy::kInDoubt), kNow);
  EXPECT_FALSE(std::get<InDoubt>(decision.outcome).probe_allowed);
}

TEST(DecideBeginTest, ClaimWithNothingBeforeItIsNoRecovery) {
  const auto fresh = DecideBegin(Released(absl::ZeroDuration()), ProbingBy(kOther), kNow);
  EXPECT_FALSE(std::get<Granted>(fresh.outcome).recovery);
}

TEST(DecideBeginTest, RepeatedRecoveryIsMarkedUnderEveryPolicy) {
  const auto first = DecideBegin(Claimed(-absl::Seconds(1)), ProbingBy(kOther), kNow);
  for (const LapsePolicy changed :
       {LapsePolicy::kRetry, LapsePolicy::kInDoubt, LapsePolicy::kProbe}) {
    const auto again = DecideBegin(*first.row_after, ProbingBy(kOther, changed), kNow);
    EXPECT_TRUE(std::get<Granted>(again.outcome).recovery);
    EXPECT_EQ(std::get<Granted>(again.outcome).claim, std::get<Granted>(first.outcome).claim);
  }
}

TEST(DecideBeginTest, InProgressSaysWhatAPersonNeeds) {
  const OperationRow row = WithUnknown(Claimed(absl::Seconds(7)));
  const auto met = std::get<InProgress>(DecideBegin(row, BeginBy(kOther), kNow).outcome);
  EXPECT_EQ(met.consumer, "consumer");
  EXPECT_EQ(met.handler_version, "v1");
  EXPECT_EQ(met.lease_remaining, absl::Seconds(7));
  EXPECT_EQ(met.begun, row.claim.begun);
  EXPECT_EQ(met.attempt_number, 2);
  EXPECT_EQ(met.first_digest, row.digest);
}

TEST(DecideBeginTest, ReceiptIsReplayedWhole) {
  const OperationRow row = Completed_(ReceiptStatus::kRejected);
  const auto completed = std::get<Completed>(DecideBegin(row, BeginBy(kOther), kNow).outcome);
  EXPECT_EQ(completed.receipt, *row.receipt);
  EXPECT_EQ(completed.handler_version, "v1");
  EXPECT_EQ(completed.fence, row.claim.fence);
  EXPECT_TRUE(completed.replayed);
  const auto expired = std::get<Expired>(DecideBegin(Tombstone(), BeginBy(kOther), kNow).outcome);
  EXPECT_EQ(expired.status, ReceiptStatus::kSucceeded);
  EXPECT_EQ(expired.completed, row.receipt->completed);
  EXPECT_EQ(expired.handler_version, "v1");
}

TEST(DecideBeginTest, ReceiptOfAVersionThatIsNotReadableHasExpired) {
  const OperationRow row = Completed_(ReceiptStatus::kRejected);  // by version v1
  BeginRequest begin = BeginBy(kOther);
  LookupRequest lookup;
  for (const char* readable : {"v1", "v*", "*"}) {
    begin.readable_versions = lookup.readable_versions = {"v2", readable};
    EXPECT_EQ(std::get<Completed>(DecideBegin(row, begin, kNow).outcome).receipt, *row.receipt);
    EXPECT_EQ(std::get<Completed>(DecideLookup(&row, lookup, kNow)).receipt, *row.receipt);
  }
  begin.readable_versions = lookup.readable_versions = {"v2", "v10", "v1-*"};
  for (const Expired& expired : {std::get<Expired>(DecideBegin(row, begin, kNow).outcome),
                                 std::get<Expired>(DecideLookup(&row, lookup, kNow))}) {
    EXPECT_EQ(expired.status, ReceiptStatus::kRejected);
    EXPECT_EQ(expired.completed, row.receipt->completed);
    EXPECT_EQ(expired.handler_version, "v1");
  }
  // Other content is a conflict still, and only what is completed can expire.
  begin.digest = DigestNumber(2);
  EXPECT_TRUE(std::holds_alternative<Conflict>(DecideBegin(row, begin, kNow).outcome));
  const OperationRow claimed = Claimed(absl::Seconds(1));
  EXPECT_TRUE(std::holds_alternative<InProgress>(DecideLookup(&claimed, lookup, kNow)));
}

// ---- the owner's commands ----

struct OwnerCase {
  const char* name;
  OperationRow row;
  const char* complete;
  const char* complete_other_result;
  const char* release;
  const char* forget;
  const char* renew;
};

const std::vector<OwnerCase>& OwnerTable() {
  static const auto* const table = new std::vector<OwnerCase>{
      {"live claim", Claimed(absl::Seconds(29)), "completed, written", "completed, written",
       "released, written", "forgotten, deleted", "renewed, written"},
      {"lapsed claim", Claimed(-absl::Hours(1)), "completed, written", "completed, written",
       "released, written", "forgotten, deleted", "renewed, written"},
      {"take-over", WithUnknown(Claimed(absl::Seconds(29))), "completed, written",
       "completed, written", "released, written", "released, written", "renewed, written"},
      {"released", Released(absl::ZeroDuration()), "claim lost", "claim lost", "released",
       "released", "claim lost"},
      {"released, delayed", Released(absl::Seconds(9)), "claim lost", "claim lost", "released",
       "released", "claim lost"},
      {"completed", Completed_(), "completed", "completion conflict", "claim lost", "claim lost",
       "claim lost"},
      {"tombstone", Tombstone(), "completed", "completion conflict", "claim lost", "claim lost",
       "claim lost"},
  };
  return *table;
}

TEST(DecideOwnerTest, OutcomeFollowsFromTheRow) {
  for (const OwnerCase& c : OwnerTable()) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(Told(DecideComplete(&c.row, CompleteBy(kHolder, 100), kNow)), c.complete);
    EXPECT_EQ(Told(DecideComplete(&c.row, CompleteBy(kHolder, 100, "other"), kNow)),
              c.complete_other_result);
    EXPECT_EQ(Told(DecideAbandon(&c.row, AbandonBy(kHolder, 100), kNow)), c.release);
    EXPECT_EQ(Told(DecideAbandon(&c.row, AbandonBy(kHolder, 100, true), kNow)), c.forget);
    EXPECT_EQ(Told(DecideRenew(&c.row, RenewBy(kHolder, 100), kNow)), c.renew);
  }
}

TEST(DecideOwnerTest, WhoDoesNotHoldTheClaimHasLostIt) {
  const std::vector<std::pair<AttemptId, int64_t>> others = {
      {kOther, 100}, {kHolder, 99}, {kHolder, 101}, {kEarlier, 90}, {kOther, 0}};
  for (const OwnerCase& c : OwnerTable()) {
    SCOPED_TRACE(c.name);
    for (const auto& [attempt, fence] : others) {
      EXPECT_EQ(Told(DecideComplete(&c.row, CompleteBy(attempt, fence), kNow)), "claim lost");
      EXPECT_EQ(Told(DecideAbandon(&c.row, AbandonBy(attempt, fence), kNow)), "claim lost");
      EXPECT_EQ(Told(DecideAbandon(&c.row, AbandonBy(attempt, fence, true), kNow)), "claim lost");
      EXPECT_EQ(Told(DecideRenew(&c.row, RenewBy(attempt, fence), kNow)), "claim lost");
    }
  }
}

TEST(DecideOwnerTest, NothingIsFoundWhereThereIsNoRow) {
  EXPECT_EQ(Told(DecideComplete(nullptr, CompleteBy(kHolder, 100), kNow)), "not found");
  EXPECT_EQ(Told(DecideAbandon(nullptr, AbandonBy(kHolder, 100), kNow)), "not found");
  EXPECT_EQ(Told(DecideRenew(nullptr, RenewBy(kHolder, 100), kNow)), "not found");
  EXPECT_EQ(Told(DecideAbandon(nullptr, AbandonBy(kHolder, 100, true), kNow)), "forgotten")
      << "a repeated forget has nothing left to do";
}

TEST(DecideOwnerTest, ClaimLostNamesWhoCameAfter) {
  const OperationRow row = WithUnknown(Claimed(absl::Seconds(29)));
  const auto lost =
      std::get<ClaimLost>(DecideComplete(&row, CompleteBy(kEarlier, 90), kNow).outcome);
  EXPECT_EQ(lost.state, OperationState::kClaimed);
  EXPECT_EQ(lost.consumer, "consumer");
  EXPECT_EQ(lost.fence, row.claim.fence);
  EXPECT_EQ(lost.begun, row.claim.begun);
}

TEST(DecideOwnerTest, ClaimLostNamesNobodyWhereTheOwnerGaveItBack) {
  const OperationRow row = Released(absl::ZeroDuration());
  const auto lost = std::get<ClaimLost>(DecideRenew(&row, RenewBy(kHolder, 100), kNow).outcome);
  EXPECT_EQ(lost.state, OperationState::kReleased);
  EXPECT_EQ(lost.consumer, "");
  EXPECT_EQ(lost.begun, DbTime{});
}

TEST(DecideOwnerTest, CompletionStoresTheReceiptAndNothingElse) {
  const OperationRow row = WithUnknown(Claimed(absl::Seconds(29)));
  const CompleteRequest request = CompleteBy(kHolder, 100, "42");
  const auto decision = DecideComplete(&row, request, kNow);
  OperationRow expected = row;
  expected.state = RowState::kCompleted;
  expected.receipt = Receipt{.status = ReceiptStatus::kSucceeded,
                             .content_type = "text/plain",
                             .result_size = 2,
                             .fingerprint = request.fingerprint,
                             .completed = kNow,
                             .result = "42"};
  EXPECT_EQ(decision.row_after, expected);
  const auto& completed = std::get<Completed>(decision.outcome);
  EXPECT_EQ(completed.receipt, *expected.receipt);
  EXPECT_EQ(completed.fence, row.claim.fence);
  EXPECT_FALSE(completed.replayed);
}

TEST(DecideOwnerTest, RepeatedCompletionHasItsBytesAlsoWhereTheRowHasThemNot) {
  OperationRow large = Completed_();
  large.receipt->result.reset();
  for (const OperationRow& row : {Completed_(), large, Tombstone()}) {
    const auto completed =
        std::get<Completed>(DecideComplete(&row, CompleteBy(kHolder, 100), kNow).outcome);
    EXPECT_TRUE(completed.replayed);
    EXPECT_EQ(completed.receipt.result, "result");
    EXPECT_EQ(completed.receipt.completed, row.receipt->completed);
  }
}

TEST(DecideOwnerTest, CompletionConflictShowsWhatIsStored) {
  const OperationRow row = Completed_();
  const auto conflict = std::get<CompletionConflict>(
      DecideComplete(&row, CompleteBy(kHolder, 100, "x"), kNow).outcome);
  EXPECT_EQ(conflict.stored.receipt, *row.receipt);
}

TEST(DecideOwnerTest, ReleaseHoldsBackForItsDelay) {
  const OperationRow row = WithUnknown(Claimed(absl::Seconds(29)));
  const auto decision = DecideAbandon(&row, AbandonBy(kHolder, 100, false, absl::Seconds(5)), kNow);
  OperationRow expected = row;
  expected.state = RowState::kReleased;
  expected.claim.lease_expires = kNow + absl::Seconds(5);
  EXPECT_EQ(decision.row_after, expected);
}

TEST(DecideOwnerTest, RepeatedReleaseKeepsTheFirstDelay) {
  const OperationRow row = Released(absl::Seconds(1));
  EXPECT_EQ(Told(DecideAbandon(&row, AbandonBy(kHolder, 100, false, absl::Hours(1)), kNow)),
            "released");
}

TEST(DecideOwnerTest, RenewalChangesOnlyTheLeaseAndNeverShortensIt) {
  const OperationRow row = WithUnknown(Claimed(absl::Seconds(29)));
  const auto longer = DecideRenew(&row, RenewBy(kHolder, 100, absl::Minutes(5)), kNow);
  OperationRow expected = row;
  expected.claim.lease_expires = kNow + absl::Minutes(5);
  EXPECT_EQ(longer.row_after, expected);
  EXPECT_EQ(std::get<Renewed>(longer.outcome).claim, expected.claim);
  EXPECT_EQ(std::get<Renewed>(longer.outcome).lease_remaining, absl::Minutes(5));

  const auto shorter = DecideRenew(&row, RenewBy(kHolder, 100, absl::Seconds(1)), kNow);
  EXPECT_EQ(shorter.row_after.value_or(row), row);
  EXPECT_EQ(std::get<Renewed>(shorter.outcome).lease_remaining, absl::Seconds(29));
}

// ---- lookups ----

TEST(DecideLookupTest, OutcomeFollowsFromRowAndPolicy) {
  struct Case {
    const char* name;
    OperationRow row;
    const char* retry;
    const char* doubt;
  };
  const std::vector<Case> table = {
      {"live claim", Claimed(absl::Microseconds(1)), "held", "held"},
      {"lapsed this very microsecond", Claimed(absl::ZeroDuration()), "unclaimed", "in doubt"},
      {"live take-over", WithUnknown(Claimed(absl::Seconds(1))), "held", "held"},
      {"released", Released(absl::ZeroDuration()), "unclaimed", "unclaimed"},
      {"released, delayed", Released(absl::Microseconds(1)), "delayed", "delayed"},
      {"released after a take-over", WithUnknown(Released(absl::ZeroDuration())), "unclaimed",
       "in doubt"},
      {"completed", Completed_(), "completed", "completed"},
      {"tombstone", Tombstone(), "expired", "expired"},
  };
  for (const Case& c : table) {
    SCOPED_TRACE(c.name);
    const auto look = [&](std::optional<Digest> digest, LapsePolicy policy) {
      return std::visit(Name{}, DecideLookup(&c.row, {.digest = digest, .on_lapse = policy}, kNow));
    };
    for (const std::optional<Digest>& digest :
         {std::optional<Digest>(), std::optional<Digest>(DigestNumber(1))}) {
      EXPECT_EQ(look(digest, LapsePolicy::kRetry), c.retry);
      EXPECT_EQ(look(digest, LapsePolicy::kInDoubt), c.doubt);
    }
    EXPECT_EQ(look(DigestNumber(2), LapsePolicy::kRetry), "conflict");
    EXPECT_EQ(look(DigestNumber(1, DigestScheme::kJsonJcsSha256), LapsePolicy::kInDoubt),
              "conflict");
  }
  EXPECT_EQ(std::visit(Name{}, DecideLookup(nullptr, {}, kNow)), "not found");
}

TEST(DecideLookupTest, UnclaimedShowsAnAttemptWithoutOutcome) {
  const OperationRow lapsed = Claimed(-absl::Seconds(1));
  const auto unclaimed = std::get<Unclaimed>(DecideLookup(&lapsed, {}, kNow));
  EXPECT_EQ(unclaimed.state, OperationState::kLapsed);
  EXPECT_EQ(unclaimed.earlier_attempt, lapsed.claim);
  const OperationRow released = Released(-absl::Seconds(1));
  EXPECT_FALSE(std::get<Unclaimed>(DecideLookup(&released, {}, kNow)).earlier_attempt.has_value());
}

// ---- fingerprints ----

TEST(FingerprintTest, DelimitsItsParts) {
  const Sha256 one = FingerprintOf(ReceiptStatus::kSucceeded, "a", "bc");
  EXPECT_EQ(one, FingerprintOf(ReceiptStatus::kSucceeded, "a", "bc"));
  EXPECT_NE(one, FingerprintOf(ReceiptStatus::kSucceeded, "ab", "c"));
  EXPECT_NE(one, FingerprintOf(ReceiptStatus::kSucceeded, "", "abc"));
  EXPECT_NE(one, FingerprintOf(ReceiptStatus::kRejected, "a", "bc"));
  EXPECT_NE(FingerprintOf(ReceiptStatus::kSucceeded, "1:", ""),
            FingerprintOf(ReceiptStatus::kSucceeded, "", "1:"));
}

}  // namespace
}  // namespace once::core
