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

absl::Time DeadlineOf(const grpc::ServerContext& context) {
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

void ServedCall::Await(absl::string_view method, const Request& request, const Came& came,
                       OpenCalls* users, CallObserver* observer, const base::Clock* clock) {
  if (!users->Enter()) return;
  auto* const call = new ServedCall(method, came, users, observer, clock);
  call->context_.AsyncNotifyWhenDone(&call->on_over_);
  request(&call->context_, &call->body_, &call->writer_, &call->on_came_);
}

ServedCall::ServedCall(absl::string_view method, const Came& came, OpenCalls* users,
                       CallObserver* observer, const base::Clock* clock)
    : came_(came),
      users_(users),
      observer_(observer),
      clock_(clock),
      cancellation_(std::make_shared<pipeline::Cancellation>()) {
  record_.method = method;
}

ServedCall::~ServedCall() {
  if (open_ != nullptr) open_->Leave();
}

void ServedCall::OnCame(bool ok) {
  if (!ok) {
    // The server is shut down; no other event will come.
    OpenCalls* const users = users_;
    delete this;
    users->Leave();
    return;
  }
  arrived_ = clock_->Now();
  deadline_ = DeadlineOf(context_);
  record_.peer = context_.peer();
  record_.trace_id = TraceId(context_.client_metadata());
  if (observer_ != nullptr) {
    observer_->OnCallStarted(record_.method);
  }
  // Moved on, because a waiting call would hold its content for a minute.
  came_(Call(this), std::move(body_));
}

void ServedCall::OnOver(bool) {
  if (context_.IsCancelled()) cancellation_->cancelled.store(true);
  Unref();
}

void ServedCall::OnAnswered(bool) { Unref(); }

void ServedCall::Unref() {
  if (events_to_come_.fetch_sub(1) > 1) return;
  OpenCalls* const users = users_;
  delete this;
  users->Leave();
}

void ServedCall::Finish(absl::string_view outcome, const absl::Status& error,
                        const grpc::Status& status, const grpc::ByteBuffer* response) {
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
  // From here on `this` may be gone.
  if (response != nullptr) {
    writer_.Finish(*response, status, &on_answered_);
  } else {
    writer_.FinishWithError(status, &on_answered_);
  }
}

Call::~Call() {
  if (served_ != nullptr) {
    std::move(*this).Fail(
        base::MakeError(base::ErrorReason::kInternal, "the call was dropped without an answer"));
  }
}

void Call::Answer(const google::protobuf::MessageLite& response, absl::string_view outcome) && {
  ServedCall* const served = Take();
  grpc::ByteBuffer bytes;
  bool own_buffer = false;
  const grpc::Status written =
      grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::MessageLite>(
          response, &bytes, &own_buffer);
  if (written.ok()) {
    served->Finish(outcome, absl::OkStatus(), written, &bytes);
    return;
  }
  Call(served).Fail(base::MakeError(base::ErrorReason::kInternal,
                                    absl::StrCat("cannot serialise: ", written.error_message())));
}

void Call::Fail(const absl::Status& error) && {
  const grpc::Status status = ToGrpcStatus(error);
  const base::ErrorReason reason = base::DetailsOf(Public(error)).reason;
  Take()->Finish(base::ReasonName(reason), error, status, nullptr);
}

void Call::set_principal(std::shared_ptr<const auth::Principal> principal) {
  record().tenant = principal->tenant_name;
  record().credential_id = principal->credential_id;
  served_->principal_ = std::move(principal);
}

ServedCall* Call::Take() { return std::exchange(served_, nullptr); }

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
