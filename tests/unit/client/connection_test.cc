#include "once/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "connection_impl.h"
#include "fake_clock.h"
#include "fake_stub.h"
#include "grpc_stub.h"
#include "once/admin.h"
#include "once/client.h"
#include "status_matchers.h"

namespace once {
namespace {

using testing_support::FakeClock;
using testing_support::FakeStub;
using testing_support::HasCode;
using testing_support::HasReason;
using testing_support::IsOk;
using testing_support::Mishap;
using testing_support::ServerError;

ConnectionOptions Options(std::shared_ptr<Clock> clock) {
  ConnectionOptions options;
  options.clock = std::move(clock);
  options.random = [] { return uint64_t{0}; };
  return options;
}

class ConnectionTest : public testing::Test {
 protected:
  BeginRequest SomeBegin() {
    BeginRequest request;
    request.operation = {"h", "e"};
    request.payload = Content::Raw("x");
    request.attempt_id = AttemptId::Generate();
    return request;
  }

  std::shared_ptr<FakeClock> clock_ = std::make_shared<FakeClock>();
  std::shared_ptr<FakeStub> stub_ = std::make_shared<FakeStub>();
  std::shared_ptr<Connection> connection_ =
      client_internal::MakeConnectionOver(stub_, Options(clock_));
};

TEST_F(ConnectionTest, LostReplyOfBeginIsAskedForAgainWithTheSameAttemptAndFence) {
  stub_->mishaps = {FakeStub::Lost(), FakeStub::Refused(), FakeStub::Lost()};
  const auto outcome = connection_->Begin(SomeBegin(), {});
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(std::get<Granted>(*outcome).claim.fence, Fence{1});
  ASSERT_EQ(stub_->begins.size(), 4u);
  for (const auto& sent : stub_->begins) {
    EXPECT_EQ(sent.SerializeAsString(), stub_->begins[0].SerializeAsString());
  }
}

TEST_F(ConnectionTest, LostReplyOfCompleteIsAskedForAgainAndShowsTheReceipt) {
  const BeginRequest begin = SomeBegin();
  ASSERT_THAT(connection_->Begin(begin, {}), IsOk());
  stub_->mishaps = {FakeStub::Lost()};
  CompleteRequest complete{begin.operation,           begin.attempt_id, Fence{1},
                           ReceiptStatus::kSucceeded, "done",           ""};
  const auto outcome = connection_->Complete(complete, {});
  ASSERT_THAT(outcome, IsOk());
  EXPECT_EQ(std::get<Completed>(*outcome).receipt.result, "done");
}

TEST_F(ConnectionTest, RepeatedBeginAsksOnlyForTheRestOfItsWait) {
  BeginRequest begin = SomeBegin();
  begin.wait = absl::Seconds(10);
  stub_->mishaps = {FakeStub::Refused()};
  ASSERT_THAT(connection_->Begin(begin, {}), IsOk());
  ASSERT_EQ(stub_->begins.size(), 2u);
  EXPECT_EQ(client_internal::FromProto(stub_->begins[0].wait()), absl::Seconds(10));
  EXPECT_EQ(client_internal::FromProto(stub_->begins[1].wait()),
            absl::Seconds(10) - absl::Milliseconds(25));
}

TEST_F(ConnectionTest, WaitThatIsOverIsNotSent) {
  LookupRequest lookup;
  lookup.operation = {"h", "e"};
  lookup.wait = absl::Milliseconds(1);
  stub_->mishaps = {FakeStub::Refused()};
  ASSERT_THAT(connection_->Lookup(lookup, {}), IsOk());
  EXPECT_TRUE(stub_->lookups[0].has_wait());
  EXPECT_FALSE(stub_->lookups[1].has_wait());
}

TEST_F(ConnectionTest, CallOptionsReplaceTheConnectionsPolicies) {
  stub_->mishaps = {FakeStub::Refused(), FakeStub::Refused()};
  CallOptions options;
  options.retry = RetryPolicy{absl::Seconds(5), 1, absl::Seconds(1)};
  options.traceparent = "00-1-2-01";
  EXPECT_THAT(connection_->Begin(SomeBegin(), options), HasCode(absl::StatusCode::kUnavailable));
  ASSERT_EQ(stub_->calls.size(), 1u);
  EXPECT_EQ(stub_->calls[0].timeout, absl::Seconds(1));
  EXPECT_EQ(stub_->calls[0].traceparent, "00-1-2-01");
}

TEST_F(ConnectionTest, BatchAnswersAreInOrderAndErrorsTheItemsOwn) {
  stub_->batch_begin.add_results()->mutable_response()->mutable_granted();
  auto* error = stub_->batch_begin.add_results()->mutable_error();
  error->set_code(3);
  error->set_reason("INVALID_FIELD");
  stub_->batch_begin.add_results()->mutable_response()->mutable_in_progress();
  const auto outcomes = connection_->BatchBegin({SomeBegin(), SomeBegin(), SomeBegin()}, {});
  ASSERT_THAT(outcomes, IsOk());
  ASSERT_EQ(outcomes->size(), 3u);
  EXPECT_TRUE(std::holds_alternative<Granted>(*(*outcomes)[0]));
  EXPECT_THAT((*outcomes)[1], HasReason(ErrorReason::kInvalidField));
  EXPECT_TRUE(std::holds_alternative<InProgress>(*(*outcomes)[2]));
}

TEST_F(ConnectionTest, BatchAnswerOfAnotherLengthIsRefusedAsAWhole) {
  stub_->batch_begin.add_results()->mutable_response()->mutable_granted();
  EXPECT_THAT(connection_->BatchBegin({SomeBegin(), SomeBegin()}, {}),
              HasCode(absl::StatusCode::kInternal));
}

TEST_F(ConnectionTest, MethodThatAnImplementationDoesNotHaveSaysSo) {
  class Bare : public Connection {};
  const Client client(std::make_shared<Bare>());
  EXPECT_THAT(client.Lookup({}), HasCode(absl::StatusCode::kUnimplemented));
}

class FakeAdminStub : public client_internal::AdminStub {
 public:
  using RpcCall = client_internal::RpcCall;
  absl::Status failure;  // once
  int sent = 0;
  int pages = 1;

