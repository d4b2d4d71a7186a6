// A real server on a free port, over a pipeline, an authenticator and a store that tests control.
#ifndef ONCE_TESTS_UNIT_RPC_SERVER_FIXTURE_H_
#define ONCE_TESTS_UNIT_RPC_SERVER_FIXTURE_H_

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "auth/authenticator.h"
#include "base/error.h"
#include "once/internal/v1/wire_status.pb.h"
#include "once/v1/admin_service.grpc.pb.h"
#include "once/v1/idempotency_service.grpc.pb.h"
#include "pipeline/pipeline.h"
#include "policy/document.h"
#include "policy/policy_cache.h"
#include "rpc/server.h"
#include "unit/auth/fake_control_store.h"

namespace once::testing {

class MockPipeline : public pipeline::Pipeline {
 public:
  MOCK_METHOD(void, Begin, (pipeline::BeginCall, pipeline::Done<core::BeginOutcome>), (override));
  MOCK_METHOD(void, Complete, (pipeline::CompleteCall, pipeline::Done<core::CompleteOutcome>),
              (override));
  MOCK_METHOD(void, Abandon, (pipeline::AbandonCall, pipeline::Done<core::AbandonOutcome>),
              (override));
  MOCK_METHOD(void, Renew, (pipeline::RenewCall, pipeline::Done<core::RenewOutcome>), (override));
  MOCK_METHOD(void, Reset, (pipeline::ResetCall, pipeline::Done<core::ResetOutcome>), (override));
  MOCK_METHOD(void, Resolve, (pipeline::ResolveCall, pipeline::Done<core::ResolveOutcome>),
              (override));
  MOCK_METHOD(void, Lookup, (pipeline::LookupCall, pipeline::Done<core::LookupOutcome>),
              (override));
  MOCK_METHOD(bool, healthy, (), (const, override));
  MOCK_METHOD(void, Drain, (absl::Time), (override));
};

// Knows "consumer", "operator" and "admin"; everything else is refused.
class FakeAuthenticator final : public auth::Authenticator {
 public:
  void Authenticate(absl::string_view token, Done done) override {
    auth::Principal principal;
    principal.credential_id = absl::StrCat("id-of-", token);
    principal.handler_patterns = {"points.*"};
    principal.tenant = core::TenantId{7};
    principal.tenant_name = "acme";
    if (token == "consumer") {
      principal.role = store::Role::kConsumer;
    } else if (token == "operator") {
      principal.role = store::Role::kOperator;
    } else if (token == "admin") {
      principal.role = store::Role::kAdmin;
    } else {
      std::move(done)(base::MakeError(token == "away" ? base::ErrorReason::kStoreUnavailable
                                                      : base::ErrorReason::kUnauthenticated,
                                      "refused"));
      return;
    }
    std::move(done)(std::make_shared<const auth::Principal>(std::move(principal)));
  }
};

class RecordingObserver final : public rpc::CallObserver {
 public:
  void OnCallStarted(absl::string_view) override {
    absl::MutexLock lock(&mutex_);
    ++started_;
  }
  void OnCall(const rpc::CallRecord& record) override {
    absl::MutexLock lock(&mutex_);
    records_.push_back(record);
    changed_.SignalAll();
  }
  // The `index`th record; waits for it.
  rpc::CallRecord Await(size_t index) {
    absl::MutexLock lock(&mutex_);
    while (records_.size() <= index) {
      changed_.Wait(&mutex_);
    }
    return records_[index];
  }
  int started() {
    absl::MutexLock lock(&mutex_);
    return started_;
  }

