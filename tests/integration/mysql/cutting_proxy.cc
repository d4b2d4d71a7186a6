#include "integration/mysql/cutting_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace once::testing {
namespace {

void Must(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::abort();
}

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void NoDelay(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

CuttingProxy::CuttingProxy(const store::HostPort& server) : server_(server) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  Must(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
  Must(listen(listener_, 16) == 0, "listen");
  socklen_t size = sizeof address;
  Must(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0, "getsockname");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

void CuttingProxy::StopListening() {
  if (listener_ < 0) return;
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
  listener_ = -1;
}

CuttingProxy::~CuttingProxy() {
  StopListening();
  for (std::thread& server : servers_) server.join();
}

void CuttingProxy::Accept() {
  while (true) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    ++connections_;
    servers_.emplace_back([this, client] { Serve(client); });
  }
}

void CuttingProxy::Serve(int client) {
  const int upstream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(server_.port);
  Must(connect(upstream, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
       "connect");
  NoDelay(client);
  NoDelay(upstream);
  pollfd sockets[2] = {{.fd = client, .events = POLLIN, .revents = 0},
                       {.fd = upstream, .events = POLLIN, .revents = 0}};
  bool open = true;
  while (open && poll(sockets, 2, -1) > 0) {
    if (sockets[0].revents != 0) open = Forward(client, upstream, /*from_client=*/true);
    if (open && sockets[1].revents != 0) open = Forward(upstream, client, /*from_client=*/false);
  }
  close(client);
  close(upstream);
}

bool CuttingProxy::Forward(int from, int to, bool from_client) {
  char buffer[65536];
  const ssize_t size = recv(from, buffer, sizeof buffer, 0);
  if (size <= 0) return false;
  const std::string data(buffer, static_cast<size_t>(size));
  const bool commit = from_client && data.find("COMMIT") != std::string::npos;
  const bool cut = commit && cuts_ > 0 && cuts_.fetch_sub(1) > 0;
  if (cut && where_ == Cut::kBeforeCommit) return false;
  if (send(to, data.data(), data.size(), MSG_NOSIGNAL) != size) return false;
  return !cut;
}

}  // namespace once::testing
