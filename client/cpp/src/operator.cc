#include "once/operator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "connection_impl.h"
#include "convert.h"
#include "grpc_stub.h"
#include "retry_loop.h"

namespace once {
namespace client_internal {
namespace {

std::string NameWithout(absl::string_view prefix, std::string name) {
  return std::string(absl::StripPrefix(name, prefix));
}

EarlierAttempt ClaimFrom(const v1::AttemptClaim& proto) {
  return {FromBytes(proto.attempt_id()),
          Fence{proto.fence()},
          proto.consumer(),
          proto.handler_version(),
          FromProto(proto.begin_time()),
          FromProto(proto.lease_expire_time())};
}

absl::StatusOr<Operation> OperationFrom(const v1::Operation& proto) {
  Operation operation;
  operation.id = {proto.handler(), proto.event_id()};
  operation.state = FromProto(proto.state());
  operation.digest = FromProto(proto.digest());
  operation.latest_claim = ClaimFrom(proto.latest_claim());
  if (proto.has_lease_remaining()) {
    operation.lease_remaining = FromProto(proto.lease_remaining());
  }
  operation.attempt_number = proto.attempt_number();
  if (proto.has_earlier_attempt()) operation.earlier_attempt = ClaimFrom(proto.earlier_attempt());
  operation.earlier_attempt_count = proto.earlier_attempt_count();
  operation.delivery_count = proto.delivery_count();
  operation.first_begin_time = FromProto(proto.first_begin_time());
  if (proto.has_receipt()) {
    auto receipt = FromProto(proto.receipt());
    if (!receipt.ok()) return receipt.status();
    operation.receipt = *std::move(receipt);
  }
  for (const v1::PastReceipt& past : proto.past_receipts()) {
    auto receipt = FromProto(past.receipt());
    if (!receipt.ok()) return receipt.status();
    operation.past_receipts.push_back({*std::move(receipt), FromBytes(past.attempt_id()),
                                       FromProto(past.reset_time()), past.credential_id(),
                                       past.reason()});
  }
  return operation;
}

LoggedAttempt AttemptFrom(const v1::LoggedAttempt& proto) {
  LoggedAttempt attempt;
  attempt.log_time = FromProto(proto.log_time());
  attempt.kind = NameWithout("KIND_", v1::LoggedAttempt::Kind_Name(proto.kind()));
  attempt.outcome = NameWithout("OUTCOME_", v1::LoggedAttempt::Outcome_Name(proto.outcome()));
  attempt.attempt_id = FromBytes(proto.attempt_id());
  attempt.fence = Fence{proto.fence()};
  attempt.attempt_number = proto.attempt_number();
  if (proto.has_digest()) attempt.digest = FromProto(proto.digest());
  attempt.consumer = proto.consumer();
  attempt.handler_version = proto.handler_version();
  attempt.note = proto.note();
  if (proto.has_delivery()) {
    attempt.delivery = Delivery{proto.delivery().reference(), FromProto(proto.delivery().source())};
  }
  if (proto.has_causation()) {
    attempt.causation = Causation{{proto.causation().handler(), proto.causation().event_id()},
                                  proto.causation().reason()};
  }
  if (proto.has_aggregate()) {
    attempt.aggregate = Aggregate{proto.aggregate().id(), proto.aggregate().version()};
  }
  return attempt;
}

v1::ResolveRequest::Verdict VerdictOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kDone:
      return v1::ResolveRequest::VERDICT_DONE;
    case Verdict::kRefused:
      return v1::ResolveRequest::VERDICT_REFUSED;
    case Verdict::kNotDone:
      break;
  }
  return v1::ResolveRequest::VERDICT_NOT_DONE;
}

absl::StatusOr<ResolveOutcome> OutcomeFrom(const v1::ResolveResponse& response) {
  switch (response.outcome_case()) {
    case v1::ResolveResponse::kCompleted: {
      auto completed = FromProto(response.completed());
      if (!completed.ok()) return completed.status();
      return ResolveOutcome(*std::move(completed));
    }
    case v1::ResolveResponse::kReleased:
      return ResolveOutcome(Released{});
    case v1::ResolveResponse::kInProgress:
      return ResolveOutcome(FromProto(response.in_progress()));
    case v1::ResolveResponse::kClaimLost:
      return ResolveOutcome(FromProto(response.claim_lost()));
    case v1::ResolveResponse::kConflict: {
      auto receipt = FromProto(response.conflict().receipt());
      if (!receipt.ok()) return receipt.status();
      return ResolveOutcome(CompletionConflict{*std::move(receipt)});
    }
    case v1::ResolveResponse::OUTCOME_NOT_SET:
      break;
  }
  return absl::InternalError(
      "the server answered with an outcome of Resolve that this client does not know");
}

absl::StatusOr<ResetOutcome> OutcomeFrom(const v1::ResetResponse& response) {
  switch (response.outcome_case()) {
    case v1::ResetResponse::kReleased:
      return ResetOutcome(Released{});
    case v1::ResetResponse::kInProgress:
      return ResetOutcome(FromProto(response.in_progress()));
    case v1::ResetResponse::kClaimLost:
      return ResetOutcome(FromProto(response.claim_lost()));
    case v1::ResetResponse::OUTCOME_NOT_SET:
      break;
  }
  return absl::InternalError(
      "the server answered with an outcome of Reset that this client does not know");
}

class RetryingOperatorConnection final : public OperatorConnection {
 public:
  RetryingOperatorConnection(std::shared_ptr<OperatorStub> stub, ConnectionOptions options)
      : stub_(std::move(stub)), options_(std::move(options)) {}

