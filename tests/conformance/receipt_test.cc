// Receipts and conflicts.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "conformance/harness.h"
#include "core/limits.h"

namespace once::conformance {
namespace {

using ::testing::Gt;
using ::testing::IsEmpty;
using ::testing::Le;

class ReceiptTest : public OperationTest {
 protected:
  // An operation that is done.
  core::ClaimInfo Done(const core::OperationKey& key, std::string result = "result") {
    const core::ClaimInfo claim = Claim(key);
    (void)Get<core::Completed>(Complete(key, CompleteOf(claim, std::move(result))));
    return claim;
  }
};
ONCE_OPERATION_SUITE(ReceiptTest);

TEST_P(ReceiptTest, CompletedOperationAnswersWithItsReceipt) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  const core::CompleteRequest request = CompleteOf(claim, "42 points");

  const auto completed = Get<core::Completed>(Complete(key, request));
  const auto replayed = Get<core::Completed>(Begin(key, BeginOf(NewAttempt())));

  EXPECT_EQ(completed.replayed, told_unknown());
  EXPECT_EQ(completed.fence, claim.fence);
  EXPECT_EQ(completed.handler_version, "v1");
  EXPECT_TRUE(replayed.replayed);
  EXPECT_EQ(replayed.fence, claim.fence);
  EXPECT_EQ(replayed.handler_version, "v1");
  EXPECT_EQ(replayed.receipt, completed.receipt);
  EXPECT_EQ(replayed.receipt.status, core::ReceiptStatus::kSucceeded);
  EXPECT_EQ(replayed.receipt.result, "42 points");
  EXPECT_EQ(replayed.receipt.content_type, "text/plain");
  EXPECT_EQ(replayed.receipt.result_size, 9);
  EXPECT_EQ(replayed.receipt.fingerprint, request.fingerprint);
  EXPECT_THAT(replayed.receipt.completed, Gt(claim.begun));
}

TEST_P(ReceiptTest, ResultsOfAllSizesComeBackByteForByte) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{511}, core::kMaxInlineResultBytes,
                            core::kMaxInlineResultBytes + 1, size_t{65'535}, size_t{65'536},
                            size_t{1} << 20, (size_t{1} << 20) + 1, size_t{3} << 20}) {
    SCOPED_TRACE(size);
    const core::OperationKey key = Key(absl::StrCat("order-", size));
    const std::string result = RandomBytes(size, size);
    const core::ClaimInfo claim = Claim(key);
    (void)Get<core::Completed>(Complete(key, CompleteOf(claim, result)));

    const auto replayed = Get<core::Completed>(Begin(key, BeginOf(NewAttempt())));
    EXPECT_EQ(replayed.receipt.result_size, static_cast<int64_t>(size));
    // What the pipeline does: large bodies are read apart.
    EXPECT_EQ(replayed.receipt.result.has_value(), size <= core::kMaxInlineResultBytes);
    EXPECT_EQ(BodyOf(key).has_value(), size > core::kMaxInlineResultBytes);
    EXPECT_TRUE(ReceiptOf(key).result == result);
  }
}

TEST_P(ReceiptTest, BodiesAreReadForManyKeysAtOnce) {
  std::vector<core::OperationKey> keys;
  for (int i = 0; i < 4; ++i) {
    keys.push_back(Key(absl::StrCat("order-", i)));
  }
  (void)Done(keys[0], std::string(1000, 'a'));
  (void)Done(keys[1], "small");
  (void)Done(keys[3], std::string(2000, 'b'));
  auto reader = store().OpenReadSession();
  ASSERT_TRUE(reader.ok());

  auto bodies = (*reader)->ReadBodies(keys);

  ASSERT_TRUE(bodies.ok()) << bodies.status();
  ASSERT_EQ(bodies->size(), 4);
  EXPECT_EQ((*bodies)[0], std::string(1000, 'a'));
  EXPECT_EQ((*bodies)[1], std::nullopt);
  EXPECT_EQ((*bodies)[2], std::nullopt);
  EXPECT_EQ((*bodies)[3], std::string(2000, 'b'));
}

