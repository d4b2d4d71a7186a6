#include "once/connection.h"

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "connection_impl.h"
#include "convert.h"
#include "grpc_stub.h"
#include "retry_loop.h"
#include "status_details.h"

namespace once {
namespace client_internal {
namespace {

// Answers by position; a count that differs would give a caller another one's receipt.
template <typename Outcome, typename Response>
absl::StatusOr<std::vector<absl::StatusOr<Outcome>>> FromBatch(const Response& response,
                                                               size_t asked) {
  if (static_cast<size_t>(response.results_size()) != asked) {
    return absl::InternalError(absl::StrCat("the batch answer has ", response.results_size(),
                                            " results for ", asked, " requests"));
  }
  std::vector<absl::StatusOr<Outcome>> outcomes;
  outcomes.reserve(asked);
  for (const auto& result : response.results()) {
    if (result.has_error()) {
      outcomes.push_back(FromProto(result.error()));
    } else {
      outcomes.push_back(FromProto(result.response()));
    }
  }
  return outcomes;
}

template <typename Batch, typename Request>
Batch ToBatch(const std::vector<Request>& requests) {
  Batch batch;
  for (const Request& request : requests) *batch.add_requests() = ToProto(request);
  return batch;
}

class RetryingConnection final : public Connection {
 public:
  RetryingConnection(std::shared_ptr<Stub> stub, ConnectionOptions options)
      : stub_(std::move(stub)), options_(std::move(options)) {}

  absl::StatusOr<BeginOutcome> Begin(const BeginRequest& request,
                                     const CallOptions& options) override {
    auto proto = ToProto(request);
    return Answer<BeginOutcome>(
        RetryLoop<v1::BeginResponse>(ContextFor(options_, options), Repeatable::kYes, request.wait,
                                     [&](const RpcCall& call, absl::Duration wait) {
                                       SetWait(request.wait, wait, proto);
                                       return stub_->Begin(call, proto);
                                     }));
  }

  absl::StatusOr<CompleteOutcome> Complete(const CompleteRequest& request,
                                           const CallOptions& options) override {
    return Answer<CompleteOutcome>(Send(options, ToProto(request), &Stub::Complete));
  }

  absl::StatusOr<AbandonOutcome> Abandon(const AbandonRequest& request,
                                         const CallOptions& options) override {
    return Answer<AbandonOutcome>(Send(options, ToProto(request), &Stub::Abandon));
  }

  absl::StatusOr<RenewOutcome> Renew(const RenewRequest& request,
                                     const CallOptions& options) override {
    return Answer<RenewOutcome>(Send(options, ToProto(request), &Stub::Renew));
  }

  absl::StatusOr<LookupOutcome> Lookup(const LookupRequest& request,
                                       const CallOptions& options) override {
    auto proto = ToProto(request);
    return Answer<LookupOutcome>(
        RetryLoop<v1::LookupResponse>(ContextFor(options_, options), Repeatable::kYes, request.wait,
                                      [&](const RpcCall& call, absl::Duration wait) {
                                        SetWait(request.wait, wait, proto);
                                        return stub_->Lookup(call, proto);
                                      }));
  }

  absl::StatusOr<std::vector<absl::StatusOr<BeginOutcome>>> BatchBegin(
      const std::vector<BeginRequest>& requests, const CallOptions& options) override {
    return Answers<BeginOutcome>(
        Send(options, ToBatch<v1::BatchBeginRequest>(requests), &Stub::BatchBegin),
        requests.size());
  }

  absl::StatusOr<std::vector<absl::StatusOr<CompleteOutcome>>> BatchComplete(
      const std::vector<CompleteRequest>& requests, const CallOptions& options) override {
    return Answers<CompleteOutcome>(
        Send(options, ToBatch<v1::BatchCompleteRequest>(requests), &Stub::BatchComplete),
        requests.size());
  }

