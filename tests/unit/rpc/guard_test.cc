// Who may call what, and what becomes of a call that nobody answers.

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/client_unary_call.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "once/v1/operator_service.pb.h"
#include "unit/rpc/server_fixture.h"

namespace once::rpc {
namespace {

using ::once::testing::ErrorOf;
using ::once::testing::IsGrpcError;
using ::once::testing::IsGrpcOk;
using ::testing::_;
using ::testing::Contains;
using ::testing::Pair;

class GuardTest : public ::once::testing::ServerTest {
 protected:
  struct Method {
    std::string path;
    std::set<std::string> roles;  // that may call it
  };
  static std::set<std::string> RolesOf(const std::string& service) {
    if (service == "AdminService") return {"admin"};
    if (service == "OperatorService") return {"operator"};
    return {"consumer", "operator"};
  }

  // From the protocol itself, so that a method that is added later is covered.
  static std::vector<Method> AllMethods() {
    std::vector<Method> methods;
    for (const google::protobuf::FileDescriptor* file :
         {v1::BeginRequest::descriptor()->file(), v1::CreateTenantRequest::descriptor()->file(),
          v1::ResolveRequest::descriptor()->file()}) {
      for (int s = 0; s < file->service_count(); ++s) {
        for (int m = 0; m < file->service(s)->method_count(); ++m) {
          const auto* const method = file->service(s)->method(m);
          methods.push_back({absl::StrCat("/", method->service()->full_name(), "/", method->name()),
                             RolesOf(method->service()->name())});
        }
      }
    }
    return methods;
  }

  grpc::Status CallRaw(const std::string& path, grpc::ClientContext* context,
                       const std::string& body = "") {
    const grpc::internal::RpcMethod method(path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
    const grpc::Slice slice(body);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    return grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
        channel_.get(), method, context, request, &response);
  }