  absl::StatusOr<v1::CreateTenantResponse> CreateTenant(
      const RpcCall&, const v1::CreateTenantRequest& request) override {
    if (auto status = Take(); !status.ok()) return status;
    v1::CreateTenantResponse response;
    response.mutable_tenant()->set_name(request.name());
    return response;
  }
  absl::StatusOr<v1::ListTenantsResponse> ListTenants(
      const RpcCall&, const v1::ListTenantsRequest& request) override {
    if (auto status = Take(); !status.ok()) return status;
    v1::ListTenantsResponse response;
    response.add_tenants()->set_name("t" + request.page_token());
    if (sent < pages) response.set_next_page_token(std::to_string(sent));
    return response;
  }
  absl::StatusOr<v1::CreateCredentialResponse> CreateCredential(
      const RpcCall&, const v1::CreateCredentialRequest& request) override {
    if (auto status = Take(); !status.ok()) return status;
    v1::CreateCredentialResponse response;
    response.mutable_credential()->set_role(request.role());
    response.set_token("once_1_secret");
    return response;
  }
  absl::StatusOr<v1::ListCredentialsResponse> ListCredentials(
      const RpcCall&, const v1::ListCredentialsRequest&) override {
    if (auto status = Take(); !status.ok()) return status;
    return v1::ListCredentialsResponse();
  }
  absl::StatusOr<v1::RotateCredentialResponse> RotateCredential(
      const RpcCall&, const v1::RotateCredentialRequest& request) override {
    if (auto status = Take(); !status.ok()) return status;
    rotate = request;
    v1::RotateCredentialResponse response;
    response.mutable_credential()->set_role(v1::ROLE_CONSUMER);
    response.mutable_replaced()->set_role(v1::ROLE_CONSUMER);
    response.mutable_replaced()->mutable_expire_time()->set_seconds(5);
    return response;
  }
  v1::RotateCredentialRequest rotate;
  absl::StatusOr<v1::RevokeCredentialResponse> RevokeCredential(
      const RpcCall&, const v1::RevokeCredentialRequest& request) override {
    if (auto status = Take(); !status.ok()) return status;
    v1::RevokeCredentialResponse response;
    response.mutable_credential()->set_role(v1::ROLE_OPERATOR);
    reason = request.reason();
    return response;
  }
  std::string reason;
  absl::StatusOr<v1::GetHandlerPoliciesResponse> GetHandlerPolicies(
      const RpcCall&, const v1::GetHandlerPoliciesRequest&) override {
    if (auto status = Take(); !status.ok()) return status;
    return policies;
  }
  v1::GetHandlerPoliciesResponse policies;
  absl::StatusOr<v1::ListHandlerPolicyVersionsResponse> ListHandlerPolicyVersions(
      const RpcCall&, const v1::ListHandlerPolicyVersionsRequest&) override {
    if (auto status = Take(); !status.ok()) return status;
    v1::ListHandlerPolicyVersionsResponse response;
    response.add_versions()->set_version(pages - sent + 1);
    if (sent < pages) response.set_next_page_token(std::to_string(sent));
    return response;
  }
  absl::StatusOr<v1::ApplyHandlerPoliciesResponse> ApplyHandlerPolicies(
      const RpcCall&, const v1::ApplyHandlerPoliciesRequest& request) override {
    if (auto status = Take(); !status.ok()) return status;
    apply = request;
    v1::ApplyHandlerPoliciesResponse response;
    *response.mutable_policy_set() = request.policy_set();
    response.mutable_version()->set_version(request.expected_version() + 1);
    return response;
  }
  v1::ApplyHandlerPoliciesRequest apply;
  absl::StatusOr<v1::ListAuditRecordsResponse> ListAuditRecords(
      const RpcCall&, const v1::ListAuditRecordsRequest&) override {
    if (auto status = Take(); !status.ok()) return status;
    v1::ListAuditRecordsResponse response;
    response.add_records()->set_action(audit_action);
    return response;
  }
  v1::AuditAction audit_action = v1::AUDIT_ACTION_CREATE_TENANT;

