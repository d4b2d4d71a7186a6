// What operators ask, over a stub: repeats, and every outcome told.
#include "once/operator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "connection_impl.h"
#include "fake_clock.h"
#include "once/mocks/mock_operator_connection.h"
#include "status_matchers.h"
#include "stub.h"

namespace once {
namespace {

using client_internal::RpcCall;
using testing::_;
using testing::ElementsAre;
using testing::SizeIs;
using testing_support::HasCode;
using testing_support::IsOk;

constexpr char kAttempt[] = "0123456789abcdef0123456789abcdef";

class ScriptedStub final : public client_internal::OperatorStub {
 public:
  absl::StatusOr<v1::GetOperationResponse> GetOperation(
      const RpcCall&, const v1::GetOperationRequest& request) override {
    got.push_back(request);
    return operation;
  }
  absl::StatusOr<v1::ListAttemptsResponse> ListAttempts(
      const RpcCall&, const v1::ListAttemptsRequest& request) override {
    listed.push_back(request);
    return attempts;
  }
  absl::StatusOr<v1::ResolveResponse> Resolve(const RpcCall&,
                                              const v1::ResolveRequest& request) override {
    resolved.push_back(request);
    if (failures > 0) {
      --failures;
      return absl::UnavailableError("reply lost");
    }
    return resolution;
  }

  absl::StatusOr<v1::ResetResponse> Reset(const RpcCall&,
                                          const v1::ResetRequest& request) override {
    reset.push_back(request);
    return resetting;
  }

  std::vector<v1::ResetRequest> reset;
  v1::ResetResponse resetting;
  v1::GetOperationResponse operation;
  v1::ListAttemptsResponse attempts;
  v1::ResolveResponse resolution;
  int failures = 0;
  std::vector<v1::GetOperationRequest> got;
  std::vector<v1::ListAttemptsRequest> listed;
  std::vector<v1::ResolveRequest> resolved;
};

class OperatorTest : public testing::Test {
 protected:
  OperatorTest() {
    ConnectionOptions options;
    options.clock = clock_;
    options.random = [] { return uint64_t{0}; };
    client_ = std::make_unique<OperatorClient>(
        client_internal::MakeOperatorConnectionOver(stub_, std::move(options)));
  }

  static Resolution SomeResolution(Verdict verdict) {
    Resolution resolution;
    resolution.operation = {"points.grant", "order-1"};
    resolution.attempt_id = *AttemptId::Parse(kAttempt);
    resolution.fence = Fence{17};
    resolution.verdict = verdict;
    resolution.evidence = "asked the bank";
    return resolution;
  }