  grpc::Status Begin(grpc::ClientContext* context) {
    v1::BeginResponse response;
    return stub_->Begin(context, BeginRequest(), &response);
  }
};

TEST_F(GuardTest, NoMethodAnswersWithoutACredential) {
  Start();
  ASSERT_EQ(AllMethods().size(), 22u);
  for (const Method& method : AllMethods()) {
    grpc::ClientContext context;
    EXPECT_THAT(CallRaw(method.path, &context),
                IsGrpcError(grpc::StatusCode::UNAUTHENTICATED, "UNAUTHENTICATED"))
        << method.path;
  }
}

TEST_F(GuardTest, StrangersCannotMakeTheServerParse) {
  Start();
  for (const Method& method : AllMethods()) {
    EXPECT_THAT(CallRaw(method.path, Context("stranger").get(), "\xff\xff\xff"),
                IsGrpcError(grpc::StatusCode::UNAUTHENTICATED, "UNAUTHENTICATED"))
        << method.path;
  }
}

TEST_F(GuardTest, RolesAreForTheirServices) {
  Start();
  for (const Method& method : AllMethods()) {
    for (const char* role : {"consumer", "operator", "admin"}) {
      const grpc::Status status = CallRaw(method.path, Context(role).get());
      EXPECT_NE(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << method.path;
      if (method.roles.count(role) > 0) {
        EXPECT_NE(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << method.path;
        continue;
      }
      EXPECT_THAT(status, IsGrpcError(grpc::StatusCode::PERMISSION_DENIED, "PERMISSION_DENIED"))
          << method.path;
      EXPECT_THAT(ErrorOf(status).metadata, Contains(Pair("role", role)));
    }
  }
}

TEST_F(GuardTest, MalformedRequestIsTheCallersMistake) {
  Start();
  const std::string not_utf8 = "\x42\x01\xff";  // consumer = 8
  for (const std::string& body : {std::string("\xff\xff\xff"), not_utf8}) {
    EXPECT_THAT(CallRaw("/once.v1.IdempotencyService/Begin", Context().get(), body),
                IsGrpcError(grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD"));
  }
}

TEST_F(GuardTest, UnknownMethodIsUnimplemented) {
  Start();
  EXPECT_EQ(CallRaw("/once.v1.IdempotencyService/Steal", Context().get()).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(GuardTest, TwoCredentialsAreNone) {
  Start();
  const auto context = Context();
  context->AddMetadata("authorization", "Bearer consumer");
  EXPECT_THAT(Begin(context.get()),
              IsGrpcError(grpc::StatusCode::UNAUTHENTICATED, "UNAUTHENTICATED"));
  EXPECT_CALL(pipeline_, Begin(_, _)).Times(0);
}

TEST_F(GuardTest, CaseOfTheSchemeDoesNotMatter) {
  Start();
  EXPECT_CALL(pipeline_, Begin(_, _)).WillOnce([](auto, auto done) { std::move(done)(Granted()); });
  grpc::ClientContext context;
  context.AddMetadata("authorization", "bEARER consumer");
  EXPECT_THAT(Begin(&context), IsGrpcOk());
}

TEST_F(GuardTest, HugeCredentialIsRefusedByUsNotByTheTransport) {
  Start();
  EXPECT_THAT(Begin(Context(std::string(8'193, 'x')).get()),
              IsGrpcError(grpc::StatusCode::UNAUTHENTICATED, "UNAUTHENTICATED"));
  EXPECT_EQ(Begin(Context(std::string(64 << 10, 'x')).get()).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  // The transport may close a connection that sent it too much; others do not notice.
  stub_ = v1::IdempotencyService::NewStub(Connect());
  EXPECT_THAT(Begin(Context("stranger").get()),
              IsGrpcError(grpc::StatusCode::UNAUTHENTICATED, "UNAUTHENTICATED"));
}

TEST_F(GuardTest, DatabaseThatIsAwayIsNoRefusal) {
  Start();
  const grpc::Status status = Begin(Context("away").get());
  EXPECT_THAT(status, IsGrpcError(grpc::StatusCode::UNAVAILABLE, "STORE_UNAVAILABLE"));
  EXPECT_TRUE(ErrorOf(status).retryable);
}

TEST_F(GuardTest, CallThatIsDroppedAnswersInternal) {
  Start();
  EXPECT_CALL(pipeline_, Begin(_, _)).WillOnce([](auto, auto) {});
  const grpc::Status status = Begin(Context().get());
  EXPECT_THAT(status, IsGrpcError(grpc::StatusCode::INTERNAL, "INTERNAL"));
  EXPECT_EQ(observer_.Await(0).message, "the call was dropped without an answer");
}

TEST_F(GuardTest, CallerThatGoesAwayIsSeenByThePipeline) {
  Start();
  absl::Notification queued;
  pipeline::Done<core::BeginOutcome> held;
  std::shared_ptr<pipeline::Cancellation> cancellation;
  EXPECT_CALL(pipeline_, Begin(_, _)).WillOnce([&](pipeline::BeginCall call, auto done) {
    cancellation = call.info.cancellation;
    held = std::move(done);
    queued.Notify();
  });
  const auto context = Context();
  grpc::Status status;
  std::thread caller([&] { status = Begin(context.get()); });
  queued.WaitForNotification();
  EXPECT_FALSE(cancellation->cancelled.load());
  context->TryCancel();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  while (!cancellation->cancelled.load()) {
    std::this_thread::yield();
  }
  std::move(held)(Granted());  // still has to be answered, and is safe
  EXPECT_TRUE(observer_.Await(0).cancelled);
}

// The client sends a deadline, and then neither enforces it nor cancels (grpc-java#11872).
TEST_F(GuardTest, DeadlineIsEnforcedByTheServerItself) {
  Start();
  absl::Notification queued;
  pipeline::Done<core::BeginOutcome> held;
  pipeline::CallInfo info;
  EXPECT_CALL(pipeline_, Begin(_, _)).WillOnce([&](pipeline::BeginCall call, auto done) {
    info = call.info;
    held = std::move(done);
    queued.Notify();
  });
  const absl::Time before = absl::Now();
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer consumer");
  context.AddMetadata("grpc-timeout", "300m");
  grpc::Status status;
  std::thread caller([&] { status = Begin(&context); });
  queued.WaitForNotification();
  EXPECT_GT(info.deadline, before);
  EXPECT_LT(info.deadline, absl::Now() + absl::Milliseconds(300));
  caller.join();
  EXPECT_FALSE(status.ok());
  while (!info.cancellation->cancelled.load()) {
    std::this_thread::yield();
  }
  EXPECT_GE(absl::Now(), before + absl::Milliseconds(250));
  std::move(held)(Granted());
}

TEST_F(GuardTest, CallWithoutDeadlineHasNone) {
  Start();
  absl::Time deadline;
  EXPECT_CALL(pipeline_, Begin(_, _)).WillOnce([&](pipeline::BeginCall call, auto done) {
    deadline = call.info.deadline;
    std::move(done)(Granted());
  });
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer consumer");
  EXPECT_THAT(Begin(&context), IsGrpcOk());
  EXPECT_EQ(deadline, absl::InfiniteFuture());
}

TEST_F(GuardTest, RecordTellsWhatHappenedButNoContentAndNoSecret) {
  Start();
  EXPECT_CALL(pipeline_, Begin(_, _)).WillOnce([](auto, auto done) {
    std::move(done)(Granted(4711));
  });
  const auto context = Context();
  context->AddMetadata("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  v1::BeginRequest request = BeginRequest(std::string("evt\n\0", 5) + std::string(100, 'x'));
  v1::BeginResponse response;
  ASSERT_THAT(stub_->Begin(context.get(), request, &response), IsGrpcOk());
  const CallRecord record = observer_.Await(0);
  EXPECT_EQ(record.method, "Begin");
  EXPECT_EQ(record.outcome, "granted");
  EXPECT_EQ(record.code, absl::StatusCode::kOk);
  EXPECT_FALSE(record.cancelled);
  EXPECT_GE(record.latency, absl::ZeroDuration());
  EXPECT_EQ(record.tenant, "acme");
  EXPECT_EQ(record.credential_id, "id-of-consumer");
  EXPECT_EQ(record.handler, "points.grant");
  EXPECT_EQ(record.event_id, "evt\\n\\x00" + std::string(59, 'x'));
  EXPECT_EQ(record.event_id_bytes, 105u);
  EXPECT_EQ(record.attempt_id, "61616161616161616161616161616161");
  EXPECT_EQ(record.fence, 4711);
  EXPECT_EQ(record.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_THAT(record.peer, ::testing::HasSubstr("127.0.0.1"));
  EXPECT_EQ(record.message, "");
  EXPECT_EQ(observer_.started(), 1);
}

TEST_F(GuardTest, RecordOfAnErrorHasItsReason) {
  Start();
  v1::BeginRequest request = BeginRequest();
  request.set_handler("or\nder");
  v1::BeginResponse response;
  (void)stub_->Begin(Context().get(), request, &response);
  CallRecord record = observer_.Await(0);
  EXPECT_EQ(record.outcome, "INVALID_FIELD");
  EXPECT_EQ(record.code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(record.handler, "or\\nder");
  EXPECT_EQ(record.message, "handler has a byte outside [A-Za-z0-9._:/-] at offset 2");

  request = BeginRequest();
  request.mutable_content()->set_scheme(v1::DIGEST_SCHEME_JSON_JCS_SHA256);
  request.mutable_content()->set_data("{\"password\": 1e999}");
  (void)stub_->Begin(Context().get(), request, &response);
  record = observer_.Await(1);
  EXPECT_EQ(record.outcome, "CONTENT_NOT_CANONICAL");
  EXPECT_EQ(record.message, "the content has no canonical form");
}

}  // namespace
}  // namespace once::rpc
