#include "grpc_stub.h"

#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "once/v1/admin_service.grpc.pb.h"
#include "once/v1/idempotency_service.grpc.pb.h"
#include "once/v1/operator_service.grpc.pb.h"
#include "once/version.h"
#include "status_details.h"
#include "token_source.h"

namespace once::client_internal {
namespace {

absl::StatusOr<std::string> ReadPem(const std::string& file) {
  if (file.empty()) return std::string();
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in.is_open() || in.bad()) {
    return absl::ErrnoToStatus(errno == 0 ? EIO : errno, absl::StrCat("cannot read ", file));
  }
  return text;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const ConnectionOptions& options) {
  if (options.transport != Transport::kTls) return grpc::InsecureChannelCredentials();
  auto roots = ReadPem(options.tls.ca_file);
  if (!roots.ok()) return roots.status();
  auto key = ReadPem(options.tls.key_file);
  if (!key.ok()) return key.status();
  auto certificate = ReadPem(options.tls.certificate_file);
  if (!certificate.ok()) return certificate.status();
  grpc::SslCredentialsOptions ssl;
  ssl.pem_root_certs = *std::move(roots);
  ssl.pem_private_key = *std::move(key);
  ssl.pem_cert_chain = *std::move(certificate);
  return grpc::SslCredentials(ssl);
}

int Millis(absl::Duration duration) {
  const int64_t millis = absl::ToInt64Milliseconds(duration);
  return static_cast<int>(std::clamp<int64_t>(millis, 1, std::numeric_limits<int>::max()));
}

grpc::ChannelArguments MakeArguments(const ConnectionOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetUserAgentPrefix(absl::StrCat("once-cpp/", ClientVersion()));
  arguments.SetLoadBalancingPolicyName("round_robin");
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // A proxy in the environment is for others than this machine.
  if (options.transport == Transport::kPlaintextLoopback) {
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  }
  // Nobody but us sets policies, also not through a TXT record.
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  // gRPC's own default lets a restarted server wait for two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 2000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(options.keepalive_time));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(options.keepalive_timeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  arguments.SetMaxSendMessageSize(options.max_message_bytes);
  if (!options.tls.server_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls.server_name);
  }
  return arguments;
}

absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> MakeChannels(
    const ConnectionOptions& options) {
  auto credentials = MakeCredentials(options);
  if (!credentials.ok()) return credentials.status();
  const grpc::ChannelArguments arguments = MakeArguments(options);
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (const std::string& endpoint : options.endpoints) {
    channels.push_back(grpc::CreateCustomChannel(endpoint, *credentials, arguments));
  }
  return channels;
}

bool IsTraceparent(const std::string& text) {
  constexpr size_t kMax = 128;
  return !text.empty() && text.size() <= kMax && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-';
  });
}

// Monotonic, so that a step of the wall clock moves no deadline.
gpr_timespec DeadlineIn(absl::Duration timeout) {
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_micros(absl::ToInt64Microseconds(std::min(timeout, absl::Hours(24))),
                           GPR_TIMESPAN));
}

// Several endpoints: one is used until it fails, then the next. Which is first is random, so that
// many clients with the same list spread.
template <typename Service>
class Endpoints {
 public:
  Endpoints(const std::vector<std::shared_ptr<grpc::Channel>>& channels, uint64_t start,
            std::shared_ptr<TokenSource> tokens)
      : tokens_(std::move(tokens)), current_(start % channels.size()) {
    for (const auto& channel : channels) stubs_.push_back(Service::NewStub(channel));
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(const RpcCall& call, const Request& request,
                                grpc::Status (Service::StubInterface::*method)(grpc::ClientContext*,
                                                                               const Request&,
                                                                               Response*)) {
    auto token = tokens_->Get();
    if (!token.ok()) return token.status();
    grpc::ClientContext context;
    context.set_deadline(DeadlineIn(call.timeout));
    if (!token->empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", *token));
    if (IsTraceparent(call.traceparent)) context.AddMetadata("traceparent", call.traceparent);
    Response response;
    size_t used = current_.load(std::memory_order_relaxed);
    typename Service::StubInterface& stub = *stubs_[used];
    const grpc::Status status = (stub.*method)(&context, request, &response);
    if (status.ok()) return response;
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
        status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      // Only the first of many failing calls moves on.
      current_.compare_exchange_strong(used, (used + 1) % stubs_.size());
    }
    return FromWire(static_cast<int>(status.error_code()), status.error_message(),
                    status.error_details());
  }

 private:
  const std::shared_ptr<TokenSource> tokens_;
  std::vector<std::unique_ptr<typename Service::Stub>> stubs_;
  std::atomic<size_t> current_;
};

class GrpcStub final : public Stub {
  using Service = v1::IdempotencyService;
  using Rpc = Service::StubInterface;

 public:
  explicit GrpcStub(std::unique_ptr<Endpoints<Service>> endpoints)
      : endpoints_(std::move(endpoints)) {}

