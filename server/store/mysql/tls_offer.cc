#include "store/mysql/tls_offer.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

namespace once::store::mysql {
namespace {

constexpr uint8_t kProtocolVersion = 10;
constexpr uint16_t kClientSsl = 0x0800;
constexpr size_t kHeaderBytes = 4;
constexpr size_t kMaxGreetingBytes = 1024;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

bool WaitFor(int fd, short events, absl::Duration timeout) {
  pollfd wait = {.fd = fd, .events = events, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

bool Connect(int fd, const addrinfo& address, absl::Duration timeout) {
  if (connect(fd, address.ai_addr, address.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS || !WaitFor(fd, POLLOUT, timeout)) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

std::string ReadGreeting(int fd, absl::Duration timeout) {
  std::string greeting;
  char buffer[kMaxGreetingBytes];
  while (greeting.size() < kMaxGreetingBytes) {
    if (greeting.size() >= kHeaderBytes &&
        greeting.size() >= kHeaderBytes + static_cast<uint8_t>(greeting[0])) {
      break;
    }
    if (!WaitFor(fd, POLLIN, timeout)) break;
    const ssize_t size = recv(fd, buffer, sizeof buffer, 0);
    if (size <= 0) break;
    greeting.append(buffer, static_cast<size_t>(size));
  }
  return greeting;
}

}  // namespace

absl::Status CheckGreetingOffersTls(absl::string_view greeting) {
  // Header (length, sequence), protocol version, server version ending in NUL, connection id (4),
  // scramble (8), filler, then the lower two bytes of the capabilities.
  if (greeting.size() < kHeaderBytes + 1 ||
      static_cast<uint8_t>(greeting[kHeaderBytes]) != kProtocolVersion) {
    return absl::UnavailableError("the server does not greet as a MySQL server that is ready");
  }
  const size_t version_end = greeting.find('\0', kHeaderBytes + 1);
  const size_t capabilities = version_end + 1 + 4 + 8 + 1;
  if (version_end == absl::string_view::npos || greeting.size() < capabilities + 2) {
    return absl::UnavailableError("the server's greeting is too short");
  }
  const auto flags = static_cast<uint16_t>(static_cast<uint8_t>(greeting[capabilities]) |
                                           (static_cast<uint8_t>(greeting[capabilities + 1]) << 8));
  if ((flags & kClientSsl) != 0) return absl::OkStatus();
  return absl::FailedPreconditionError("TLS is asked for, but the server offers none");
}

absl::Status CheckServerOffersTls(const HostPort& host, absl::Duration timeout) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(host.port);
  if (const int error = getaddrinfo(host.host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat(ToString(host), ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    const Socket socket(::socket(address->ai_family,
                                 address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                                 address->ai_protocol));
    if (socket.fd() < 0 || !Connect(socket.fd(), *address, timeout)) continue;
    const absl::Status status = CheckGreetingOffersTls(ReadGreeting(socket.fd(), timeout));
    return absl::Status(status.code(), absl::StrCat(ToString(host), ": ", status.message()));
  }
  return absl::UnavailableError(absl::StrCat(ToString(host), ": no connection"));
}

}  // namespace once::store::mysql