 private:
  absl::Mutex mutex_;
  absl::CondVar changed_;
  int started_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<rpc::CallRecord> records_ ABSL_GUARDED_BY(mutex_);
};

// What a stock client reads from grpc-status-details-bin.
struct WireError {
  std::string reason;
  std::map<std::string, std::string> metadata;
  bool retryable = false;
};

inline WireError ErrorOf(const grpc::Status& status) {
  WireError error;
  internal::v1::RpcStatus details;
  details.ParseFromString(status.error_details());
  for (const auto& any : details.details()) {
    internal::v1::ErrorInfo info;
    if (any.type_url() == "type.googleapis.com/google.rpc.ErrorInfo" &&
        info.ParseFromString(any.value())) {
      error.reason = info.reason();
      error.metadata.insert(info.metadata().begin(), info.metadata().end());
    }
    error.retryable =
        error.retryable || any.type_url() == "type.googleapis.com/google.rpc.RetryInfo";
  }
  return error;
}

MATCHER(IsGrpcOk, "") {
  *result_listener << arg.error_code() << ": " << arg.error_message();
  return arg.ok();
}

MATCHER_P2(IsGrpcError, code, reason, "") {
  *result_listener << arg.error_code() << ": " << arg.error_message() << " [" << ErrorOf(arg).reason
                   << "]";
  return arg.error_code() == code && ErrorOf(arg).reason == reason;
}

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() { options_.listen_addresses = {"127.0.0.1:0"}; }

  rpc::ServerDependencies Dependencies() {
    return {.pipeline = &pipeline_,
            .authenticator = &authenticator_,
            .policies = policies_.get(),
            .store = &store_,
            .clock = &clock_,
            .observer = &observer_,
            .transport_log = [this](absl::string_view message) {
              absl::MutexLock lock(&transport_mutex_);
              transport_messages_.emplace_back(message);
            }};
  }

  // Before Start: policies of the tenant of all credentials here.
  void SetPolicies(const std::vector<core::HandlerPolicy>& policies) {
    const auto session = store_.OpenControlSession();
    ASSERT_TRUE((*session)->ApplyPolicies({7}, 0, policy::WriteDocument(policies), {}).ok());
  }

  void Start() {
    auto policies = policy::PolicyCache::Start({.refresh_interval = absl::Hours(1)},
                                               options_.limits, &store_, nullptr);
    ASSERT_TRUE(policies.ok()) << policies.status();
    policies_ = *std::move(policies);
    auto server = rpc::RpcServer::Start(options_, Dependencies());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = Connect();
    stub_ = v1::IdempotencyService::NewStub(channel_);
    admin_stub_ = v1::AdminService::NewStub(channel_);
  }

  std::shared_ptr<grpc::Channel> Connect(const std::shared_ptr<grpc::ChannelCredentials>&
                                             credentials = grpc::InsecureChannelCredentials()) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    return grpc::CreateCustomChannel(absl::StrCat("localhost:", server_->bound_ports()[0]),
                                     credentials, arguments);
  }

  static std::unique_ptr<grpc::ClientContext> Context(const std::string& token = "consumer") {
    auto context = std::make_unique<grpc::ClientContext>();
    context->AddMetadata("authorization", "Bearer " + token);
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    return context;
  }

  static v1::BeginRequest BeginRequest(const std::string& event_id = "evt-1") {
    v1::BeginRequest request;
    request.set_handler("points.grant");
    request.set_event_id(event_id);
    request.set_attempt_id(std::string(16, 'a'));
    request.mutable_content()->set_data("secret content");
    return request;
  }

  static core::Granted Granted(int64_t fence = 17) {
    core::Granted granted;
    granted.claim.attempt.bytes.fill('a');
    granted.claim.fence = {fence};
    granted.lease_remaining = absl::Seconds(30);
    return granted;
  }

  ::testing::NiceMock<MockPipeline> pipeline_;
  FakeAuthenticator authenticator_;
  FakeControlStore store_;
  base::RealClock clock_;
  RecordingObserver observer_;
  absl::Mutex transport_mutex_;
  std::vector<std::string> transport_messages_ ABSL_GUARDED_BY(transport_mutex_);
  rpc::ServerOptions options_;
  std::unique_ptr<policy::PolicyCache> policies_;
  std::unique_ptr<rpc::RpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::IdempotencyService::Stub> stub_;
  std::unique_ptr<v1::AdminService::Stub> admin_stub_;
};

}  // namespace once::testing

#endif  // ONCE_TESTS_UNIT_RPC_SERVER_FIXTURE_H_
