#include "app/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <vector>

namespace once::app {
namespace {

using ::testing::HasSubstr;

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    absl::StatusOr<std::unique_ptr<HttpServer>> server =
        HttpServer::Start({"127.0.0.1", 0}, {.metrics = [] { return std::string("once_x 1\n"); },
                                             .readiness =
                                                 [this] {
                                                   return Readiness{ready_, "because"};
                                                 }});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  HttpReply Get(const std::string& path) {
    const absl::StatusOr<HttpReply> reply =
        HttpGet({"127.0.0.1", server_->port()}, path, absl::Seconds(5));
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.value_or(HttpReply{});
  }

  std::atomic<bool> ready_{false};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AliveWhetherReadyOrNot) {
  EXPECT_EQ(Get("/healthz").status, 200);
  EXPECT_EQ(Get("/readyz").status, 503);
  EXPECT_THAT(Get("/readyz").body, HasSubstr("not ready: because"));
  ready_ = true;
  EXPECT_EQ(Get("/readyz").status, 200);
}

TEST_F(HttpServerTest, ServesMetricsAndNothingElse) {
  EXPECT_EQ(Get("/metrics").body, "once_x 1\n");
  EXPECT_EQ(Get("/").status, 404);
  EXPECT_EQ(Get("/../etc/passwd").status, 404);
}

TEST_F(HttpServerTest, ATakenPortIsAnErrorNotShared) {
  const absl::StatusOr<std::unique_ptr<HttpServer>> second =
      HttpServer::Start({"127.0.0.1", server_->port()}, {});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), HasSubstr("127.0.0.1:"));
}

TEST_F(HttpServerTest, SilentConnectionsDoNotKeepOthersOut) {
  std::vector<int> silent;
  for (int i = 0; i < 5; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    silent.push_back(fd);
  }
  const absl::StatusOr<HttpReply> reply =
      HttpGet({"127.0.0.1", server_->port()}, "/healthz", absl::Seconds(30));
  EXPECT_TRUE(reply.ok()) << reply.status();
  for (int fd : silent) close(fd);
}

TEST(HttpGet, SaysWhenNobodyAnswers) {
  std::unique_ptr<HttpServer> server = *HttpServer::Start({"127.0.0.1", 0}, {});
  const int port = server->port();
  server.reset();
  EXPECT_EQ(HttpGet({"127.0.0.1", port}, "/healthz", absl::Seconds(1)).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace once::app