  absl::StatusOr<std::vector<absl::StatusOr<RenewOutcome>>> BatchRenew(
      const std::vector<RenewRequest>& requests, const CallOptions& options) override {
    return Answers<RenewOutcome>(
        Send(options, ToBatch<v1::BatchRenewRequest>(requests), &Stub::BatchRenew),
        requests.size());
  }

 private:
  template <typename Request, typename Response>
  absl::StatusOr<Response> Send(const CallOptions& options, const Request& request,
                                absl::StatusOr<Response> (Stub::*method)(const RpcCall&,
                                                                         const Request&)) {
    return RetryLoop<Response>(
        ContextFor(options_, options), Repeatable::kYes, absl::ZeroDuration(),
        [&](const RpcCall& call, absl::Duration) { return ((*stub_).*method)(call, request); });
  }

  // A wait that the caller got wrong (negative) goes out as it is, so that the server refuses it.
  template <typename Request>
  static void SetWait(absl::Duration asked, absl::Duration left, Request& request) {
    if (asked <= absl::ZeroDuration()) return;
    if (left <= absl::ZeroDuration()) {
      request.clear_wait();
    } else {
      *request.mutable_wait() = ToProto(left);
    }
  }

  template <typename Outcome, typename Response>
  static absl::StatusOr<Outcome> Answer(absl::StatusOr<Response> response) {
    if (!response.ok()) return response.status();
    return FromProto(*response);
  }

  template <typename Outcome, typename Response>
  static absl::StatusOr<std::vector<absl::StatusOr<Outcome>>> Answers(
      absl::StatusOr<Response> response, size_t asked) {
    if (!response.ok()) return response.status();
    return FromBatch<Outcome>(*response, asked);
  }

  const std::shared_ptr<Stub> stub_;
  const ConnectionOptions options_;
};

}  // namespace

std::shared_ptr<Connection> MakeConnectionOver(std::shared_ptr<Stub> stub,
                                               ConnectionOptions options) {
  return std::make_shared<RetryingConnection>(std::move(stub), std::move(options));
}

}  // namespace client_internal

namespace {

absl::Status Unimplemented(absl::string_view method) {
  return absl::UnimplementedError(absl::StrCat("this Connection has no ", method));
}

}  // namespace

Connection::~Connection() = default;

absl::StatusOr<BeginOutcome> Connection::Begin(const BeginRequest&, const CallOptions&) {
  return Unimplemented("Begin");
}
absl::StatusOr<CompleteOutcome> Connection::Complete(const CompleteRequest&, const CallOptions&) {
  return Unimplemented("Complete");
}
absl::StatusOr<AbandonOutcome> Connection::Abandon(const AbandonRequest&, const CallOptions&) {
  return Unimplemented("Abandon");
}
absl::StatusOr<RenewOutcome> Connection::Renew(const RenewRequest&, const CallOptions&) {
  return Unimplemented("Renew");
}
absl::StatusOr<LookupOutcome> Connection::Lookup(const LookupRequest&, const CallOptions&) {
  return Unimplemented("Lookup");
}
absl::StatusOr<std::vector<absl::StatusOr<BeginOutcome>>> Connection::BatchBegin(
    const std::vector<BeginRequest>&, const CallOptions&) {
  return Unimplemented("BatchBegin");
}
absl::StatusOr<std::vector<absl::StatusOr<CompleteOutcome>>> Connection::BatchComplete(
    const std::vector<CompleteRequest>&, const CallOptions&) {
  return Unimplemented("BatchComplete");
}
absl::StatusOr<std::vector<absl::StatusOr<RenewOutcome>>> Connection::BatchRenew(
    const std::vector<RenewRequest>&, const CallOptions&) {
  return Unimplemented("BatchRenew");
}

absl::StatusOr<std::shared_ptr<Connection>> MakeConnection(ConnectionOptions options) {
  if (auto status = client_internal::CheckOptions(options); !status.ok()) return status;
  options = client_internal::WithDefaults(std::move(options));
  auto stub = client_internal::MakeGrpcStub(options);
  if (!stub.ok()) return stub.status();
  return client_internal::MakeConnectionOver(*std::move(stub), std::move(options));
}

}  // namespace once
