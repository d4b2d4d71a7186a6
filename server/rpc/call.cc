#include "rpc/call.h"

// As generated code does: 1.51 has no other header for these.
#include <grpcpp/impl/codegen/proto_utils.h>

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "rpc/call_metadata.h"
#include "rpc/error_details.h"

namespace once::rpc {
namespace {

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  return deadline == std::chrono::system_clock::time_point::max() ? absl::InfiniteFuture()
                                                                  : absl::FromChrono(deadline);
}

// What of an error may go to logs. Paths inside JSON documents come from content.
std::string LoggedMessage(const absl::Status& error) {
  if (base::DetailsOf(error).reason == base::ErrorReason::kContentNotCanonical) {
    return "the content has no canonical form";
  }
  return std::string(error.message());
}

}  // namespace

CallReactor::CallReactor(absl::string_view method, grpc::CallbackServerContext* context,
                         grpc::ByteBuffer* response, CallObserver* observer, OpenCalls* open,
                         const base::Clock* clock)
    : context_(context),
      response_(response),
      observer_(observer),
      open_(open),
      clock_(clock),
      arrived_(clock->Now()),
      deadline_(DeadlineOf(*context)),
      cancellation_(std::make_shared<pipeline::Cancellation>()) {
  record_.method = method;
  record_.peer = context->peer();
  record_.trace_id = TraceId(context->client_metadata());
  if (observer_ != nullptr) {
    observer_->OnCallStarted(method);
  }
}

void CallReactor::OnCancel() { cancellation_->cancelled.store(true); }

void CallReactor::OnDone() {
  OpenCalls* const open = open_;
  delete this;
  if (open != nullptr) open->Leave();
}

void CallReactor::Finish(absl::string_view outcome, const absl::Status& error,
                         const grpc::Status& status) {
  if (observer_ != nullptr) {
    record_.outcome = outcome;
    record_.code = static_cast<absl::StatusCode>(status.error_code());
    record_.cancelled = cancellation_->cancelled.load();
    record_.latency = clock_->Now() - arrived_;
    if (!error.ok()) {
      record_.message = LoggedMessage(error);
    }
    observer_->OnCall(record_);
  }
  ServerUnaryReactor::Finish(status);  // from here on `this` may be gone
}

Call::~Call() {
  if (reactor_ != nullptr) {
    std::move(*this).Fail(
        base::MakeError(base::ErrorReason::kInternal, "the call was dropped without an answer"));
  }
}

void Call::Answer(const google::protobuf::MessageLite& response, absl::string_view outcome) && {
  CallReactor* const reactor = Take();
  bool own_buffer = false;
  const grpc::Status written =
      grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::MessageLite>(
          response, reactor->response_, &own_buffer);
  if (written.ok()) {
    reactor->Finish(outcome, absl::OkStatus(), written);
    return;
  }
  Call(reactor).Fail(base::MakeError(base::ErrorReason::kInternal,
                                     absl::StrCat("cannot serialise: ", written.error_message())));
}

void Call::Fail(const absl::Status& error) && {
  const grpc::Status status = ToGrpcStatus(error);
  const base::ErrorReason reason = base::DetailsOf(Public(error)).reason;
  Take()->Finish(base::ReasonName(reason), error, status);
}

void Call::set_principal(std::shared_ptr<const auth::Principal> principal) {
  record().tenant = principal->tenant_name;
  record().credential_id = principal->credential_id;
  reactor_->principal_ = std::move(principal);
}

CallReactor* Call::Take() { return std::exchange(reactor_, nullptr); }

absl::Status Parse(grpc::ByteBuffer* body, google::protobuf::Message* message) {
  const grpc::Status parsed =
      grpc::GenericDeserialize<grpc::ProtoBufferReader, google::protobuf::Message>(body, message);
  if (parsed.ok()) {
    return absl::OkStatus();
  }
  return base::MakeError(
      base::ErrorReason::kInvalidField,
      absl::StrCat("the request is no valid ", message->GetDescriptor()->full_name(),
                   ": malformed, or a text that is not UTF-8"));
}

}  // namespace once::rpc