  absl::StatusOr<v1::BeginResponse> Begin(const RpcCall& call,
                                          const v1::BeginRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::Begin);
  }
  absl::StatusOr<v1::CompleteResponse> Complete(const RpcCall& call,
                                                const v1::CompleteRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::Complete);
  }
  absl::StatusOr<v1::AbandonResponse> Abandon(const RpcCall& call,
                                              const v1::AbandonRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::Abandon);
  }
  absl::StatusOr<v1::RenewResponse> Renew(const RpcCall& call,
                                          const v1::RenewRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::Renew);
  }
  absl::StatusOr<v1::LookupResponse> Lookup(const RpcCall& call,
                                            const v1::LookupRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::Lookup);
  }
  absl::StatusOr<v1::BatchBeginResponse> BatchBegin(const RpcCall& call,
                                                    const v1::BatchBeginRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::BatchBegin);
  }
  absl::StatusOr<v1::BatchCompleteResponse> BatchComplete(
      const RpcCall& call, const v1::BatchCompleteRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::BatchComplete);
  }
  absl::StatusOr<v1::BatchRenewResponse> BatchRenew(const RpcCall& call,
                                                    const v1::BatchRenewRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::BatchRenew);
  }

 private:
  const std::unique_ptr<Endpoints<Service>> endpoints_;
};

class GrpcAdminStub final : public AdminStub {
  using Service = v1::AdminService;
  using Rpc = Service::StubInterface;

 public:
  explicit GrpcAdminStub(std::unique_ptr<Endpoints<Service>> endpoints)
      : endpoints_(std::move(endpoints)) {}

  absl::StatusOr<v1::CreateTenantResponse> CreateTenant(
      const RpcCall& call, const v1::CreateTenantRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::CreateTenant);
  }
  absl::StatusOr<v1::ListTenantsResponse> ListTenants(
      const RpcCall& call, const v1::ListTenantsRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::ListTenants);
  }
  absl::StatusOr<v1::CreateCredentialResponse> CreateCredential(
      const RpcCall& call, const v1::CreateCredentialRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::CreateCredential);
  }
  absl::StatusOr<v1::ListCredentialsResponse> ListCredentials(
      const RpcCall& call, const v1::ListCredentialsRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::ListCredentials);
  }
  absl::StatusOr<v1::RotateCredentialResponse> RotateCredential(
      const RpcCall& call, const v1::RotateCredentialRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::RotateCredential);
  }
  absl::StatusOr<v1::RevokeCredentialResponse> RevokeCredential(
      const RpcCall& call, const v1::RevokeCredentialRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::RevokeCredential);
  }
  absl::StatusOr<v1::GetHandlerPoliciesResponse> GetHandlerPolicies(
      const RpcCall& call, const v1::GetHandlerPoliciesRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::GetHandlerPolicies);
  }
  absl::StatusOr<v1::ListHandlerPolicyVersionsResponse> ListHandlerPolicyVersions(
      const RpcCall& call, const v1::ListHandlerPolicyVersionsRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::ListHandlerPolicyVersions);
  }
  absl::StatusOr<v1::ApplyHandlerPoliciesResponse> ApplyHandlerPolicies(
      const RpcCall& call, const v1::ApplyHandlerPoliciesRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::ApplyHandlerPolicies);
  }
  absl::StatusOr<v1::ListAuditRecordsResponse> ListAuditRecords(
      const RpcCall& call, const v1::ListAuditRecordsRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::ListAuditRecords);
  }

 private:
  const std::unique_ptr<Endpoints<Service>> endpoints_;
};

class GrpcOperatorStub final : public OperatorStub {
  using Service = v1::OperatorService;
  using Rpc = Service::StubInterface;

 public:
  explicit GrpcOperatorStub(std::unique_ptr<Endpoints<Service>> endpoints)
      : endpoints_(std::move(endpoints)) {}

  absl::StatusOr<v1::GetOperationResponse> GetOperation(
      const RpcCall& call, const v1::GetOperationRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::GetOperation);
  }
  absl::StatusOr<v1::ListAttemptsResponse> ListAttempts(
      const RpcCall& call, const v1::ListAttemptsRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::ListAttempts);
  }
  absl::StatusOr<v1::ResolveResponse> Resolve(const RpcCall& call,
                                              const v1::ResolveRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::Resolve);
  }
  absl::StatusOr<v1::ResetResponse> Reset(const RpcCall& call,
                                          const v1::ResetRequest& request) override {
    return endpoints_->Call(call, request, &Rpc::Reset);
  }

 private:
  const std::unique_ptr<Endpoints<Service>> endpoints_;
};

template <typename Service>
absl::StatusOr<std::unique_ptr<Endpoints<Service>>> MakeEndpoints(
    const ConnectionOptions& options) {
  auto channels = MakeChannels(options);
  if (!channels.ok()) return channels.status();
  auto tokens = std::make_shared<TokenSource>(options.token, options.token_file, options.clock);
  return std::make_unique<Endpoints<Service>>(*channels, options.random(), std::move(tokens));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Stub>> MakeGrpcStub(const ConnectionOptions& options) {
  auto endpoints = MakeEndpoints<v1::IdempotencyService>(options);
  if (!endpoints.ok()) return endpoints.status();
  return std::make_shared<GrpcStub>(*std::move(endpoints));
}

absl::StatusOr<std::shared_ptr<AdminStub>> MakeGrpcAdminStub(const ConnectionOptions& options) {
  auto endpoints = MakeEndpoints<v1::AdminService>(options);
  if (!endpoints.ok()) return endpoints.status();
  return std::make_shared<GrpcAdminStub>(*std::move(endpoints));
}

absl::StatusOr<std::shared_ptr<OperatorStub>> MakeGrpcOperatorStub(
    const ConnectionOptions& options) {
  auto endpoints = MakeEndpoints<v1::OperatorService>(options);
  if (!endpoints.ok()) return endpoints.status();
  return std::make_shared<GrpcOperatorStub>(*std::move(endpoints));
}

}  // namespace once::client_internal
