#include "rpc/server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "once/v1/admin_service.pb.h"
#include "once/v1/idempotency_service.pb.h"
#include "once/v1/operator_service.pb.h"
#include "rpc/admin_executor.h"
#include "rpc/admin_handlers.h"
#include "rpc/event_loop.h"
#include "rpc/guarded_service.h"
#include "rpc/health_service.h"
#include "rpc/idempotency_handlers.h"
#include "rpc/operator_handlers.h"
#include "rpc/status_macros.h"
#include "rpc/tls.h"
#include "rpc/transport_log.h"

namespace once::rpc {
namespace {

// Over the limits of the contract, so that the caller sees our error with its limit, not the
// transport's.
constexpr size_t kMessageSlackBytes = size_t{512} << 10;
// Clients may ping every 10 s; a second less allows for clocks and networks.
constexpr absl::Duration kMinPingInterval = absl::Seconds(9);
// More than a request needs from a caller's send to our guard.
constexpr absl::Duration kDrainingLinger = absl::Milliseconds(200);
// For connections to be told that the server goes, once nothing is under way on them.
constexpr absl::Duration kConnectionsLinger = absl::Seconds(1);

const google::protobuf::ServiceDescriptor* Descriptor(const char* name) {
  // Any message of the file makes sure that its descriptors are linked in.
  (void)v1::BeginRequest::descriptor();
  (void)v1::CreateTenantRequest::descriptor();
  (void)v1::ResolveRequest::descriptor();
  return google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
}
const google::protobuf::ServiceDescriptor* IdempotencyDescriptor() {
  return Descriptor("once.v1.IdempotencyService");
}
const google::protobuf::ServiceDescriptor* AdminDescriptor() {
  return Descriptor("once.v1.AdminService");
}
const google::protobuf::ServiceDescriptor* OperatorDescriptor() {
  return Descriptor("once.v1.OperatorService");
}

int Millis(absl::Duration duration) {
  return static_cast<int>(
      std::clamp<int64_t>(absl::ToInt64Milliseconds(duration), 0, std::numeric_limits<int>::max()));
}

int Bytes(size_t bytes) {
  return static_cast<int>(std::min<size_t>(bytes, std::numeric_limits<int>::max()));
}

// Linking the reflection library switches reflection on for every server of the process; this sets
// it per server.
class ReflectionOption final : public grpc::ServerBuilderOption {
 public:
  explicit ReflectionOption(bool on) : on_(on) {}
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->erase(std::remove_if(plugins->begin(), plugins->end(),
                                  [](const auto& plugin) {
                                    return plugin->name() == "proto_server_reflection";
                                  }),
                   plugins->end());
    if (on_) {
      plugins->push_back(std::make_unique<grpc::reflection::ProtoServerReflectionPlugin>());
    }
  }

 private:
  const bool on_;
};

// Every limit of the transport, stated.
void SetTransport(const ServerOptions& options, grpc::ServerBuilder* builder) {
  const core::Limits& limits = options.limits;
  const size_t largest =
      std::max({limits.max_message_bytes, limits.max_content_bytes, limits.max_result_bytes});
  builder->SetMaxReceiveMessageSize(Bytes(largest + kMessageSlackBytes));
  // Stored results may be larger than today's limit: they are answered all the same.
  builder->SetMaxSendMessageSize(-1);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, Bytes(options.max_metadata_bytes));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Millis(options.keepalive_time));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Millis(options.keepalive_timeout));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              Millis(kMinPingInterval));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Millis(options.max_connection_age));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                              Millis(options.max_connection_age_grace));
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              Millis(options.handshake_timeout));
  // Answers are never compressed; the filter that could would cost each call a twentieth.
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  // Two servers on one port by accident would share its connections.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->SetResourceQuota(grpc::ResourceQuota("once").Resize(options.memory_quota_bytes));
  builder->SetOption(std::make_unique<ReflectionOption>(options.reflection));
}