  absl::StatusOr<Operation> GetOperation(const OperationId& operation,
                                         const CallOptions& options) override {
    v1::GetOperationRequest request;
    request.set_handler(operation.handler);
    request.set_event_id(operation.event_id);
    auto response = Send(options, request, &OperatorStub::GetOperation);
    if (!response.ok()) return response.status();
    return OperationFrom(response->operation());
  }

  absl::StatusOr<Page<LoggedAttempt>> ListAttempts(const OperationId& operation,
                                                   const PageRequest& page,
                                                   const CallOptions& options) override {
    v1::ListAttemptsRequest request;
    request.set_handler(operation.handler);
    request.set_event_id(operation.event_id);
    request.set_page_size(page.page_size);
    request.set_page_token(page.page_token);
    auto response = Send(options, request, &OperatorStub::ListAttempts);
    if (!response.ok()) return response.status();
    Page<LoggedAttempt> attempts;
    for (const auto& attempt : response->attempts()) attempts.items.push_back(AttemptFrom(attempt));
    attempts.next_page_token = response->next_page_token();
    return attempts;
  }

  absl::StatusOr<ResolveOutcome> Resolve(const Resolution& resolution,
                                         const CallOptions& options) override {
    v1::ResolveRequest request;
    request.set_handler(resolution.operation.handler);
    request.set_event_id(resolution.operation.event_id);
    request.set_attempt_id(ToBytes(resolution.attempt_id));
    request.set_fence(resolution.fence.value);
    request.set_verdict(VerdictOf(resolution.verdict));
    request.set_result(resolution.result);
    request.set_content_type(resolution.content_type);
    request.set_evidence(resolution.evidence);
    auto response = Send(options, request, &OperatorStub::Resolve);
    if (!response.ok()) return response.status();
    return OutcomeFrom(*response);
  }

  absl::StatusOr<ResetOutcome> Reset(const OperationId& operation, Fence fence,
                                     const CallOptions& options) override {
    v1::ResetRequest request;
    request.set_handler(operation.handler);
    request.set_event_id(operation.event_id);
    request.set_fence(fence.value);
    request.set_reason(options.reason);
    auto response = Send(options, request, &OperatorStub::Reset);
    if (!response.ok()) return response.status();
    return OutcomeFrom(*response);
  }

