#include "convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "status_matchers.h"

namespace once::client_internal {
namespace {

using testing_support::HasCode;
using testing_support::HasReason;
using testing_support::IsOk;

const OperationId kOperation{"points.grant", std::string("e\0v", 3)};

TEST(ConvertTest, BeginRequestCarriesEveryField) {
  BeginRequest request;
  request.operation = kOperation;
  request.payload = Content::Json("{}");
  request.attempt_id.bytes[15] = 1;
  request.lease = absl::Milliseconds(1500);
  request.wait = absl::Seconds(2);
  request.consumer = "c1";
  request.handler_version = "v2";
  request.delivery = Delivery{"offset-9", DeliverySource::kDeadLetter};
  request.causation = Causation{{"order.pay", "p1"}, "refund"};
  request.aggregate = Aggregate{"order-1", 4};

  const v1::BeginRequest proto = ToProto(request);

  EXPECT_EQ(proto.handler(), "points.grant");
  EXPECT_EQ(proto.event_id(), std::string("e\0v", 3));
  EXPECT_EQ(proto.content().data(), "{}");
  EXPECT_EQ(proto.content().scheme(), v1::DIGEST_SCHEME_JSON_JCS_SHA256);
  EXPECT_EQ(proto.attempt_id().size(), 16u);
  EXPECT_EQ(proto.attempt_id()[15], 1);
  EXPECT_EQ(proto.lease().seconds(), 1);
  EXPECT_EQ(proto.lease().nanos(), 500000000);
  EXPECT_EQ(proto.wait().seconds(), 2);
  EXPECT_EQ(proto.consumer(), "c1");
  EXPECT_EQ(proto.handler_version(), "v2");
  EXPECT_EQ(proto.delivery().reference(), "offset-9");
  EXPECT_EQ(proto.delivery().source(), v1::DELIVERY_SOURCE_DEAD_LETTER);
  EXPECT_EQ(proto.causation().handler(), "order.pay");
  EXPECT_EQ(proto.causation().event_id(), "p1");
  EXPECT_EQ(proto.causation().reason(), "refund");
  EXPECT_EQ(proto.aggregate().id(), "order-1");
  EXPECT_EQ(proto.aggregate().version(), 4);
}

TEST(ConvertTest, WhatIsNotGivenIsNotSent) {
  BeginRequest request;
  request.payload = Digest::OfRaw("x");
  const v1::BeginRequest proto = ToProto(request);
  EXPECT_FALSE(proto.has_lease());
  EXPECT_FALSE(proto.has_wait());
  EXPECT_FALSE(proto.has_delivery());
  EXPECT_FALSE(proto.has_causation());
  EXPECT_FALSE(proto.has_aggregate());
  EXPECT_EQ(proto.digest().scheme(), v1::DIGEST_SCHEME_RAW_SHA256);
  EXPECT_EQ(proto.digest().sha256().size(), 32u);
}

TEST(ConvertTest, DurationsOutsideTheProtocolsRangeStillReachTheServerToBeRefused) {
  EXPECT_EQ(ToProto(absl::InfiniteDuration()).seconds(), 315576000000);
  EXPECT_EQ(ToProto(-absl::InfiniteDuration()).seconds(), -315576000000);
  const auto negative = ToProto(absl::Milliseconds(-1500));
  EXPECT_EQ(negative.seconds(), -1);
  EXPECT_EQ(negative.nanos(), -500000000);
  EXPECT_EQ(FromProto(negative), absl::Milliseconds(-1500));
}

v1::Receipt SomeReceipt() {
  v1::Receipt receipt;
  receipt.set_status(v1::RECEIPT_STATUS_REJECTED);
  receipt.set_result(std::string("\0\xff", 2));
  receipt.set_content_type("a/b");
  receipt.set_handler_version("v1");
  receipt.mutable_complete_time()->set_seconds(10);
  receipt.set_fence(5);
  receipt.set_result_size(2);
  return receipt;
}

TEST(ConvertTest, EveryBeginOutcomeIsTold) {
  v1::BeginResponse response;

  auto* granted = response.mutable_granted();
  granted->mutable_claim()->set_fence(9);
  granted->mutable_claim()->set_attempt_id(std::string(16, '\x07'));
  granted->mutable_claim()->mutable_lease_remaining()->set_seconds(30);
  granted->set_attempt_number(2);
  granted->mutable_earlier_attempt()->set_consumer("dead");
  auto outcome = FromProto(response);
  ASSERT_THAT(outcome, IsOk());
  const auto& g = std::get<Granted>(*outcome);
  EXPECT_EQ(g.claim.fence, Fence{9});
  EXPECT_EQ(g.claim.attempt_id.bytes[3], 7);
  EXPECT_EQ(g.claim.lease_remaining, absl::Seconds(30));
  EXPECT_EQ(g.attempt_number, 2);
  EXPECT_EQ(g.earlier_attempt->consumer, "dead");

  *response.mutable_completed()->mutable_receipt() = SomeReceipt();
  response.mutable_completed()->set_replayed(true);
  response.mutable_completed()->mutable_dedupe_guaranteed_until_time()->set_seconds(99);
  outcome = FromProto(response);
  ASSERT_THAT(outcome, IsOk());
  const auto& c = std::get<Completed>(*outcome);
  EXPECT_TRUE(c.replayed);
  EXPECT_EQ(c.receipt.status, ReceiptStatus::kRejected);
  EXPECT_EQ(c.receipt.result, std::string("\0\xff", 2));
  EXPECT_EQ(c.receipt.complete_time, absl::FromUnixSeconds(10));
  EXPECT_EQ(c.dedupe_guaranteed_until_time, absl::FromUnixSeconds(99));

  response.mutable_in_progress()->set_consumer("other");
  response.mutable_in_progress()->set_reason(v1::InProgress::REASON_DELAYED);
  response.mutable_in_progress()->mutable_suggested_wait()->set_seconds(3);
  outcome = FromProto(response);
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(std::get<InProgress>(*outcome).reason, InProgress::Reason::kDelayed);
  EXPECT_EQ(std::get<InProgress>(*outcome).suggested_wait, absl::Seconds(3));
  EXPECT_FALSE(std::get<InProgress>(*outcome).first_digest.has_value());

  auto* conflict = response.mutable_conflict();
  conflict->set_difference(v1::Conflict::DIFFERENCE_DIGEST_SCHEME);
  conflict->set_state(v1::OPERATION_STATE_COMPLETED);
  conflict->mutable_first_digest()->set_scheme(v1::DIGEST_SCHEME_JSON_JCS_SHA256);
  conflict->mutable_first_digest()->set_sha256(std::string(32, '\x01'));
  outcome = FromProto(response);
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(std::get<Conflict>(*outcome).difference, Conflict::Difference::kDigestScheme);
  EXPECT_EQ(std::get<Conflict>(*outcome).state, OperationState::kCompleted);
  EXPECT_EQ(std::get<Conflict>(*outcome).first_digest->scheme, DigestScheme::kJsonJcsSha256);

  response.mutable_in_doubt()->add_earlier_attempts()->set_fence(3);
  response.mutable_in_doubt()->set_earlier_attempt_count(12);
  outcome = FromProto(response);
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(std::get<InDoubt>(*outcome).earlier_attempts[0].fence, Fence{3});
  EXPECT_EQ(std::get<InDoubt>(*outcome).earlier_attempt_count, 12);

  v1::InProgress* const busy = response.mutable_in_progress();
  busy->set_reason(v1::InProgress::REASON_AGGREGATE_BUSY);
  busy->set_blocking_event_id("order-1");
  outcome = FromProto(response);
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(std::get<InProgress>(*outcome).reason, InProgress::Reason::kAggregateBusy);
  EXPECT_EQ(std::get<InProgress>(*outcome).blocking_event_id, "order-1");

  response.mutable_stale()->mutable_current()->set_version(8);
  outcome = FromProto(response);
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(std::get<Stale>(*outcome).current.version, 8);

  response.mutable_expired()->set_status(v1::RECEIPT_STATUS_SUCCEEDED);
  response.mutable_expired()->set_handler_version("v7");
  outcome = FromProto(response);
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(std::get<Expired>(*outcome).handler_version, "v7");
  EXPECT_EQ(std::get<Expired>(*outcome).status, ReceiptStatus::kSucceeded);
}

TEST(ConvertTest, CompleteAbandonRenewAndLookupOutcomesAreTold) {
  v1::CompleteResponse complete;
  complete.mutable_claim_lost()->set_consumer("b");
  complete.mutable_claim_lost()->mutable_take_over_time()->set_seconds(7);
  EXPECT_EQ(std::get<ClaimLost>(*FromProto(complete)).take_over_time, absl::FromUnixSeconds(7));
  *complete.mutable_conflict()->mutable_receipt() = SomeReceipt();
  EXPECT_EQ(std::get<CompletionConflict>(*FromProto(complete)).receipt.fence, Fence{5});

  v1::AbandonResponse abandon;
  abandon.mutable_abandoned()->set_mode(v1::AbandonRequest::MODE_FORGET);
  EXPECT_EQ(std::get<Abandoned>(*FromProto(abandon)).mode, AbandonMode::kForget);
  abandon.mutable_claim_lost();
  EXPECT_FALSE(std::get<ClaimLost>(*FromProto(abandon)).take_over_time.has_value());

  v1::RenewResponse renew;
  renew.mutable_claim()->mutable_lease_remaining()->set_seconds(4);
  EXPECT_EQ(std::get<Claim>(*FromProto(renew)).lease_remaining, absl::Seconds(4));

  v1::LookupResponse lookup;
  lookup.mutable_unclaimed()->set_state(v1::OPERATION_STATE_LAPSED);
  EXPECT_EQ(std::get<Unclaimed>(*FromProto(lookup)).state, OperationState::kLapsed);
}

TEST(ConvertTest, OutcomeOfANewerServerIsAnErrorAndNotAGuess) {
  EXPECT_THAT(FromProto(v1::BeginResponse()), HasCode(absl::StatusCode::kInternal));
  EXPECT_THAT(FromProto(v1::CompleteResponse()), HasCode(absl::StatusCode::kInternal));
  EXPECT_THAT(FromProto(v1::AbandonResponse()), HasCode(absl::StatusCode::kInternal));
  EXPECT_THAT(FromProto(v1::RenewResponse()), HasCode(absl::StatusCode::kInternal));
  EXPECT_THAT(FromProto(v1::LookupResponse()), HasCode(absl::StatusCode::kInternal));
  v1::BeginResponse response;
  response.mutable_completed()->mutable_receipt()->set_status(static_cast<v1::ReceiptStatus>(77));
  EXPECT_THAT(FromProto(response), HasCode(absl::StatusCode::kInternal));
}

TEST(ConvertTest, ItemErrorBecomesTheStatusOfTheSingleCall) {
  v1::ItemError error;
  error.set_code(8);
  error.set_reason("OVERLOADED");
  error.set_message("full");
  (*error.mutable_metadata())["limit"] = "10";
  error.mutable_retry_delay()->set_nanos(100000000);
  const absl::Status status = FromProto(error);
  EXPECT_THAT(status, HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(status, HasReason(ErrorReason::kOverloaded));
  EXPECT_EQ(ErrorInfoOf(status).retry_delay, absl::Milliseconds(100));
  EXPECT_EQ(ErrorInfoOf(status).metadata.at("limit"), "10");
}

}  // namespace
}  // namespace once::client_internal