 private:
  absl::Status Take() {
    ++sent;
    return std::exchange(failure, absl::OkStatus());
  }
};

class AdminConnectionTest : public testing::Test {
 protected:
  std::shared_ptr<FakeAdminStub> stub_ = std::make_shared<FakeAdminStub>();
  AdminClient client_{
      client_internal::MakeAdminConnectionOver(stub_, Options(std::make_shared<FakeClock>()))};
};

TEST_F(AdminConnectionTest, CreationThatMayHaveHappenedIsNotRepeated) {
  stub_->failure = absl::UnavailableError("reply lost");
  EXPECT_THAT(client_.CreateCredential({}), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_EQ(stub_->sent, 1);
}

TEST_F(AdminConnectionTest, CreationThatWasNotStartedIsRepeated) {
  stub_->failure = ServerError(absl::StatusCode::kUnavailable, ErrorReason::kDraining);
  const auto issued = client_.CreateCredential({"t", Role::kOperator, {}, "", {}});
  ASSERT_THAT(issued, IsOk());
  EXPECT_EQ(issued->token, "once_1_secret");
  EXPECT_EQ(issued->credential.role, Role::kOperator);
  EXPECT_EQ(stub_->sent, 2);
}

TEST_F(AdminConnectionTest, ReadsAndRevocationAreRepeated) {
  stub_->failure = absl::UnavailableError("");
  EXPECT_THAT(client_.ListAllTenants(), IsOk());
  stub_->failure = absl::UnavailableError("");
  EXPECT_THAT(client_.RevokeCredential("1"), IsOk());
  EXPECT_EQ(stub_->sent, 4);
}

TEST_F(AdminConnectionTest, ChangesCarryTheirReason) {
  CallOptions options;
  options.reason = "leaked";
  ASSERT_TRUE(client_.RevokeCredential("0000000000000000", options).ok());
  EXPECT_EQ(stub_->reason, "leaked");
}

TEST_F(AdminConnectionTest, PoliciesAreAppliedAfterTheVersionThatTheirAuthorSaw) {
  PolicyChange change;
  change.tenant = "acme";
  change.policies = *HandlerPolicies::Parse(R"(policies { handler: "a" })");
  change.expected_version = 3;
  change.reason = "a test";
  change.accept_digest_change = true;
  const auto made = client_.ApplyPolicies(change);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->version->version, 4);
  EXPECT_EQ(made->policies, change.policies);
  EXPECT_EQ(stub_->apply.tenant(), "acme");
  EXPECT_EQ(stub_->apply.reason(), "a test");
  EXPECT_TRUE(stub_->apply.accept_digest_change());
  // A repeat is answered with what the first made.
  stub_->failure = absl::UnavailableError("lost");
  EXPECT_TRUE(client_.ApplyPolicies(change).ok());
}

TEST_F(AdminConnectionTest, TenantWithoutPoliciesHasNoVersion) {
  const auto none = client_.GetPolicies("acme");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->version.has_value());
  EXPECT_EQ(none->policies, HandlerPolicies());
  stub_->policies.mutable_version()->set_version(2);
  EXPECT_EQ(client_.GetPolicies("acme")->version->version, 2);
}

TEST_F(AdminConnectionTest, ListAllPolicyVersionsFollowsThePages) {
  stub_->pages = 3;
  const auto versions = client_.ListAllPolicyVersions("acme");
  ASSERT_TRUE(versions.ok());
  EXPECT_EQ(versions->size(), 3u);
}

TEST_F(AdminConnectionTest, AuditActionOfANewerServerIsNotGuessed) {
  EXPECT_EQ(client_.ListAuditRecords("", {})->items.front().action, AuditAction::kCreateTenant);
  stub_->audit_action = static_cast<v1::AuditAction>(99);
  EXPECT_THAT(client_.ListAuditRecords("", {}), HasCode(absl::StatusCode::kInternal));
}

TEST_F(AdminConnectionTest, ListAllFollowsThePages) {
  stub_->pages = 3;
  const auto tenants = client_.ListAllTenants();
  ASSERT_THAT(tenants, IsOk());
  ASSERT_EQ(tenants->size(), 3u);
  EXPECT_EQ((*tenants)[2].name, "t2");
}

TEST_F(AdminConnectionTest, OverlapOfZeroIsSentAndAnUnsetOneIsNot) {
  ASSERT_THAT(client_.RotateCredential("1"), IsOk());
  EXPECT_FALSE(stub_->rotate.has_overlap());
  const auto rotated = client_.RotateCredential("1", absl::ZeroDuration());
  ASSERT_THAT(rotated, IsOk());
  EXPECT_TRUE(stub_->rotate.has_overlap());
  EXPECT_EQ(rotated->replaced.expire_time, absl::FromUnixSeconds(5));
}

TEST(ConnectionOptionsTest, ListsAllProblemsAtOnce) {
  ConnectionOptions options;
  options.endpoints = {"db.example:7447"};
  options.transport = Transport::kPlaintextLoopback;
  options.token = "once_1_s3cret";
  options.token_file = "/f";
  options.tls.key_file = "k";
  options.keepalive_time = absl::Seconds(5);
  options.retry.max_attempts = 0;
  const auto connection = MakeConnection(options);
  ASSERT_THAT(connection, HasCode(absl::StatusCode::kInvalidArgument));
  const std::string message(connection.status().message());
  for (const char* problem :
       {"db.example:7447", "token_file", "key_file", "keepalive_time is 5s", "max_attempts"}) {
    EXPECT_THAT(message, testing::HasSubstr(problem));
  }
  EXPECT_THAT(message, testing::Not(testing::HasSubstr("s3cret")));
}

TEST(ConnectionOptionsTest, LoopbackIsDecidedByAddressAndNotByTheLookOfAName) {
  for (const char* target : {"127.0.0.1:7447", "127.9.9.9:1", "localhost:7447", "[::1]:7447",
                             "ipv4:127.0.0.1:7447", "ipv6:[::1]:7447", "dns:///localhost:7447",
                             "dns:localhost:7447", "unix:/run/x", "unix:///run/x"}) {
    EXPECT_TRUE(IsLoopbackEndpoint(target)) << target;
  }
  for (const char* target :
       {"127.0.0.1.evil.example:1", "localhost.evil.example:1", "10.0.0.1:1", "[::2]:1",
        "0.0.0.0:1", "dns:///once:7447", "dns://127.0.0.1/once:7447", "ipv4:127.0.0.1:1,10.0.0.1:1",
        "", "::1x"}) {
    EXPECT_FALSE(IsLoopbackEndpoint(target)) << target;
  }
}

TEST(ConnectionOptionsTest, UnreadableTlsFileIsNamed) {
  ConnectionOptions options;
  options.tls.ca_file = "/nonexistent/ca.pem";
  const auto connection = MakeConnection(options);
  EXPECT_THAT(connection, HasCode(absl::StatusCode::kNotFound));
  EXPECT_THAT(std::string(connection.status().message()),
              testing::HasSubstr("/nonexistent/ca.pem"));
}

}  // namespace
}  // namespace once