  std::shared_ptr<testing_support::FakeClock> clock_ =
      std::make_shared<testing_support::FakeClock>();
  std::shared_ptr<ScriptedStub> stub_ = std::make_shared<ScriptedStub>();
  std::unique_ptr<OperatorClient> client_;
};

TEST_F(OperatorTest, AnOperationIsToldWhole) {
  v1::Operation& operation = *stub_->operation.mutable_operation();
  operation.set_handler("points.grant");
  operation.set_event_id("order-1");
  operation.set_state(v1::OPERATION_STATE_IN_DOUBT);
  operation.mutable_latest_claim()->set_fence(17);
  operation.mutable_latest_claim()->set_consumer("worker-1");
  operation.mutable_earlier_attempt()->set_fence(16);
  operation.set_earlier_attempt_count(1);
  operation.set_delivery_count(4);
  operation.mutable_receipt()->set_status(v1::RECEIPT_STATUS_REJECTED);
  const auto told = client_->GetOperation({"points.grant", "order-1"});
  ASSERT_THAT(told, IsOk());
  EXPECT_EQ(stub_->got.at(0).event_id(), "order-1");
  EXPECT_EQ(told->id.handler, "points.grant");
  EXPECT_EQ(told->state, OperationState::kInDoubt);
  EXPECT_EQ(told->latest_claim.fence, Fence{17});
  EXPECT_EQ(told->latest_claim.consumer, "worker-1");
  EXPECT_EQ(told->earlier_attempt->fence, Fence{16});
  EXPECT_EQ(told->earlier_attempt_count, 1);
  EXPECT_EQ(told->delivery_count, 4);
  EXPECT_EQ(told->receipt->status, ReceiptStatus::kRejected);
  EXPECT_FALSE(told->lease_remaining.has_value());
}

TEST_F(OperatorTest, EntriesOfTheLogAreTold) {
  v1::LoggedAttempt& entry = *stub_->attempts.add_attempts();
  entry.set_kind(v1::LoggedAttempt::KIND_RESOLVE);
  entry.set_outcome(v1::LoggedAttempt::OUTCOME_FOUND_NOT_DONE);
  entry.set_note("asked the bank");
  entry.mutable_delivery()->set_source(v1::DELIVERY_SOURCE_DEAD_LETTER);
  entry.mutable_causation()->set_handler("orders.pay");
  entry.mutable_aggregate()->set_version(9);
  const auto told = client_->ListAllAttempts({"points.grant", "order-1"});
  ASSERT_THAT(told, IsOk());
  ASSERT_THAT(*told, SizeIs(1));
  EXPECT_EQ(told->front().kind, "RESOLVE");
  EXPECT_EQ(told->front().outcome, "FOUND_NOT_DONE");
  EXPECT_EQ(told->front().note, "asked the bank");
  EXPECT_EQ(told->front().delivery->source, DeliverySource::kDeadLetter);
  EXPECT_EQ(told->front().causation->operation.handler, "orders.pay");
  EXPECT_EQ(told->front().aggregate->version, 9);
  EXPECT_FALSE(told->front().digest.has_value());
}

TEST_F(OperatorTest, ALostReplyOfResolveIsAskedForAgain) {
  stub_->failures = 1;
  stub_->resolution.mutable_released();
  const auto outcome = client_->Resolve(SomeResolution(Verdict::kNotDone));
  ASSERT_THAT(outcome, IsOk());
  EXPECT_TRUE(std::holds_alternative<Released>(*outcome));
  ASSERT_THAT(stub_->resolved, SizeIs(2));
  EXPECT_EQ(stub_->resolved[0].SerializeAsString(), stub_->resolved[1].SerializeAsString());
  EXPECT_EQ(stub_->resolved[0].verdict(), v1::ResolveRequest::VERDICT_NOT_DONE);
  EXPECT_EQ(stub_->resolved[0].fence(), 17);
  EXPECT_THAT(stub_->resolved[0].attempt_id(), SizeIs(16));
  EXPECT_EQ(stub_->resolved[0].evidence(), "asked the bank");
}

TEST_F(OperatorTest, EveryOutcomeOfResolveIsTold) {
  stub_->resolution.mutable_completed()->mutable_receipt()->set_status(
      v1::RECEIPT_STATUS_SUCCEEDED);
  EXPECT_TRUE(std::holds_alternative<Completed>(*client_->Resolve(SomeResolution(Verdict::kDone))));
  EXPECT_EQ(stub_->resolved.back().verdict(), v1::ResolveRequest::VERDICT_DONE);
  stub_->resolution.mutable_in_progress();
  EXPECT_TRUE(
      std::holds_alternative<InProgress>(*client_->Resolve(SomeResolution(Verdict::kRefused))));
  EXPECT_EQ(stub_->resolved.back().verdict(), v1::ResolveRequest::VERDICT_REFUSED);
  stub_->resolution.mutable_claim_lost();
  EXPECT_TRUE(std::holds_alternative<ClaimLost>(*client_->Resolve(SomeResolution(Verdict::kDone))));
  stub_->resolution.mutable_conflict()->mutable_receipt()->set_status(v1::RECEIPT_STATUS_REJECTED);
  EXPECT_TRUE(std::holds_alternative<CompletionConflict>(
      *client_->Resolve(SomeResolution(Verdict::kDone))));
  stub_->resolution.Clear();
  EXPECT_THAT(client_->Resolve(SomeResolution(Verdict::kDone)),
              HasCode(absl::StatusCode::kInternal));
}

TEST_F(OperatorTest, ResetSaysWhichReceiptAndWhy) {
  CallOptions options;
  options.reason = "paid twice by hand";
  stub_->resetting.mutable_released();
  EXPECT_TRUE(std::holds_alternative<Released>(
      *client_->Reset({"points.grant", "order-1"}, Fence{17}, options)));
  EXPECT_EQ(stub_->reset.at(0).fence(), 17);
  EXPECT_EQ(stub_->reset.at(0).reason(), "paid twice by hand");
  stub_->resetting.mutable_in_progress();
  EXPECT_TRUE(std::holds_alternative<InProgress>(*client_->Reset({"h", "e"}, Fence{17}, options)));
  stub_->resetting.mutable_claim_lost();
  EXPECT_TRUE(std::holds_alternative<ClaimLost>(*client_->Reset({"h", "e"}, Fence{17}, options)));
  stub_->resetting.Clear();
  EXPECT_THAT(client_->Reset({"h", "e"}, Fence{17}, options), HasCode(absl::StatusCode::kInternal));

  v1::PastReceipt& past = *stub_->operation.mutable_operation()->add_past_receipts();
  past.mutable_receipt()->set_status(v1::RECEIPT_STATUS_SUCCEEDED);
  past.mutable_receipt()->set_result("the first one's");
  past.set_reason("paid twice by hand");
  const auto told = client_->GetOperation({"h", "e"});
  ASSERT_THAT(told, IsOk());
  ASSERT_THAT(told->past_receipts, SizeIs(1));
  EXPECT_EQ(told->past_receipts[0].receipt.result, "the first one's");
  EXPECT_EQ(told->past_receipts[0].reason, "paid twice by hand");
}

TEST_F(OperatorTest, PagesAreFollowed) {
  auto connection = std::make_shared<once_mocks::MockOperatorConnection>();
  Page<LoggedAttempt> first;
  first.items.resize(2);
  first.next_page_token = "more";
  Page<LoggedAttempt> last;
  last.items.resize(1);
  std::vector<std::string> tokens;
  EXPECT_CALL(*connection, ListAttempts(_, _, _))
      .WillRepeatedly([&](const OperationId&, const PageRequest& page, const CallOptions&) {
        tokens.push_back(page.page_token);
        return page.page_token.empty() ? first : last;
      });
  EXPECT_THAT(*OperatorClient(connection).ListAllAttempts({"h", "e"}), SizeIs(3));
  EXPECT_THAT(tokens, ElementsAre("", "more"));
}

}  // namespace
}  // namespace once