TEST_P(ReceiptTest, ReceiptOutlivesEverythingThatHappensLater) {
  const core::OperationKey key = Key("order-1");
  (void)Done(key, RandomBytes(700, 1));
  const core::Receipt first = ReceiptOf(key);

  for (int i = 0; i < 10; ++i) {
    (void)Done(Key(absl::StrCat("later-", i)), RandomBytes(700, 2));
    (void)Begin(key, BeginOf(NewAttempt()));
  }
  RestartServer();

  EXPECT_EQ(ReceiptOf(key), first);
  auto replayed = Get<core::Completed>(Begin(key, BeginOf(NewAttempt()))).receipt;
  replayed.result = first.result;
  EXPECT_EQ(replayed, first);
}

TEST_P(ReceiptTest, FinalRefusalIsReplayedAsOne) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  const auto completed = Get<core::Completed>(Complete(
      key, CompleteOf(claim, "account closed", core::ReceiptStatus::kRejected, "text/plain")));
  for (int i = 0; i < 3; ++i) {
    const auto replayed = Get<core::Completed>(Begin(key, BeginOf(NewAttempt())));
    EXPECT_TRUE(replayed.replayed);
    EXPECT_EQ(replayed.receipt, completed.receipt);
    EXPECT_EQ(replayed.receipt.status, core::ReceiptStatus::kRejected);
  }
}

// ---- repeats of Complete (P5) ----

TEST_P(ReceiptTest, RepeatedCompleteGetsTheFirstReceipt) {
  for (const size_t size : {size_t{5}, size_t{5000}}) {
    SCOPED_TRACE(size);
    const core::OperationKey key = Key(absl::StrCat("order-", size));
    const core::ClaimInfo claim = Claim(key);
    const core::CompleteRequest request = CompleteOf(claim, RandomBytes(size, 3));
    const auto first = Get<core::Completed>(Complete(key, request));

    const auto again = Get<core::Completed>(Complete(key, request));

    EXPECT_TRUE(again.replayed);
    EXPECT_EQ(again.receipt, first.receipt);
    EXPECT_EQ(again.fence, first.fence);
  }
}

TEST_P(ReceiptTest, SameAttemptCannotCompleteWithAnotherResult) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  (void)Get<core::Completed>(Complete(key, CompleteOf(claim, "one")));
  const core::Receipt stored = ReceiptOf(key);

  for (const core::CompleteRequest& other :
       {CompleteOf(claim, "two"), CompleteOf(claim, "one", core::ReceiptStatus::kRejected),
        CompleteOf(claim, "one", core::ReceiptStatus::kSucceeded, "text/html"),
        CompleteOf(claim, "")}) {
    const auto conflict = Get<core::CompletionConflict>(Complete(key, other));
    EXPECT_EQ(conflict.stored.receipt, stored);
  }
  EXPECT_EQ(ReceiptOf(key), stored);
  EXPECT_EQ(LoggedOutcomes(key).back(), store::AttemptOutcome::kConflict);
}

TEST_P(ReceiptTest, OtherAttemptsCannotComplete) {
  const core::OperationKey key = Key("order-1");
  core::ClaimInfo claim = Done(key);
  const core::Receipt stored = ReceiptOf(key);
  claim.attempt = NewAttempt();
  const auto lost = Get<core::ClaimLost>(Complete(key, CompleteOf(claim)));
  EXPECT_EQ(lost.state, core::OperationState::kCompleted);
  EXPECT_EQ(ReceiptOf(key), stored);
}

TEST_P(ReceiptTest, OwnerOfACompletedOperationHoldsNothingMore) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Done(key);
  EXPECT_EQ(Get<core::ClaimLost>(Renew(key, RenewOf(claim, absl::Hours(1)))).state,
            core::OperationState::kCompleted);
  EXPECT_EQ(Get<core::ClaimLost>(Abandon(key, ReleaseOf(claim))).state,
            core::OperationState::kCompleted);
  EXPECT_EQ(Get<core::ClaimLost>(Abandon(key, ForgetOf(claim))).state,
            core::OperationState::kCompleted);
  EXPECT_EQ(Row(key)->state, core::RowState::kCompleted);
}

