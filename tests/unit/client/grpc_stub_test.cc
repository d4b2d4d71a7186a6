// The stubs against a real gRPC server in this process, over loopback.
#include "grpc_stub.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "once/client.h"
#include "once/internal/v1/wire_status.pb.h"
#include "once/v1/idempotency_service.grpc.pb.h"
#include "status_matchers.h"

namespace once {
namespace {

using testing::HasSubstr;
using testing_support::HasCode;
using testing_support::HasReason;
using testing_support::IsOk;

class Service final : public v1::IdempotencyService::Service {
 public:
  using Metadata = std::map<std::string, std::string>;

  // Set before the first call.
  std::function<grpc::Status(const v1::LookupRequest&, v1::LookupResponse*)> answer =
      [](const v1::LookupRequest&, v1::LookupResponse* response) {
        response->mutable_unclaimed()->set_state(v1::OPERATION_STATE_RELEASED);
        return grpc::Status::OK;
      };
  std::atomic<int> calls{0};

  Metadata last_metadata() {
    absl::MutexLock lock(&mutex_);
    return metadata_;
  }

  grpc::Status Lookup(grpc::ServerContext* context, const v1::LookupRequest* request,
                      v1::LookupResponse* response) override {
    ++calls;
    {
      absl::MutexLock lock(&mutex_);
      metadata_.clear();
      for (const auto& [name, value] : context->client_metadata()) {
        metadata_.emplace(std::string(name.data(), name.size()),
                          std::string(value.data(), value.size()));
      }
    }
    return answer(*request, response);
  }

 private:
  absl::Mutex mutex_;
  Metadata metadata_;
};

std::unique_ptr<grpc::Server> Serve(
    Service& service, int& port,
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials()) {
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), credentials, &port);
  builder.RegisterService(&service);
  return builder.BuildAndStart();
}

class GrpcStubTest : public testing::Test {
 protected:
  ConnectionOptions Options() {
    ConnectionOptions options;
    options.endpoints = {absl::StrCat("127.0.0.1:", port_)};
    options.transport = Transport::kPlaintextLoopback;
    options.token = "once_1_secret";
    options.retry.max_elapsed = absl::Seconds(20);
    return options;
  }
  static absl::StatusOr<LookupOutcome> Lookup(const ConnectionOptions& options,
                                              const CallOptions& call = {}) {
    auto connection = MakeConnection(options);
    if (!connection.ok()) return connection.status();
    return Client(*connection).Lookup({{"h", "e"}, {}, {}}, call);
  }

  int port_ = 0;
  Service service_;
  std::unique_ptr<grpc::Server> server_ = Serve(service_, port_);
};

TEST_F(GrpcStubTest, CallCarriesCredentialTraceAndVersion) {
  CallOptions call;
  call.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  ASSERT_THAT(Lookup(Options(), call), IsOk());
  const auto metadata = service_.last_metadata();
  EXPECT_EQ(metadata.at("authorization"), "Bearer once_1_secret");
  EXPECT_EQ(metadata.at("traceparent"), call.traceparent);
  EXPECT_THAT(metadata.at("user-agent"), HasSubstr("once-cpp/"));
}

TEST_F(GrpcStubTest, TraceparentThatWouldAbortTheProcessIsLeftOut) {
  CallOptions call;
  call.traceparent = "00-\n\xff";
  ASSERT_THAT(Lookup(Options(), call), IsOk());
  EXPECT_EQ(service_.last_metadata().count("traceparent"), 0u);
}

TEST_F(GrpcStubTest, ErrorOfTheServerArrivesWithItsDetailsAndIsNotRepeated) {
  service_.answer = [](const v1::LookupRequest&, v1::LookupResponse*) {
    internal::v1::ErrorInfo info;
    info.set_reason("OPERATION_NOT_FOUND");
    info.set_domain("once");
    (*info.mutable_metadata())["handler"] = "h";
    internal::v1::RpcStatus details;
    auto* any = details.add_details();
    any->set_type_url("type.googleapis.com/google.rpc.ErrorInfo");
    any->set_value(info.SerializeAsString());
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such operation",
                        details.SerializeAsString());
  };
  const auto outcome = Lookup(Options());
  EXPECT_THAT(outcome, HasCode(absl::StatusCode::kNotFound));
  EXPECT_THAT(outcome, HasReason(ErrorReason::kOperationNotFound));
  EXPECT_EQ(outcome.status().message(), "no such operation");
  EXPECT_EQ(service_.calls, 1);
}

TEST_F(GrpcStubTest, OnlyOneLayerRetries) {
  service_.answer = [](const v1::LookupRequest&, v1::LookupResponse*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "");
  };
  ConnectionOptions options = Options();
  options.retry.max_attempts = 3;
  options.backoff.initial = absl::Milliseconds(1);
  EXPECT_THAT(Lookup(options), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_EQ(service_.calls, 3);
}

TEST_F(GrpcStubTest, AttemptThatHangsIsGivenUpAndSentAgain) {
  std::atomic<int> call{0};
  service_.answer = [&](const v1::LookupRequest&, v1::LookupResponse* response) {
    if (call++ == 0) absl::SleepFor(absl::Milliseconds(300));  // longer than the attempt's timeout
    response->mutable_unclaimed();
    return grpc::Status::OK;
  };
  ConnectionOptions options = Options();
  options.retry.attempt_timeout = absl::Milliseconds(100);
  EXPECT_THAT(Lookup(options), IsOk());
  EXPECT_GE(service_.calls, 2);
}

