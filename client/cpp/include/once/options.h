// Settings of a connection and of a call. Plain structs: set what you need, the rest has defaults.
#ifndef ONCE_OPTIONS_H_
#define ONCE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace once {

// When to give up. A call ends at whichever limit comes first.
struct RetryPolicy {
  absl::Duration max_elapsed = absl::Seconds(60);      // the whole call, with all its retries
  int max_attempts = std::numeric_limits<int>::max();  // 1: never retried
  absl::Duration attempt_timeout = absl::Seconds(10);  // one sending; waits are added to it
};

// How long to pause between attempts: uniformly random between half of and the full step, steps
// growing from `initial` by `multiplier` up to `max`. A delay that the server asks for is respected
// where it is longer.
struct BackoffPolicy {
  absl::Duration initial = absl::Milliseconds(50);
  absl::Duration max = absl::Seconds(5);
  double multiplier = 2.0;
};

// Time as the library uses it. Implementations must be thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Time since some fixed moment. Never goes back; counts while the machine is suspended, since the
  // leases in the database do.
  virtual absl::Duration Elapsed() const = 0;
  // Blocks the calling thread.
  virtual void Sleep(absl::Duration duration) = 0;
};

// The operating system's clock.
std::shared_ptr<Clock> MakeSystemClock();

enum class Transport {
  kTls,
  // No encryption, to endpoints on this machine only: 127.0.0.0/8, [::1], localhost, unix sockets.
  kPlaintextLoopback,
  // No encryption to anywhere: the credential and all contents can be read on the way. For networks
  // that encrypt by themselves (a service mesh).
  kPlaintext,
};

// True for an endpoint that kPlaintextLoopback accepts, by the look of its address: no name is
// looked up.
bool IsLoopbackEndpoint(absl::string_view endpoint);

// PEM files, read when the connection is made.
struct TlsOptions {
  std::string ca_file;           // empty: the system's certificate authorities
  std::string certificate_file;  // both or none: mutual TLS
  std::string key_file;
  std::string server_name;  // expected in the server's certificate, where it is not the endpoint's
};

struct ConnectionOptions {
  // "host:port", or a gRPC target such as "dns:///once.internal:7447" or "unix:/run/once.sock". A
  // name with several addresses is used round robin. Of several endpoints one is used until it
  // fails, then the next.
  std::vector<std::string> endpoints = {"127.0.0.1:7447"};
  Transport transport = Transport::kTls;
  TlsOptions tls;

  // The credential: either the token itself or a file that holds it. The file is read again when it
  // changes, so a rotation needs no restart.
  std::string token;
  std::string token_file;

  RetryPolicy retry;
  BackoffPolicy backoff;

  // How often an idle connection is probed; at least 10 s, which is what the server allows.
  absl::Duration keepalive_time = absl::Seconds(30);
  absl::Duration keepalive_timeout = absl::Seconds(10);
  // Above the server's 4 MiB, so that its own error is seen rather than the transport's.
  int max_message_bytes = 8 << 20;

  // For tests. Default: the system's.
  std::shared_ptr<Clock> clock;
  // 64 uniformly random bits, for jitter. Must be thread-safe.
  std::function<uint64_t()> random;
};

// What may differ from call to call. Unset: as the connection says.
struct CallOptions {
  std::optional<RetryPolicy> retry;
  std::optional<BackoffPolicy> backoff;
  // W3C Trace Context `traceparent`, sent along; the server writes its trace id into its log.
  std::string traceparent;
  // Why, for the audit: changes of AdminClient only. At most 255 bytes.
  std::string reason;
};

}  // namespace once

#endif  // ONCE_OPTIONS_H_