TEST_P(ReceiptTest, OwnersRepeatedBeginGetsTheReceipt) {
  const core::OperationKey key = Key("order-1");
  const core::BeginRequest request = BeginOf(NewAttempt());
  const auto granted = Get<core::Granted>(Begin(key, request));
  (void)Complete(key, CompleteOf(granted.claim, "done"));
  EXPECT_EQ(Get<core::Completed>(Begin(key, request)).receipt.result, "done");
}

// ---- conflicts on every path (B1, P3) ----

class ConflictTest : public ReceiptTest {
 protected:
  void ExpectConflict(const core::OperationKey& key, core::OperationState state,
                      core::LapsePolicy on_lapse = core::LapsePolicy::kRetry) {
    const auto before = Row(key);
    core::BeginRequest other = BeginOf(NewAttempt(), "other content");
    other.on_lapse = on_lapse;
    const auto met = Get<core::Conflict>(Begin(key, other));
    EXPECT_EQ(met.difference, core::Conflict::Difference::kDigest);
    EXPECT_EQ(met.first_digest, DigestOf("content"));
    EXPECT_EQ(met.request_digest, DigestOf("other content"));
    EXPECT_EQ(met.state, state);
    EXPECT_EQ(met.consumer, before->claim.consumer);
    EXPECT_EQ(met.first_seen, before->first_seen);

    const auto seen = Get<core::Conflict>(Lookup(key, DigestOf("other content"), on_lapse));
    EXPECT_EQ(seen.state, state);
    EXPECT_EQ(seen.first_digest, DigestOf("content"));

    auto after = Row(key);
    after->deliveries = before->deliveries;
    EXPECT_EQ(after, before);
    EXPECT_EQ(LoggedOutcomes(key).back(), store::AttemptOutcome::kConflict);
  }
};
ONCE_OPERATION_SUITE(ConflictTest);

TEST_P(ConflictTest, WithALiveClaim) {
  const core::OperationKey key = Key("order-1");
  (void)Claim(key);
  ExpectConflict(key, core::OperationState::kClaimed);
  EXPECT_THAT(Get<core::Conflict>(Lookup(key, DigestOf("other"))).lease_remaining,
              Gt(absl::Minutes(9)));
}

TEST_P(ConflictTest, WithALapsedClaim) {
  const core::OperationKey key = Key("order-1");
  (void)Claim(key);
  Lapse(key);
  ExpectConflict(key, core::OperationState::kLapsed);
  ExpectConflict(key, core::OperationState::kInDoubt, core::LapsePolicy::kInDoubt);
}

TEST_P(ConflictTest, WithAReleasedOperation) {
  const core::OperationKey key = Key("order-1");
  (void)Abandon(key, ReleaseOf(Claim(key)));
  ExpectConflict(key, core::OperationState::kReleased);
}

TEST_P(ConflictTest, WithACompletedOperation) {
  const core::OperationKey key = Key("order-1");
  (void)Done(key);
  ExpectConflict(key, core::OperationState::kCompleted);
}

TEST_P(ConflictTest, WithATombstone) {
  const core::OperationKey key = Key("order-1");
  (void)Done(key);
  MakeTombstone(key);
  ExpectConflict(key, core::OperationState::kTombstone);
}

TEST_P(ConflictTest, OfTheHolderWithItself) {
  const core::OperationKey key = Key("order-1");
  const core::BeginRequest request = BeginOf(NewAttempt());
  (void)Begin(key, request);
  core::BeginRequest other = request;
  other.digest = DigestOf("other content");
  (void)Get<core::Conflict>(Begin(key, other));
  (void)Get<core::Granted>(Begin(key, request));
}

TEST_P(ConflictTest, WithinOneBatch) {
  const core::OperationKey key = Key("order-1");
  const auto answers = Run({BeginCommand(key, BeginOf(NewAttempt())),
                            BeginCommand(key, BeginOf(NewAttempt(), "other"))});
  ASSERT_EQ(answers.size(), 2);
  (void)Get<core::Granted>(std::get<core::BeginOutcome>(answers[0]));
  (void)Get<core::Conflict>(std::get<core::BeginOutcome>(answers[1]));
}