 private:
  template <typename Request, typename Response>
  absl::StatusOr<Response> Send(const CallOptions& options, const Request& request,
                                absl::StatusOr<Response> (OperatorStub::*method)(const RpcCall&,
                                                                                 const Request&)) {
    return RetryLoop<Response>(
        ContextFor(options_, options), Repeatable::kYes, absl::ZeroDuration(),
        [&](const RpcCall& call, absl::Duration) { return ((*stub_).*method)(call, request); });
  }

  const std::shared_ptr<OperatorStub> stub_;
  const ConnectionOptions options_;
};

}  // namespace

std::shared_ptr<OperatorConnection> MakeOperatorConnectionOver(std::shared_ptr<OperatorStub> stub,
                                                               ConnectionOptions options) {
  return std::make_shared<RetryingOperatorConnection>(std::move(stub), std::move(options));
}

}  // namespace client_internal

namespace {

absl::Status Unimplemented(absl::string_view method) {
  return absl::UnimplementedError(absl::StrCat("this OperatorConnection has no ", method));
}

}  // namespace

OperatorConnection::~OperatorConnection() = default;

absl::StatusOr<Operation> OperatorConnection::GetOperation(const OperationId&, const CallOptions&) {
  return Unimplemented("GetOperation");
}
absl::StatusOr<Page<LoggedAttempt>> OperatorConnection::ListAttempts(const OperationId&,
                                                                     const PageRequest&,
                                                                     const CallOptions&) {
  return Unimplemented("ListAttempts");
}
absl::StatusOr<ResolveOutcome> OperatorConnection::Resolve(const Resolution&, const CallOptions&) {
  return Unimplemented("Resolve");
}

absl::StatusOr<ResetOutcome> OperatorConnection::Reset(const OperationId&, Fence,
                                                       const CallOptions&) {
  return Unimplemented("Reset");
}

absl::StatusOr<std::shared_ptr<OperatorConnection>> MakeOperatorConnection(
    ConnectionOptions options) {
  if (auto status = client_internal::CheckOptions(options); !status.ok()) return status;
  options = client_internal::WithDefaults(std::move(options));
  auto stub = client_internal::MakeGrpcOperatorStub(options);
  if (!stub.ok()) return stub.status();
  return client_internal::MakeOperatorConnectionOver(*std::move(stub), std::move(options));
}

OperatorClient::OperatorClient(std::shared_ptr<OperatorConnection> connection)
    : connection_(std::move(connection)) {}

absl::StatusOr<Operation> OperatorClient::GetOperation(const OperationId& operation,
                                                       const CallOptions& options) const {
  return connection_->GetOperation(operation, options);
}

absl::StatusOr<Page<LoggedAttempt>> OperatorClient::ListAttempts(const OperationId& operation,
                                                                 const PageRequest& page,
                                                                 const CallOptions& options) const {
  return connection_->ListAttempts(operation, page, options);
}

absl::StatusOr<std::vector<LoggedAttempt>> OperatorClient::ListAllAttempts(
    const OperationId& operation, const CallOptions& options) const {
  std::vector<LoggedAttempt> all;
  PageRequest request;
  do {
    auto page = connection_->ListAttempts(operation, request, options);
    if (!page.ok()) return page.status();
    for (auto& attempt : page->items) all.push_back(std::move(attempt));
    request.page_token = page->next_page_token;
  } while (!request.page_token.empty());
  return all;
}

absl::StatusOr<ResolveOutcome> OperatorClient::Resolve(const Resolution& resolution,
                                                       const CallOptions& options) const {
  return connection_->Resolve(resolution, options);
}

absl::StatusOr<ResetOutcome> OperatorClient::Reset(const OperationId& operation, Fence fence,
                                                   const CallOptions& options) const {
  return connection_->Reset(operation, fence, options);
}

}  // namespace once