class GrpcServer final : public RpcServer {
 public:
  GrpcServer(const ServerOptions& options, const ServerDependencies& dependencies)
      : transport_log_(dependencies.transport_log),
        limits_(options.limits),
        guard_(dependencies.authenticator, dependencies.observer, dependencies.clock),
        admin_executor_(options.max_admin_queue, dependencies.store, dependencies.clock),
        idempotency_(IdempotencyDescriptor(), Audience::kTenants,
                     IdempotencyHandlers(dependencies.pipeline, &limits_, dependencies.policies),
                     &guard_),
        admin_(AdminDescriptor(), Audience::kAdmins, AdminHandlers(&admin_executor_, &limits_),
               &guard_),
        operator_(OperatorDescriptor(), Audience::kOperators,
                  OperatorHandlers(dependencies.pipeline, &admin_executor_, &limits_,
                                   dependencies.policies),
                  &guard_),
        health_({IdempotencyDescriptor()->full_name(), AdminDescriptor()->full_name(),
                 OperatorDescriptor()->full_name()}) {}

  ~GrpcServer() override { Shutdown(absl::InfinitePast()); }

  absl::Status Bind(const ServerOptions& options) {
    auto credentials = grpc::InsecureServerCredentials();
    if (options.tls.has_value()) {
      ONCE_ASSIGN_OR_RETURN(credentials, MakeTlsCredentials(*options.tls));
    }
    grpc::ServerBuilder builder;
    SetTransport(options, &builder);
    bound_ports_.assign(options.listen_addresses.size(), 0);
    for (size_t i = 0; i < options.listen_addresses.size(); ++i) {
      builder.AddListeningPort(options.listen_addresses[i], credentials, &bound_ports_[i]);
    }
    builder.RegisterService(&idempotency_);
    builder.RegisterService(&admin_);
    builder.RegisterService(&operator_);
    builder.RegisterService(&health_);
    loop_ = std::make_unique<EventLoop>(&builder, options.threads);
    server_ = builder.BuildAndStart();
    if (absl::Status status = CheckBound(options); !status.ok()) return status;
    idempotency_.Listen(loop_.get());
    admin_.Listen(loop_.get());
    operator_.Listen(loop_.get());
    health_.Listen(loop_.get());
    loop_->Start();
    return absl::OkStatus();
  }

  const std::vector<int>& bound_ports() const override { return bound_ports_; }

  void SetServing(bool serving) override { health_.SetServing(serving); }

  void Shutdown(absl::Time deadline) override {
    guard_.StartDraining();
    health_.Stop();
    if (server_ != nullptr) {
      // gRPC answers calls that it reads after its own shutdown began with CANCELLED, which tells a
      // caller nothing. What is on its way now still meets the guard and is told DRAINING.
      const absl::Duration linger = std::min(kDrainingLinger, deadline - absl::Now());
      if (linger > absl::ZeroDuration() && !shut_down_.exchange(true)) absl::SleepFor(linger);
      // A client that makes no calls may not read, and gRPC would wait for it to close its
      // connection (20 s): only calls are worth the grace time.
      guard_.WaitUntilAnswered(deadline);
      server_->Shutdown(absl::ToChronoTime(std::min(deadline, absl::Now() + kConnectionsLinger)));
      server_->Wait();
      loop_->Stop();
    }
  }

 private:
  absl::Status CheckBound(const ServerOptions& options) {
    for (size_t i = 0; i < bound_ports_.size(); ++i) {
      const bool unix = absl::StartsWith(options.listen_addresses[i], "unix:");
      if (bound_ports_[i] == 0) {
        return absl::UnavailableError(absl::StrCat("cannot listen on ", options.listen_addresses[i],
                                                   ": in use, not ours or no such address"));
      }
      bound_ports_[i] = unix ? 0 : bound_ports_[i];
    }
    return server_ != nullptr ? absl::OkStatus()
                              : absl::UnavailableError("gRPC cannot start a server");
  }

  const TransportLog transport_log_;
  const core::Limits limits_;
  CallGuard guard_;
  AdminExecutor admin_executor_;
  GuardedService idempotency_;
  GuardedService admin_;
  GuardedService operator_;
  HealthService health_;
  std::vector<int> bound_ports_;
  std::atomic<bool> shut_down_{false};
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<grpc::Server> server_;  // last: serves all of the above
};

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    const ServerOptions& options, const ServerDependencies& dependencies) {
  if (options.listen_addresses.empty()) {
    return absl::InvalidArgumentError("there is no address to listen on");
  }
  // Protobuf prints a line for every text that is not UTF-8. Requests are untrusted: that would be
  // a way to fill the disk, and the caller is told anyway.
  google::protobuf::SetLogHandler(nullptr);
  auto server = std::make_unique<GrpcServer>(options, dependencies);
  ONCE_RETURN_IF_ERROR(server->Bind(options));
  return server;
}

}  // namespace once::rpc
