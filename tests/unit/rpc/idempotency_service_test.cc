// IdempotencyService from the wire to the pipeline and back.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "rpc/batch_answer.h"
#include "unit/rpc/server_fixture.h"

namespace once::rpc {
namespace {

using ::once::testing::ErrorOf;
using ::once::testing::IsGrpcError;
using ::once::testing::IsGrpcOk;
using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;

class IdempotencyServiceTest : public ::once::testing::ServerTest {
 protected:
  template <typename Request>
  static Request WithClaim() {
    Request request;
    request.set_handler("points.grant");
    request.set_event_id("evt-1");
    request.set_attempt_id(std::string(16, 'a'));
    request.set_fence(17);
    return request;
  }

  static core::Completed Stored(const std::string& result) {
    core::Completed completed;
    completed.receipt.result = result;
    completed.receipt.result_size = static_cast<int64_t>(result.size());
    return completed;
  }
};

TEST_F(IdempotencyServiceTest, BeginGoesToThePipelineAndBack) {
  Start();
  EXPECT_CALL(pipeline_, Begin(_, _)).WillOnce([](pipeline::BeginCall call, auto done) {
    EXPECT_EQ(call.info.tenant, core::TenantId{7});
    EXPECT_EQ(call.info.handler, "points.grant");
    EXPECT_EQ(call.info.event_id, "evt-1");
    EXPECT_EQ(call.request.on_lapse, core::LapsePolicy::kRetry);
    std::thread([done = std::move(done)]() mutable { std::move(done)(Granted(17)); }).detach();
  });
  v1::BeginResponse response;
  ASSERT_THAT(stub_->Begin(Context().get(), BeginRequest(), &response), IsGrpcOk());
  EXPECT_EQ(response.granted().claim().fence(), 17);
}

TEST_F(IdempotencyServiceTest, PoliciesOfTheTenantAreInForce) {
  SetPolicies({{.handler = "points.audit", .on_lapse = core::LapsePolicy::kInDoubt}});
  Start();
  EXPECT_CALL(pipeline_, Begin(_, _)).WillOnce([](pipeline::BeginCall call, auto done) {
    EXPECT_EQ(call.request.on_lapse, core::LapsePolicy::kInDoubt);
    std::move(done)(core::InDoubt{});
  });
  v1::BeginRequest request = BeginRequest();
  request.set_handler("points.audit");
  v1::BeginResponse response;
  ASSERT_THAT(stub_->Begin(Context().get(), request, &response), IsGrpcOk());
  EXPECT_TRUE(response.has_in_doubt());
}

TEST_F(IdempotencyServiceTest, CompleteAbandonRenewLookup) {
  Start();
  EXPECT_CALL(pipeline_, Complete(_, _)).WillOnce([](pipeline::CompleteCall call, auto done) {
    EXPECT_EQ(call.request.result, "done");
    core::Completed completed = Stored(call.request.result);
    completed.replayed = false;
    std::move(done)(completed);
  });
  auto complete = WithClaim<v1::CompleteRequest>();
  complete.set_status(v1::RECEIPT_STATUS_SUCCEEDED);
  complete.set_result("done");
  v1::CompleteResponse completed;
  ASSERT_THAT(stub_->Complete(Context().get(), complete, &completed), IsGrpcOk());
  EXPECT_EQ(completed.completed().receipt().result(), "done");
  EXPECT_EQ(observer_.Await(0).outcome, "completed");
  EXPECT_EQ(observer_.Await(0).fence, 17);

  EXPECT_CALL(pipeline_, Abandon(_, _)).WillOnce([](pipeline::AbandonCall call, auto done) {
    EXPECT_EQ(call.note, "later");
    std::move(done)(core::Abandoned{});
  });
  auto abandon = WithClaim<v1::AbandonRequest>();
  abandon.set_mode(v1::AbandonRequest::MODE_RELEASE);
  abandon.set_reason("later");
  v1::AbandonResponse abandoned;
  ASSERT_THAT(stub_->Abandon(Context().get(), abandon, &abandoned), IsGrpcOk());
  EXPECT_EQ(abandoned.abandoned().mode(), v1::AbandonRequest::MODE_RELEASE);

  EXPECT_CALL(pipeline_, Renew(_, _)).WillOnce([](auto, auto done) {
    std::move(done)(core::ClaimLost{});
  });
  v1::RenewResponse renewed;
  ASSERT_THAT(stub_->Renew(Context().get(), WithClaim<v1::RenewRequest>(), &renewed), IsGrpcOk());
  EXPECT_TRUE(renewed.has_claim_lost());

  EXPECT_CALL(pipeline_, Lookup(_, _)).WillOnce([](auto, auto done) {
    std::move(done)(core::NotFound{});
  });
  v1::LookupRequest lookup;
  lookup.set_handler("points.grant");
  lookup.set_event_id("evt-1");
  v1::LookupResponse looked_up;
  EXPECT_THAT(stub_->Lookup(Context().get(), lookup, &looked_up),
              IsGrpcError(grpc::StatusCode::NOT_FOUND, "OPERATION_NOT_FOUND"));
}

TEST_F(IdempotencyServiceTest, InvalidRequestsDoNotReachThePipeline) {
  Start();
  EXPECT_CALL(pipeline_, Begin(_, _)).Times(0);
  v1::BeginResponse response;
  const grpc::Status status =
      stub_->Begin(Context().get(), BeginRequest(std::string(256, 'x')), &response);
  EXPECT_THAT(status, IsGrpcError(grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD"));
  EXPECT_EQ(status.error_message(), "event_id is 256 bytes; the limit is 255");
  EXPECT_THAT(ErrorOf(status).metadata, Contains(Pair("limit", "255")));

  v1::BeginRequest other = BeginRequest();
  other.set_handler("orders");
  EXPECT_THAT(stub_->Begin(Context().get(), other, &response),
              IsGrpcError(grpc::StatusCode::PERMISSION_DENIED, "PERMISSION_DENIED"));
}

TEST_F(IdempotencyServiceTest, PipelineErrorsArriveWithTheirDetails) {
  Start();
  EXPECT_CALL(pipeline_, Begin(_, _)).WillOnce([](auto, auto done) {
    std::move(done)(base::MakeError(base::ErrorReason::kOutcomeUnknown, "lost in COMMIT"));
  });
  v1::BeginResponse response;
  const grpc::Status status = stub_->Begin(Context().get(), BeginRequest(), &response);
  EXPECT_THAT(status, IsGrpcError(grpc::StatusCode::UNAVAILABLE, "OUTCOME_UNKNOWN"));
  EXPECT_TRUE(ErrorOf(status).retryable);
}

TEST_F(IdempotencyServiceTest, LargestContentAndResultPass) {
  Start();
  EXPECT_CALL(pipeline_, Begin(_, _)).WillOnce([](auto, auto done) {
    std::move(done)(Stored(std::string(size_t{1} << 20, 'r')));
  });
  v1::BeginRequest request = BeginRequest();
  request.mutable_content()->set_data(std::string(size_t{1} << 20, 'c'));
  v1::BeginResponse response;
  ASSERT_THAT(stub_->Begin(Context().get(), request, &response), IsGrpcOk());
  EXPECT_EQ(response.completed().receipt().result().size(), size_t{1} << 20);
}

TEST_F(IdempotencyServiceTest, OversizedContentIsRefusedByUsUpToTheTransportsLimit) {
  Start();
  v1::BeginRequest request = BeginRequest();
  request.mutable_content()->set_data(std::string((size_t{4} << 20) + 1000, 'c'));
  v1::BeginResponse response;
  const grpc::Status status = stub_->Begin(Context().get(), request, &response);
  EXPECT_THAT(status, IsGrpcError(grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD"));
  EXPECT_EQ(status.error_message(), "content.data is 4195304 bytes; the limit is 1048576");
  request.mutable_content()->set_data(std::string(size_t{8} << 20, 'c'));
  EXPECT_EQ(stub_->Begin(Context().get(), request, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

// ---- batches ----

TEST_F(IdempotencyServiceTest, BatchAnswersPerItemInOrder) {
  Start();
  std::vector<pipeline::Done<core::BeginOutcome>> held;
  std::vector<std::string> order;
  EXPECT_CALL(pipeline_, Begin(_, _)).Times(4).WillRepeatedly([&](auto call, auto done) {
    order.push_back(call.info.event_id);
    held.push_back(std::move(done));
    if (held.size() == 4) {  // answered in another order, by several threads
      std::thread([&held] { std::move(held[3])(core::InProgress{}); }).join();
      std::move(held[1])(base::MakeError(base::ErrorReason::kOverloaded, "full"));
      std::thread([&held] { std::move(held[0])(Granted(17)); }).join();
      std::move(held[2])(Stored("first result"));
    }
  });
  v1::BatchBeginRequest request;
  *request.add_requests() = BeginRequest("a");
  *request.add_requests() = BeginRequest("b");
  *request.add_requests() = BeginRequest("");  // invalid
  *request.add_requests() = BeginRequest("c");
  *request.add_requests() = BeginRequest("a");
  request.mutable_requests(2)->mutable_lease()->set_seconds(1);
  *request.add_requests() = BeginRequest("d");
  request.mutable_requests(5)->set_handler("orders");  // not covered
  v1::BatchBeginResponse response;
  ASSERT_THAT(stub_->BatchBegin(Context().get(), request, &response), IsGrpcOk());
  EXPECT_THAT(order, ElementsAre("a", "b", "c", "a"));
  ASSERT_EQ(response.results_size(), 6);
  EXPECT_EQ(response.results(0).response().granted().claim().fence(), 17);
  EXPECT_EQ(response.results(1).error().reason(), "OVERLOADED");
  EXPECT_TRUE(response.results(1).error().has_retry_delay());
  EXPECT_EQ(response.results(2).error().reason(), "INVALID_FIELD");
  EXPECT_EQ(response.results(2).error().message(),
            "requests[2].event_id is empty; it needs 1 to 255 bytes");
  EXPECT_EQ(response.results(2).error().metadata().at("field"), "requests[2].event_id");
  EXPECT_EQ(response.results(3).response().completed().receipt().result(), "first result");
  EXPECT_TRUE(response.results(4).response().has_in_progress());
  EXPECT_EQ(response.results(5).error().code(), 7);
  const CallRecord record = observer_.Await(0);
  EXPECT_EQ(record.outcome, "batch");
  EXPECT_EQ(record.items, 6u);
  EXPECT_THAT(record.item_outcomes, ElementsAre(Pair("INVALID_FIELD", 1), Pair("OVERLOADED", 1),
                                                Pair("PERMISSION_DENIED", 1), Pair("granted", 1),
                                                Pair("in_progress", 1), Pair("replayed", 1)));
}

TEST_F(IdempotencyServiceTest, BatchOfInvalidItemsOnlyIsAnswered) {
  Start();
  v1::BatchRenewRequest request;
  request.add_requests();
  request.add_requests();
  v1::BatchRenewResponse response;
  ASSERT_THAT(stub_->BatchRenew(Context().get(), request, &response), IsGrpcOk());
  EXPECT_EQ(response.results(1).error().metadata().at("field"), "requests[1].handler");
}

TEST_F(IdempotencyServiceTest, BatchCompleteAndRenew) {
  Start();
  EXPECT_CALL(pipeline_, Complete(_, _)).Times(2).WillRepeatedly([](auto call, auto done) {
    if (call.request.result == "x") {
      std::move(done)(core::NotFound{});
    } else {
      std::move(done)(Stored(call.request.result));
    }
  });
  v1::BatchCompleteRequest complete;
  for (const char* result : {"x", "y"}) {
    *complete.add_requests() = WithClaim<v1::CompleteRequest>();
    complete.mutable_requests(complete.requests_size() - 1)->set_result(result);
    complete.mutable_requests(complete.requests_size() - 1)
        ->set_status(v1::RECEIPT_STATUS_SUCCEEDED);
  }
  v1::BatchCompleteResponse completed;
  ASSERT_THAT(stub_->BatchComplete(Context().get(), complete, &completed), IsGrpcOk());
  EXPECT_EQ(completed.results(0).error().reason(), "OPERATION_NOT_FOUND");
  EXPECT_EQ(completed.results(0).error().metadata().at("handler"), "points.grant");
  EXPECT_EQ(completed.results(1).response().completed().receipt().result(), "y");

  EXPECT_CALL(pipeline_, Renew(_, _)).WillOnce([](auto, auto done) {
    std::move(done)(core::Renewed{});
  });
  v1::BatchRenewRequest renew;
  *renew.add_requests() = WithClaim<v1::RenewRequest>();
  v1::BatchRenewResponse renewed;
  ASSERT_THAT(stub_->BatchRenew(Context().get(), renew, &renewed), IsGrpcOk());
  EXPECT_TRUE(renewed.results(0).response().has_claim());
}

TEST_F(IdempotencyServiceTest, BatchesAreLimitedInItemsAndBytes) {
  Start();
  v1::BatchBeginRequest request;
  v1::BatchBeginResponse response;
  EXPECT_THAT(stub_->BatchBegin(Context().get(), request, &response),
              IsGrpcError(grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD"));
  for (int i = 0; i < 1001; ++i) {
    *request.add_requests() = BeginRequest();
  }
  grpc::Status status = stub_->BatchBegin(Context().get(), request, &response);
  EXPECT_EQ(status.error_message(), "requests has 1001 items; the limit is 1000");
  EXPECT_THAT(ErrorOf(status).metadata, Contains(Pair("field", "requests")));

  request.clear_requests();
  for (int i = 0; i < 5; ++i) {
    *request.add_requests() = BeginRequest();
    request.mutable_requests(i)->mutable_content()->set_data(std::string(900'000, 'c'));
  }
  status = stub_->BatchBegin(Context().get(), request, &response);
  EXPECT_THAT(status, IsGrpcError(grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD"));
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("the limit is 4194304"));
}

TEST_F(IdempotencyServiceTest, BatchLeavesOutResultsThatDoNotFit) {
  Start();
  EXPECT_CALL(pipeline_, Begin(_, _)).Times(5).WillRepeatedly([](auto, auto done) {
    std::move(done)(Stored(std::string(size_t{1} << 20, 'r')));
  });
  v1::BatchBeginRequest request;
  for (int i = 0; i < 5; ++i) {
    *request.add_requests() = BeginRequest();
  }
  v1::BatchBeginResponse response;
  ASSERT_THAT(stub_->BatchBegin(Context().get(), request, &response), IsGrpcOk());
  int whole = 0;
  for (const auto& result : response.results()) {
    const v1::Receipt& receipt = result.response().completed().receipt();
    EXPECT_EQ(receipt.result_size(), 1 << 20);
    EXPECT_EQ(receipt.result_omitted(), receipt.result().empty());
    whole += receipt.result_omitted() ? 0 : 1;
  }
  EXPECT_EQ(whole, 3);
  EXPECT_LE(response.ByteSizeLong(), kReplyBudgetBytes);
}

}  // namespace
}  // namespace once::rpc
