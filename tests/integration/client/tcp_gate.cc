#include "tcp_gate.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace once::testing_support {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

}  // namespace

TcpGate::TcpGate(int port) : port_(port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(listen(listener_, 16), 0);
  EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  own_port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

TcpGate::~TcpGate() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  Cut();
  std::vector<std::thread> pumps;
  {
    absl::MutexLock lock(&mutex_);
    pumps.swap(pumps_);
  }
  for (std::thread& pump : pumps) pump.join();
  absl::MutexLock lock(&mutex_);
  for (const int fd : sockets_) close(fd);
  close(listener_);
}

std::string TcpGate::address() const { return absl::StrCat("127.0.0.1:", own_port_); }

void TcpGate::Cut() {
  absl::MutexLock lock(&mutex_);
  // Closed only by the destructor: a number that is free could be another connection's by the next
  // Cut.
  for (const int fd : sockets_) shutdown(fd, SHUT_RDWR);
}

void TcpGate::Accept() {
  while (true) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    ++accepted_;
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(port_);
    const bool reached =
        connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    absl::MutexLock lock(&mutex_);
    if (!reached || closed_) {
      close(client);
      close(server);
      if (closed_) return;
      continue;
    }
    sockets_.insert(sockets_.end(), {client, server});
    pumps_.emplace_back([this, client, server] { Pump(client, server, false); });
    pumps_.emplace_back([this, client, server] { Pump(server, client, true); });
  }
}

void TcpGate::Pump(int from, int to, bool replies) {
  char buffer[1 << 14];
  ssize_t got = 0;
  while ((got = recv(from, buffer, sizeof(buffer), 0)) > 0) {
    if (replies && swallow_) continue;
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t n = send(to, buffer + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += n;
    }
  }
  shutdown(from, SHUT_RDWR);
  shutdown(to, SHUT_RDWR);
}

}  // namespace once::testing_support
