#include "rpc/response.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "rpc/batch_answer.h"
#include "unit/rpc/status_matchers.h"

namespace once::rpc {
namespace {

using base::ErrorReason;
using ::once::testing::HasMetadata;
using ::once::testing::IsError;
using ::testing::AllOf;

constexpr core::DbTime kBegun{1'700'000'000'250'000};
constexpr core::DbTime kExpires{1'700'000'030'250'000};

core::ClaimInfo Claim() {
  core::ClaimInfo claim;
  claim.attempt.bytes.fill('a');
  claim.fence = {17};
  claim.consumer = "worker-3";
  claim.handler_version = "1.2";
  claim.begun = kBegun;
  claim.lease_expires = kExpires;
  return claim;
}

core::Completed Stored(bool replayed) {
  core::Completed completed;
  completed.receipt.status = core::ReceiptStatus::kRejected;
  completed.receipt.content_type = "text/plain";
  completed.receipt.result_size = 6;
  completed.receipt.completed = kBegun;
  completed.receipt.result = std::string("res\0lt", 6);
  completed.handler_version = "1.2";
  completed.fence = {17};
  completed.replayed = replayed;
  return completed;
}

core::Digest Digest(char fill) {
  core::Digest digest;
  digest.scheme = core::DigestScheme::kJsonJcsSha256;
  digest.sha256.fill(static_cast<uint8_t>(fill));
  return digest;
}

// The response in text form, so that a test sees every field.
template <typename Response, typename Outcome>
std::string Text(Outcome outcome, absl::string_view name) {
  Response response;
  const auto filled = FillResponse(std::move(outcome), {"points.grant", std::nullopt}, &response);
  EXPECT_TRUE(filled.ok()) << filled.status();
  EXPECT_EQ(filled.value_or(""), name);
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(response, &text);
  return text;
}

const std::string kA16 = "aaaaaaaaaaaaaaaa";
const std::string kClaimText = "attempt_id: \"" + kA16 +
                               "\" fence: 17 lease_remaining { seconds: 30 } lease_expire_time { "
                               "seconds: 1700000030 nanos: 250000000 } ";
const std::string kEarlierText =
    "attempt_id: \"" + kA16 +
    "\" fence: 17 consumer: \"worker-3\" handler_version: \"1.2\" begin_time { seconds: 1700000000 "
    "nanos: 250000000 } lease_expire_time { seconds: 1700000030 nanos: 250000000 } ";
const std::string kReceiptText =
    "receipt { status: RECEIPT_STATUS_REJECTED result: \"res\\000lt\" content_type: \"text/plain\" "
    "handler_version: \"1.2\" complete_time { seconds: 1700000000 nanos: 250000000 } fence: 17 "
    "result_size: 6 } ";

TEST(DedupeRetentionTest, CompletedSaysUntilWhenDuplicatesAreRecognised) {
  constexpr absl::Duration kWeek = absl::Hours(7 * 24);
  v1::BeginResponse begin;
  ASSERT_TRUE(FillResponse(core::BeginOutcome(Stored(true)), {"h", kWeek}, &begin).ok());
  EXPECT_EQ(begin.completed().dedupe_guaranteed_until_time().seconds(), 1'700'000'000 + 604'800);
  EXPECT_EQ(begin.completed().dedupe_guaranteed_until_time().nanos(), 250'000'000);
  v1::CompleteResponse complete;
  ASSERT_TRUE(FillResponse(core::CompleteOutcome(Stored(false)), {"h", kWeek}, &complete).ok());
  EXPECT_TRUE(complete.completed().has_dedupe_guaranteed_until_time());
  v1::LookupResponse lookup;
  ASSERT_TRUE(FillResponse(core::LookupOutcome(Stored(true)), {"h", kWeek}, &lookup).ok());
  EXPECT_TRUE(lookup.completed().has_dedupe_guaranteed_until_time());
  v1::BeginResponse without;
  ASSERT_TRUE(FillResponse(core::BeginOutcome(Stored(true)), {"h", std::nullopt}, &without).ok());
  EXPECT_FALSE(without.completed().has_dedupe_guaranteed_until_time());
}

TEST(RecoveryTest, ClaimAndDoubtSayWhatProbingChanges) {
  core::Granted granted;
  granted.claim = Claim();
  granted.earlier_attempt = Claim();
  granted.recovery = true;
  v1::BeginResponse response;
  ASSERT_TRUE(FillResponse(core::BeginOutcome(granted), {"h", std::nullopt}, &response).ok());
  EXPECT_TRUE(response.granted().recovery());
  core::InDoubt doubt;
  doubt.probe_allowed = true;
  ASSERT_TRUE(FillResponse(core::BeginOutcome(doubt), {"h", std::nullopt}, &response).ok());
  EXPECT_TRUE(response.in_doubt().probe_allowed());
  EXPECT_THAT(response.in_doubt().resolution(), ::testing::HasSubstr("can_probe"));
}

TEST(ResponseTest, Granted) {
  core::Granted granted;
  granted.claim = Claim();
  granted.lease_remaining = absl::Seconds(30);
  granted.attempt_number = 2;
  EXPECT_EQ((Text<v1::BeginResponse>(core::BeginOutcome(granted), "granted")),
            "granted { claim { " + kClaimText + "} attempt_number: 2 } ");
  granted.earlier_attempt = Claim();
  EXPECT_EQ((Text<v1::BeginResponse>(core::BeginOutcome(granted), "granted")),
            "granted { claim { " + kClaimText + "} attempt_number: 2 earlier_attempt { " +
                kEarlierText + "} } ");
}

TEST(ResponseTest, Completed) {
  EXPECT_EQ((Text<v1::BeginResponse>(core::BeginOutcome(Stored(true)), "replayed")),
            "completed { " + kReceiptText + "replayed: true } ");
  EXPECT_EQ((Text<v1::CompleteResponse>(core::CompleteOutcome(Stored(false)), "completed")),
            "completed { " + kReceiptText + "} ");
  EXPECT_EQ((Text<v1::LookupResponse>(core::LookupOutcome(Stored(true)), "replayed")),
            "completed { " + kReceiptText + "replayed: true } ");
}

TEST(ResponseTest, MissingBodyIsMarkedNotEmpty) {
  core::Completed completed = Stored(true);
  completed.receipt.result = std::nullopt;
  v1::LookupResponse response;
  ASSERT_TRUE(FillResponse(core::LookupOutcome(completed), {"h", std::nullopt}, &response).ok());
  EXPECT_TRUE(response.completed().receipt().result_omitted());
  completed.receipt.result_size = 0;
  ASSERT_TRUE(FillResponse(core::LookupOutcome(completed), {"h", std::nullopt}, &response).ok());
  EXPECT_FALSE(response.completed().receipt().result_omitted());
}

TEST(ResponseTest, InProgress) {
  core::InProgress in_progress;
  in_progress.consumer = "worker-3";
  in_progress.handler_version = "1.2";
  in_progress.lease_remaining = absl::Seconds(4);
  in_progress.begun = kBegun;
  in_progress.attempt_number = 3;
  in_progress.first_digest = Digest('d');
  const std::string tail =
      "begin_time { seconds: 1700000000 nanos: 250000000 } handler_version: \"1.2\" "
      "attempt_number: 3 first_digest { scheme: DIGEST_SCHEME_JSON_JCS_SHA256 sha256: \"" +
      std::string(32, 'd') + "\" } } ";
  EXPECT_EQ((Text<v1::BeginResponse>(core::BeginOutcome(in_progress), "in_progress")),
            "in_progress { consumer: \"worker-3\" lease_remaining { seconds: 4 } suggested_wait { "
            "nanos: 500000000 } reason: REASON_HELD " +
                tail);
  in_progress.reason = core::InProgress::Reason::kDelayed;
  EXPECT_EQ((Text<v1::LookupResponse>(core::LookupOutcome(in_progress), "in_progress")),
            "in_progress { consumer: \"worker-3\" lease_remaining { seconds: 4 } suggested_wait { "
            "seconds: 4 } reason: REASON_DELAYED " +
                tail);
}

TEST(ResponseTest, BusyAggregateNamesTheOperationThatHasToEnd) {
  core::InProgress busy;
  busy.reason = core::InProgress::Reason::kAggregateBusy;
  busy.consumer = "worker-3";
  busy.begun = kBegun;
  busy.attempt_number = 3;
  busy.blocking_event_id = "order-1";
  EXPECT_EQ((Text<v1::BeginResponse>(core::BeginOutcome(busy), "in_progress")),
            "in_progress { consumer: \"worker-3\" lease_remaining { } suggested_wait { nanos: "
            "50000000 } reason: REASON_AGGREGATE_BUSY begin_time { seconds: 1700000000 nanos: "
            "250000000 } attempt_number: 3 blocking_event_id: \"order-1\" } ");
}

TEST(ResponseTest, StaleNamesTheCurrentVersion) {
  const core::Stale stale{
      .aggregate_id = "account-1", .current_version = 9, .current_event_id = "order-9"};
  EXPECT_EQ((Text<v1::BeginResponse>(core::BeginOutcome(stale), "stale")),
            "stale { current { id: \"account-1\" version: 9 } current_event_id: \"order-9\" } ");
}

TEST(ResponseTest, SuggestedWaitIsBounded) {
  const auto suggested = [](absl::Duration left) {
    core::InProgress in_progress;
    in_progress.lease_remaining = left;
    v1::BeginResponse response;
    EXPECT_TRUE(FillResponse(core::BeginOutcome(in_progress), {"h", std::nullopt}, &response).ok());
    const auto& wait = response.in_progress().suggested_wait();
    return absl::Seconds(wait.seconds()) + absl::Nanoseconds(wait.nanos());
  };
  EXPECT_EQ(suggested(absl::Hours(24)), absl::Seconds(1));
  EXPECT_EQ(suggested(absl::ZeroDuration()), absl::Milliseconds(50));
}

TEST(ResponseTest, Conflict) {
  core::Conflict conflict;
  conflict.first_digest = Digest('1');
  conflict.request_digest = Digest('2');
  conflict.state = core::OperationState::kClaimed;
  conflict.consumer = "worker-3";
  conflict.lease_remaining = absl::Seconds(4);
  conflict.first_seen = kBegun;
  const auto digest = [](char c) {
    return "{ scheme: DIGEST_SCHEME_JSON_JCS_SHA256 sha256: \"" + std::string(32, c) + "\" } ";
  };
  const std::string digests = "first_digest " + digest('1') + "request_digest " + digest('2');
  EXPECT_EQ((Text<v1::BeginResponse>(core::BeginOutcome(conflict), "conflict")),
            "conflict { difference: DIFFERENCE_DIGEST " + digests +
                "state: OPERATION_STATE_CLAIMED consumer: \"worker-3\" lease_remaining { seconds: "
                "4 } first_begin_time { seconds: 1700000000 nanos: 250000000 } } ");
  conflict.difference = core::Conflict::Difference::kScheme;
  conflict.state = core::OperationState::kCompleted;
  EXPECT_EQ((Text<v1::LookupResponse>(core::LookupOutcome(conflict), "conflict")),
            "conflict { difference: DIFFERENCE_DIGEST_SCHEME " + digests +
                "state: OPERATION_STATE_COMPLETED consumer: \"worker-3\" first_begin_time { "
                "seconds: 1700000000 nanos: 250000000 } } ");
}

TEST(ResponseTest, InDoubtShowsAtMostTenAttemptsAndHowManyThereAre) {
  core::InDoubt in_doubt;
  in_doubt.earlier_attempts.assign(12, Claim());
  in_doubt.earlier_attempt_count = 30;
  v1::BeginResponse response;
  EXPECT_EQ(*FillResponse(core::BeginOutcome(in_doubt), {"h", std::nullopt}, &response),
            "in_doubt");
  EXPECT_EQ(response.in_doubt().earlier_attempts_size(), 10);
  EXPECT_EQ(response.in_doubt().earlier_attempts(9).consumer(), "worker-3");
  EXPECT_EQ(response.in_doubt().earlier_attempt_count(), 30);
  EXPECT_THAT(response.in_doubt().resolution(), ::testing::HasSubstr("Complete"));
}

TEST(ResponseTest, ExpiredAndUnclaimed) {
  core::Expired expired;
  expired.completed = kBegun;
  expired.handler_version = "v7";
  EXPECT_EQ((Text<v1::BeginResponse>(core::BeginOutcome(expired), "expired")),
            "expired { status: RECEIPT_STATUS_SUCCEEDED complete_time { seconds: 1700000000 nanos: "
            "250000000 } handler_version: \"v7\" } ");
  core::Unclaimed unclaimed;
  EXPECT_EQ((Text<v1::LookupResponse>(core::LookupOutcome(unclaimed), "unclaimed")),
            "unclaimed { state: OPERATION_STATE_RELEASED } ");
  unclaimed.state = core::OperationState::kLapsed;
  unclaimed.earlier_attempt = Claim();
  EXPECT_EQ((Text<v1::LookupResponse>(core::LookupOutcome(unclaimed), "unclaimed")),
            "unclaimed { state: OPERATION_STATE_LAPSED earlier_attempt { " + kEarlierText + "} } ");
}

TEST(ResponseTest, ClaimLost) {
  core::ClaimLost lost;
  lost.state = core::OperationState::kCompleted;
  lost.consumer = "worker-4";
  lost.fence = {18};
  lost.begun = kBegun;
  const std::string text =
      "claim_lost { state: OPERATION_STATE_COMPLETED consumer: \"worker-4\" fence: 18 "
      "take_over_time { seconds: 1700000000 nanos: 250000000 } } ";
  EXPECT_EQ((Text<v1::CompleteResponse>(core::CompleteOutcome(lost), "claim_lost")), text);
  EXPECT_EQ((Text<v1::AbandonResponse>(core::AbandonOutcome(lost), "claim_lost")), text);
  EXPECT_EQ((Text<v1::RenewResponse>(core::RenewOutcome(lost), "claim_lost")), text);
  lost.begun = {};
  lost.consumer.clear();
  EXPECT_EQ((Text<v1::RenewResponse>(core::RenewOutcome(lost), "claim_lost")),
            "claim_lost { state: OPERATION_STATE_COMPLETED fence: 18 } ");
}

TEST(ResponseTest, TheRest) {
  core::CompletionConflict conflict{Stored(true)};
  EXPECT_EQ((Text<v1::CompleteResponse>(core::CompleteOutcome(conflict), "completion_conflict")),
            "conflict { " + kReceiptText + "} ");
  EXPECT_EQ((Text<v1::AbandonResponse>(core::AbandonOutcome(core::Abandoned{false}), "released")),
            "abandoned { mode: MODE_RELEASE } ");
  EXPECT_EQ((Text<v1::AbandonResponse>(core::AbandonOutcome(core::Abandoned{true}), "forgotten")),
            "abandoned { mode: MODE_FORGET } ");
  core::Renewed renewed{Claim(), absl::Seconds(30)};
  EXPECT_EQ((Text<v1::RenewResponse>(core::RenewOutcome(renewed), "renewed")),
            "claim { " + kClaimText + "} ");
}

TEST(ResponseTest, MissingOperationIsAnError) {
  v1::CompleteResponse complete;
  v1::AbandonResponse abandon;
  v1::RenewResponse renew;
  v1::LookupResponse lookup;
  const auto missing = AllOf(IsError(ErrorReason::kOperationNotFound, "no such operation"),
                             HasMetadata("handler", "points.grant"));
  EXPECT_THAT(FillResponse(core::CompleteOutcome(core::NotFound{}), {"points.grant", std::nullopt},
                           &complete),
              missing);
  EXPECT_THAT(FillResponse(core::AbandonOutcome(core::NotFound{}), {"points.grant", std::nullopt},
                           &abandon),
              missing);
  EXPECT_THAT(
      FillResponse(core::RenewOutcome(core::NotFound{}), {"points.grant", std::nullopt}, &renew),
      missing);
  EXPECT_THAT(
      FillResponse(core::LookupOutcome(core::NotFound{}), {"points.grant", std::nullopt}, &lookup),
      missing);
}

TEST(TrimToBudgetTest, LeavesOutResultsFromTheEndUntilTheReplyFits) {
  v1::BatchBeginResponse response;
  for (int i = 0; i < 4; ++i) {
    response.add_results()->mutable_response()->mutable_completed()->mutable_receipt()->set_result(
        std::string(1000, 'r'));
  }
  response.add_results()->mutable_error()->set_message("away");
  v1::BatchBeginResponse whole = response;
  TrimToBudget(response.ByteSizeLong(), &whole);
  EXPECT_EQ(whole.results(3).response().completed().receipt().result().size(), 1000u);

  TrimToBudget(2'500, &response);
  EXPECT_LE(response.ByteSizeLong(), 2'500u);
  for (int i = 0; i < 4; ++i) {
    const v1::Receipt& receipt = response.results(i).response().completed().receipt();
    EXPECT_EQ(receipt.result_omitted(), i >= 2) << i;
    EXPECT_EQ(receipt.result().size(), i >= 2 ? 0u : 1000u) << i;
  }
  EXPECT_EQ(response.results(4).error().message(), "away");
}

}  // namespace
}  // namespace once::rpc
