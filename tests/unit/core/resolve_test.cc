// DecideResolve: what an operator's decision means for an operation in every state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/decide.h"
#include "core/fingerprint.h"

namespace once::core {
namespace {

constexpr DbTime kNow{1'000'000'000};
constexpr Fence kFence{77};

AttemptId Attempt(uint8_t number) {
  AttemptId attempt;
  attempt.bytes.fill(number);
  return attempt;
}

OperationRow Claimed(absl::Duration lease_left) {
  OperationRow row;
  row.claim = ClaimInfo{.attempt = Attempt(1),
                        .fence = kFence,
                        .consumer = "worker-1",
                        .handler_version = "v1",
                        .begun = kNow + -absl::Seconds(60),
                        .lease_expires = kNow + lease_left};
  row.claims = 2;
  row.unknown = ClaimInfo{.attempt = Attempt(9),
                          .fence = {70},
                          .consumer = "worker-0",
                          .handler_version = "v0",
                          .begun = {},
                          .lease_expires = {}};
  row.unknown_attempts = 1;
  return row;
}
OperationRow Lapsed() { return Claimed(-absl::Seconds(1)); }
OperationRow Released() {
  OperationRow row = Lapsed();
  row.state = RowState::kReleased;
  return row;
}

ResolveRequest Found(Verdict verdict, std::string result = "result") {
  ResolveRequest request{
      .attempt = Attempt(1), .fence = kFence, .verdict = verdict, .result = {}, .content_type = {}};
  if (verdict == Verdict::kNotDone) return request;
  request.content_type = "text/plain";
  request.fingerprint = FingerprintOf(
      verdict == Verdict::kDone ? ReceiptStatus::kSucceeded : ReceiptStatus::kRejected,
      request.content_type, result);
  request.result = std::move(result);
  return request;
}

template <typename Outcome>
const Outcome* GetIf(const Decision<ResolveOutcome>& decision) {
  return std::get_if<Outcome>(&decision.outcome);
}

TEST(DecideResolveTest, DoneAndRefusedStoreAReceipt) {
  for (const OperationRow& row : {Lapsed(), Released()}) {
    for (const Verdict verdict : {Verdict::kDone, Verdict::kRefused}) {
      const auto decision = DecideResolve(&row, Found(verdict), kNow);
      ASSERT_NE(GetIf<Completed>(decision), nullptr);
      EXPECT_FALSE(GetIf<Completed>(decision)->replayed);
      ASSERT_TRUE(decision.row_after.has_value());
      EXPECT_EQ(decision.row_after->state, RowState::kCompleted);
      ASSERT_TRUE(decision.row_after->receipt.has_value());
      const Receipt& receipt = *decision.row_after->receipt;
      EXPECT_EQ(receipt.status,
                verdict == Verdict::kDone ? ReceiptStatus::kSucceeded : ReceiptStatus::kRejected);
      EXPECT_EQ(receipt.result, "result");
      EXPECT_EQ(receipt.completed, kNow);
      EXPECT_EQ(decision.row_after->claim, row.claim);
    }
  }
}

TEST(DecideResolveTest, NotDoneReleasesAndNothingIsUnknownAnyMore) {
  for (const OperationRow& row : {Lapsed(), Released()}) {
    const auto decision = DecideResolve(&row, Found(Verdict::kNotDone), kNow);
    ASSERT_NE(GetIf<core::Released>(decision), nullptr);
    ASSERT_TRUE(decision.row_after.has_value());
    EXPECT_EQ(decision.row_after->state, RowState::kReleased);
    EXPECT_FALSE(decision.row_after->unknown.has_value());
    EXPECT_EQ(decision.row_after->unknown_attempts, 0);
    EXPECT_FALSE(decision.delete_row);

    // Whatever the policy, the next one runs, with a higher fence and without a doubt.
    BeginRequest next;
    next.attempt = Attempt(3);
    next.lease = absl::Seconds(30);
    next.on_lapse = LapsePolicy::kInDoubt;
    const auto begun = DecideBegin(*decision.row_after, next, kNow);
    const auto* granted = std::get_if<Granted>(&begun.outcome);
    ASSERT_NE(granted, nullptr);
    EXPECT_GT(granted->claim.fence, kFence);
    EXPECT_FALSE(granted->earlier_attempt.has_value());

    // And the silent one is told that it lost, whatever it wants.
    CompleteRequest late;
    late.attempt = Attempt(1);
    late.fence = kFence;
    EXPECT_TRUE(std::holds_alternative<ClaimLost>(
        DecideComplete(&*decision.row_after, late, kNow).outcome));
  }
}

TEST(DecideResolveTest, ALiveClaimIsItsHolders) {
  const OperationRow row = Claimed(absl::Seconds(5));
  for (const Verdict verdict : {Verdict::kDone, Verdict::kRefused, Verdict::kNotDone}) {
    const auto decision = DecideResolve(&row, Found(verdict), kNow);
    ASSERT_NE(GetIf<InProgress>(decision), nullptr);
    EXPECT_EQ(GetIf<InProgress>(decision)->consumer, "worker-1");
    EXPECT_EQ(GetIf<InProgress>(decision)->lease_remaining, absl::Seconds(5));
    EXPECT_FALSE(decision.row_after.has_value());
  }
}

TEST(DecideResolveTest, AnotherClaimIsNotDecidedAbout) {
  const OperationRow row = Lapsed();
  ResolveRequest other_fence = Found(Verdict::kDone);
  other_fence.fence.value -= 1;
  ResolveRequest other_attempt = Found(Verdict::kDone);
  other_attempt.attempt = Attempt(2);
  for (const ResolveRequest& request : {other_fence, other_attempt}) {
    const auto decision = DecideResolve(&row, request, kNow);
    ASSERT_NE(GetIf<ClaimLost>(decision), nullptr);
    EXPECT_EQ(GetIf<ClaimLost>(decision)->consumer, "worker-1");
    EXPECT_FALSE(decision.row_after.has_value());
  }
  EXPECT_NE(GetIf<NotFound>(DecideResolve(nullptr, Found(Verdict::kDone), kNow)), nullptr);
}

TEST(DecideResolveTest, RepeatsAreAnsweredAsTheFirstWas) {
  const OperationRow row = Lapsed();
  const OperationRow done = *DecideResolve(&row, Found(Verdict::kDone), kNow).row_after;
  const auto again = DecideResolve(&done, Found(Verdict::kDone), kNow);
  ASSERT_NE(GetIf<Completed>(again), nullptr);
  EXPECT_TRUE(GetIf<Completed>(again)->replayed);
  EXPECT_FALSE(again.row_after.has_value());

  const OperationRow released = *DecideResolve(&row, Found(Verdict::kNotDone), kNow).row_after;
  const auto free = DecideResolve(&released, Found(Verdict::kNotDone), kNow);
  EXPECT_NE(GetIf<core::Released>(free), nullptr);
  EXPECT_FALSE(free.row_after.has_value());
}

TEST(DecideResolveTest, AReceiptStands) {
  const OperationRow row = Lapsed();
  const OperationRow done = *DecideResolve(&row, Found(Verdict::kDone), kNow).row_after;
  for (const ResolveRequest& request :
       {Found(Verdict::kDone, "another"), Found(Verdict::kRefused), Found(Verdict::kNotDone)}) {
    const auto decision = DecideResolve(&done, request, kNow);
    ASSERT_NE(GetIf<CompletionConflict>(decision), nullptr);
    EXPECT_EQ(GetIf<CompletionConflict>(decision)->stored.receipt.result, "result");
    EXPECT_FALSE(decision.row_after.has_value());
  }
  // The silent attempt that comes back after all.
  CompleteRequest late;
  late.attempt = Attempt(1);
  late.fence = kFence;
  late.fingerprint = FingerprintOf(ReceiptStatus::kSucceeded, "", "mine");
  EXPECT_TRUE(
      std::holds_alternative<CompletionConflict>(DecideComplete(&done, late, kNow).outcome));
}

TEST(DecideResolveTest, ADelayOfTheReleaseIsOver) {
  OperationRow row = Released();
  row.claim.lease_expires = kNow + absl::Hours(1);  // nobody was to try before
  const auto decision = DecideResolve(&row, Found(Verdict::kNotDone), kNow);
  ASSERT_TRUE(decision.row_after.has_value());
  EXPECT_LE(decision.row_after->claim.lease_expires, kNow);
}

// ---- reset ----

OperationRow Done(RowState state = RowState::kCompleted) {
  OperationRow row = Lapsed();
  row.state = state;
  row.receipt.emplace().completed = kNow;
  return row;
}

TEST(DecideResetTest, ACompletedOneMayRunAgain) {
  for (const RowState state : {RowState::kCompleted, RowState::kTombstone}) {
    const OperationRow row = Done(state);
    const auto decision = DecideReset(&row, {.fence = kFence}, kNow);
    EXPECT_TRUE(std::holds_alternative<core::Released>(decision.outcome));
    ASSERT_TRUE(decision.row_after.has_value());
    EXPECT_EQ(decision.row_after->state, RowState::kReleased);
    EXPECT_FALSE(decision.row_after->receipt.has_value());
    EXPECT_FALSE(decision.row_after->unknown.has_value());
    EXPECT_EQ(decision.row_after->digest, row.digest);
    BeginRequest next;
    next.attempt = Attempt(3);
    next.lease = absl::Seconds(30);
    const auto begun = DecideBegin(*decision.row_after, next, kNow);
    ASSERT_TRUE(std::holds_alternative<Granted>(begun.outcome));
    EXPECT_GT(std::get<Granted>(begun.outcome).claim.fence, kFence);

    const auto again = DecideReset(&*decision.row_after, {.fence = kFence}, kNow);
    EXPECT_TRUE(std::holds_alternative<core::Released>(again.outcome));
    EXPECT_FALSE(again.row_after.has_value());
  }
}

TEST(DecideResetTest, NothingElseIsChanged) {
  const OperationRow done = Done();
  const auto later = DecideReset(&done, {.fence = {kFence.value - 1}}, kNow);
  EXPECT_TRUE(std::holds_alternative<ClaimLost>(later.outcome));
  EXPECT_FALSE(later.row_after.has_value());
  for (const OperationRow& row : {Lapsed(), Claimed(absl::Seconds(5))}) {
    const auto held = DecideReset(&row, {.fence = kFence}, kNow);
    EXPECT_TRUE(std::holds_alternative<InProgress>(held.outcome));
    EXPECT_FALSE(held.row_after.has_value());
  }
  EXPECT_TRUE(
      std::holds_alternative<NotFound>(DecideReset(nullptr, {.fence = kFence}, kNow).outcome));
}

}  // namespace
}  // namespace once::core