TEST_F(GrpcStubTest, ConnectionSurvivesARestartOfTheServer) {
  auto connection = MakeConnection(Options());
  ASSERT_THAT(connection, IsOk());
  const Client client(*connection);
  ASSERT_THAT(client.Lookup({{"h", "e"}, {}, {}}), IsOk());
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  CallOptions impatient;
  impatient.retry = RetryPolicy{absl::Milliseconds(200), 2, absl::Milliseconds(200)};
  EXPECT_FALSE(client.Lookup({{"h", "e"}, {}, {}}, impatient).ok());
  server_ = Serve(service_, port_);
  EXPECT_THAT(client.Lookup({{"h", "e"}, {}, {}}), IsOk());
}

TEST_F(GrpcStubTest, NextEndpointIsUsedWhereOneDoesNotAnswer) {
  Service other;
  int other_port = 0;
  const auto other_server = Serve(other, other_port);
  for (uint64_t start : {0, 1}) {
    other.calls = 0;
    ConnectionOptions options = Options();
    options.endpoints.push_back(absl::StrCat("127.0.0.1:", other_port));
    options.random = [start] { return start; };
    options.backoff.initial = absl::Milliseconds(1);
    service_.answer = [](const v1::LookupRequest&, v1::LookupResponse*) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    };
    auto connection = MakeConnection(options);
    ASSERT_THAT(connection, IsOk());
    const Client client(*connection);
    for (int i = 0; i < 5; ++i) EXPECT_THAT(client.Lookup({{"h", "e"}, {}, {}}), IsOk());
    EXPECT_EQ(other.calls, 5) << "and it stays with the one that answers";
  }
}

TEST_F(GrpcStubTest, ProxyInTheEnvironmentIsNotAskedForThisMachine) {
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  const auto outcome = Lookup(Options());
  unsetenv("http_proxy");
  EXPECT_THAT(outcome, IsOk());
}

TEST_F(GrpcStubTest, MessageThatIsTooLargeIsNotSentAgainAndAgain) {
  ConnectionOptions options = Options();
  options.max_message_bytes = 1000;
  auto connection = MakeConnection(options);
  ASSERT_THAT(connection, IsOk());
  const auto outcome =
      Client(*connection).Lookup({{"h", "e"}, Payload(Content::Raw(std::string(2000, 'x'))), {}});
  EXPECT_THAT(outcome, HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(service_.calls, 0);
}

TEST_F(GrpcStubTest, MissingTokenFileIsSaidWithoutCalling) {
  ConnectionOptions options = Options();
  options.token.clear();
  options.token_file = "/nonexistent/token";
  const auto outcome = Lookup(options);
  EXPECT_THAT(outcome, HasCode(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("/nonexistent/token"));
  EXPECT_EQ(service_.calls, 0);
}

// ---- TLS ----

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "once-tls-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    MakeAuthority("ca");
    MakeAuthority("other-ca");
    MakeCertificate("server", "ca", "subjectAltName=DNS:once.example");
    MakeCertificate("client", "ca", "extendedKeyUsage=clientAuth");
    grpc::SslServerCredentialsOptions ssl(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    ssl.pem_root_certs = Read("ca.pem");
    ssl.pem_key_cert_pairs.push_back({Read("server.key"), Read("server.pem")});
    server_ = Serve(service_, port_, grpc::SslServerCredentials(ssl));
  }
  ~TlsTest() override { std::filesystem::remove_all(directory_); }

  void Openssl(const std::string& arguments) {
    const std::string command =
        absl::StrCat("cd ", directory_, " && openssl ", arguments, " >/dev/null 2>&1");
    ASSERT_EQ(std::system(command.c_str()), 0) << arguments;
  }
  void MakeAuthority(const std::string& name) {
    Openssl(absl::StrCat(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=", name,
        " -keyout ", name, ".key -out ", name, ".pem"));
  }
  void MakeCertificate(const std::string& name, const std::string& authority,
                       const std::string& extension) {
    std::ofstream(directory_ + "/" + name + ".ext") << extension << "\n";
    Openssl(absl::StrCat("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=", name,
                         " -keyout ", name, ".key -out ", name, ".csr"));
    Openssl(absl::StrCat("x509 -req -days 1 -in ", name, ".csr -CA ", authority, ".pem -CAkey ",
                         authority, ".key -CAcreateserial -extfile ", name, ".ext -out ", name,
                         ".pem"));
  }
  std::string Read(const std::string& name) {
    std::ifstream in(directory_ + "/" + name);
    return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  absl::StatusOr<LookupOutcome> Lookup(const TlsOptions& tls) {
    ConnectionOptions options;
    options.endpoints = {absl::StrCat("127.0.0.1:", port_)};
    options.tls = tls;
    options.retry.max_attempts = 1;
    auto connection = MakeConnection(options);
    if (!connection.ok()) return connection.status();
    return Client(*connection).Lookup({{"h", "e"}, {}, {}});
  }

  std::string directory_;
  int port_ = 0;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(TlsTest, MutualTlsNeedsTheRightAuthorityNameAndCertificate) {
  const TlsOptions good{directory_ + "/ca.pem", directory_ + "/client.pem",
                        directory_ + "/client.key", "once.example"};
  EXPECT_THAT(Lookup(good), IsOk());

  TlsOptions wrong = good;
  wrong.ca_file = directory_ + "/other-ca.pem";
  EXPECT_THAT(Lookup(wrong), HasCode(absl::StatusCode::kUnavailable));

  wrong = good;
  wrong.server_name = "else.example";
  EXPECT_THAT(Lookup(wrong), HasCode(absl::StatusCode::kUnavailable));

  wrong = good;
  wrong.certificate_file.clear();
  wrong.key_file.clear();
  EXPECT_THAT(Lookup(wrong), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_EQ(service_.calls, 1);
}

}  // namespace
}  // namespace once
