// Listening, health, reflection, draining.

#include "rpc/server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/support/sync_stream.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "unit/rpc/server_fixture.h"

namespace once::rpc {
namespace {

using ::once::testing::IsGrpcError;
using ::once::testing::IsGrpcOk;
using ::testing::_;

constexpr char kServing = 1;
constexpr char kNotServing = 2;
constexpr char kServiceUnknown = 3;

grpc::ByteBuffer HealthRequest(const std::string& service) {
  std::string bytes;
  if (!service.empty()) {
    bytes = std::string(1, '\x0a') + std::string(1, static_cast<char>(service.size())) + service;
  }
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

// The one byte of the status in a HealthCheckResponse; 0 where it is none.
char StatusIn(grpc::ByteBuffer* response) {
  grpc::Slice slice;
  if (!response->DumpToSingleSlice(&slice).ok() || slice.size() != 2 || slice.begin()[0] != 0x08) {
    return 0;
  }
  return static_cast<char>(slice.begin()[1]);
}

class RpcServerTest : public ::once::testing::ServerTest {
 protected:
  // 0 where the call failed.
  char Health(const std::string& service, grpc::Status* status = nullptr) {
    const grpc::internal::RpcMethod method("/grpc.health.v1.Health/Check",
                                           grpc::internal::RpcMethod::NORMAL_RPC);
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    const grpc::Status answer =
        grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
            channel_.get(), method, &context, HealthRequest(service), &response);
    if (status != nullptr) {
      *status = answer;
    }
    return answer.ok() ? StatusIn(&response) : '\0';
  }

  std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> Watch(grpc::ClientContext* context,
                                                              const std::string& service) {
    static const grpc::internal::RpcMethod method("/grpc.health.v1.Health/Watch",
                                                  grpc::internal::RpcMethod::SERVER_STREAMING);
    return std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>>(
        grpc::internal::ClientReaderFactory<grpc::ByteBuffer>::Create<grpc::ByteBuffer>(
            channel_.get(), method, context, HealthRequest(service)));
  }

  static char Next(grpc::ClientReader<grpc::ByteBuffer>* reader) {
    grpc::ByteBuffer message;
    return reader->Read(&message) ? StatusIn(&message) : '\0';
  }

  grpc::Status Begin() {
    v1::BeginResponse response;
    return stub_->Begin(Context().get(), BeginRequest(), &response);
  }
};

TEST_F(RpcServerTest, HealthFollowsSetServing) {
  Start();
  for (const char* service : {"", "once.v1.IdempotencyService", "once.v1.AdminService"}) {
    server_->SetServing(false);
    EXPECT_EQ(Health(service), kNotServing) << service;
    server_->SetServing(true);
    EXPECT_EQ(Health(service), kServing) << service;
  }
}

TEST_F(RpcServerTest, HealthSaysNotServingFromTheStart) {
  Start();
  EXPECT_EQ(Health(""), kNotServing);
}

TEST_F(RpcServerTest, HealthOfUnknownServicesIsNotFound) {
  Start();
  for (const std::string& service : {std::string("other"), std::string(100, 'x')}) {
    grpc::Status status;
    Health(service, &status);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  }
}

TEST_F(RpcServerTest, WatchSeesEveryChangeAndEndsWithTheServer) {
  Start();
  grpc::ClientContext context;
  const auto watch = Watch(&context, "once.v1.IdempotencyService");
  EXPECT_EQ(Next(watch.get()), kNotServing);
  server_->SetServing(true);
  EXPECT_EQ(Next(watch.get()), kServing);
  server_->SetServing(true);  // no change, no message
  server_->SetServing(false);
  EXPECT_EQ(Next(watch.get()), kNotServing);
  server_->Shutdown(absl::InfiniteFuture());  // an open watch does not hold it up
  EXPECT_EQ(Next(watch.get()), 0);
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(RpcServerTest, WatchOfAnUnknownServiceStaysOpen) {
  Start();
  grpc::ClientContext context;
  const auto watch = Watch(&context, "other");
  EXPECT_EQ(Next(watch.get()), kServiceUnknown);
  context.TryCancel();
  EXPECT_EQ(Next(watch.get()), 0);
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(RpcServerTest, ShutdownWaitsForCallsThatAreUnderWay) {
  Start();
  server_->SetServing(true);
  absl::Notification queued;
  pipeline::Done<core::BeginOutcome> held;
  EXPECT_CALL(pipeline_, Begin(_, _)).WillOnce([&](auto, auto done) {
    held = std::move(done);
    queued.Notify();
  });
  grpc::Status status;
  std::thread caller([&] { status = Begin(); });
  queued.WaitForNotification();
  absl::Notification down;
  std::thread shutter([&] {
    server_->Shutdown(absl::InfiniteFuture());
    down.Notify();
  });
  while (Health("") == kServing) {
    std::this_thread::yield();
  }
  EXPECT_EQ(Begin().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(down.HasBeenNotified());
  std::move(held)(Granted());
  caller.join();
  shutter.join();
  EXPECT_THAT(status, IsGrpcOk());
}

TEST_F(RpcServerTest, ShutdownCancelsWhatIsOpenAtTheDeadline) {
  Start();
  absl::Notification queued;
  pipeline::Done<core::BeginOutcome> held;
  std::shared_ptr<pipeline::Cancellation> cancellation;
  EXPECT_CALL(pipeline_, Begin(_, _)).WillOnce([&](auto call, auto done) {
    held = std::move(done);
    cancellation = call.info.cancellation;
    queued.Notify();
  });
  grpc::Status status;
  std::thread caller([&] { status = Begin(); });
  queued.WaitForNotification();
  std::thread shutter([&] { server_->Shutdown(absl::Now()); });
  caller.join();
  EXPECT_FALSE(status.ok());
  while (!cancellation->cancelled.load()) {
    std::this_thread::yield();
  }
  // As the pipeline does at its own deadline.
  std::move(held)(base::MakeError(base::ErrorReason::kDraining, "over"));
  shutter.join();
}

TEST_F(RpcServerTest, ShutdownIsRepeatable) {
  Start();
  server_->Shutdown(absl::InfiniteFuture());
  server_->Shutdown(absl::InfinitePast());
}

TEST_F(RpcServerTest, ListensOnSeveralAddresses) {
  std::string directory = ::testing::TempDir() + "/once-rpc-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  options_.listen_addresses = {"127.0.0.1:0", absl::StrCat("unix:", directory, "/s"),
                               "127.0.0.1:0"};
  Start();
  ASSERT_EQ(server_->bound_ports().size(), 3u);
  EXPECT_GT(server_->bound_ports()[0], 0);
  EXPECT_EQ(server_->bound_ports()[1], 0);
  EXPECT_GT(server_->bound_ports()[2], 0);
  EXPECT_NE(server_->bound_ports()[0], server_->bound_ports()[2]);
  for (const std::string& address : {absl::StrCat("unix:", directory, "/s"),
                                     absl::StrCat("127.0.0.1:", server_->bound_ports()[2])}) {
    channel_ = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
    EXPECT_EQ(Health(""), kNotServing) << address;
  }
  server_.reset();
  (void)rmdir(directory.c_str());
}

TEST_F(RpcServerTest, AddressInUseIsNamed) {
  Start();
  options_.listen_addresses = {absl::StrCat("127.0.0.1:", server_->bound_ports()[0])};
  const auto second = RpcServer::Start(options_, Dependencies());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), ::testing::HasSubstr(options_.listen_addresses[0]));
  // gRPC's own complaint goes where ours do.
  absl::MutexLock lock(&transport_mutex_);
  EXPECT_THAT(transport_messages_, ::testing::Contains(::testing::HasSubstr("already in use")));
}

TEST_F(RpcServerTest, NeedsAnAddress) {
  options_.listen_addresses.clear();
  EXPECT_FALSE(RpcServer::Start(options_, Dependencies()).ok());
}

TEST_F(RpcServerTest, ReflectionIsOffUnlessAskedFor) {
  const auto reflects = [this] {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(
        &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(nullptr);
    queue.Next(&tag, &ok);
    const std::string list_services("\x3a\x00", 2);  // list_services = 7
    const grpc::Slice slice(list_services);
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    queue.Next(&tag, &ok);
    grpc::ByteBuffer response;
    call->Read(&response, nullptr);
    queue.Next(&tag, &ok);
    const bool answered = ok;
    std::string text;
    if (answered) {
      grpc::Slice answer;
      EXPECT_TRUE(response.DumpToSingleSlice(&answer).ok());
      text.assign(reinterpret_cast<const char*>(answer.begin()), answer.size());
    }
    context.TryCancel();
    grpc::Status status;
    call->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
    return text;
  };
  Start();
  EXPECT_EQ(reflects(), "");
  server_.reset();
  options_.reflection = true;
  Start();
  const std::string services = reflects();
  EXPECT_THAT(services, ::testing::HasSubstr("once.v1.IdempotencyService"));
  EXPECT_THAT(services, ::testing::HasSubstr("once.v1.AdminService"));
  EXPECT_THAT(services, ::testing::HasSubstr("grpc.health.v1.Health"));
}

}  // namespace
}  // namespace once::rpc