TEST_P(ConflictTest, OfSchemesWhateverTheDigestsAre) {
  const core::OperationKey key = Key("order-1");
  (void)Claim(key);
  core::BeginRequest other = BeginOf(NewAttempt());
  other.digest.scheme = core::DigestScheme::kJsonJcsSha256;
  const auto met = Get<core::Conflict>(Begin(key, other));
  EXPECT_EQ(met.difference, core::Conflict::Difference::kScheme);
  EXPECT_EQ(met.first_digest.scheme, core::DigestScheme::kRawSha256);
}

TEST_P(ConflictTest, LookupWithTheSameDigestIsNone) {
  const core::OperationKey key = Key("order-1");
  (void)Done(key);
  (void)Get<core::Completed>(Lookup(key, DigestOf("content")));
}

TEST_P(ConflictTest, DigestsThatDifferInOneBitDiffer) {
  const core::OperationKey key = Key("order-1");
  (void)Claim(key);
  for (const size_t byte : {size_t{0}, size_t{31}}) {
    core::BeginRequest other = BeginOf(NewAttempt());
    other.digest.sha256[byte] ^= 1;
    (void)Get<core::Conflict>(Begin(key, other));
  }
}

// ---- tombstones (B9) ----

class TombstoneTest : public ReceiptTest {};
ONCE_OPERATION_SUITE(TombstoneTest);

TEST_P(TombstoneTest, BlocksExecutionAndSaysWhatHappened) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  const auto completed = Get<core::Completed>(
      Complete(key, CompleteOf(claim, RandomBytes(900, 1), core::ReceiptStatus::kRejected)));
  MakeTombstone(key);

  for (const core::AttemptId attempt : {NewAttempt(), claim.attempt}) {
    const auto expired = Get<core::Expired>(Begin(key, BeginOf(attempt)));
    EXPECT_EQ(expired.status, core::ReceiptStatus::kRejected);
    EXPECT_EQ(expired.completed, completed.receipt.completed);
  }
  EXPECT_EQ(Get<core::Expired>(Lookup(key)).status, core::ReceiptStatus::kRejected);
  EXPECT_EQ(BodyOf(key), std::nullopt);
}

TEST_P(TombstoneTest, StillKnowsTheOwnersReceipt) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Done(key, "result");
  MakeTombstone(key);
  EXPECT_EQ(Get<core::Completed>(Complete(key, CompleteOf(claim, "result"))).receipt.result,
            "result");
  (void)Get<core::CompletionConflict>(Complete(key, CompleteOf(claim, "other")));
  (void)Get<core::ClaimLost>(Abandon(key, ForgetOf(claim)));
}

// ---- all at once (B7) ----

TEST_P(ReceiptTest, CallersCanTellTheStatesApart) {
  const auto key = [this](absl::string_view name) { return Key(name); };
  const auto asking = [this] {
    core::BeginRequest request = BeginOf(NewAttempt());
    request.on_lapse = core::LapsePolicy::kInDoubt;
    return request;
  };
  (void)Done(key("completed"));
  (void)Complete(key("rejected"),
                 CompleteOf(Claim(key("rejected")), "", core::ReceiptStatus::kRejected));
  (void)Claim(key("in progress"));
  (void)Claim(key("in doubt"));
  Lapse(key("in doubt"));
  (void)Abandon(key("released"), ReleaseOf(Claim(key("released"))));
  (void)Done(key("expired"));
  MakeTombstone(key("expired"));

  EXPECT_EQ(Get<core::Completed>(Begin(key("completed"), asking())).receipt.status,
            core::ReceiptStatus::kSucceeded);
  EXPECT_EQ(Get<core::Completed>(Begin(key("rejected"), asking())).receipt.status,
            core::ReceiptStatus::kRejected);
  (void)Get<core::InProgress>(Begin(key("in progress"), asking()));
  (void)Get<core::InDoubt>(Begin(key("in doubt"), asking()));
  EXPECT_EQ(Get<core::Unclaimed>(Lookup(key("released"))).state, core::OperationState::kReleased);
  EXPECT_EQ(Get<core::Granted>(Begin(key("released"), asking())).attempt_number, 2);
  (void)Get<core::Expired>(Begin(key("expired"), asking()));
}

}  // namespace
}  // namespace once::conformance
