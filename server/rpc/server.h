// The gRPC server: IdempotencyService and AdminService over a pipeline, a store and an
// authenticator, and the standard health service.
//
// RPC threads never block: a call is authenticated from a cache, validated, handed to the pipeline
// and answered by the pipeline's thread. Calls of AdminService run on one thread with a control
// session of its own, behind a bounded queue.
#ifndef ONCE_RPC_SERVER_H_
#define ONCE_RPC_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "auth/authenticator.h"
#include "base/clock.h"
#include "core/limits.h"
#include "pipeline/pipeline.h"
#include "policy/policy_cache.h"
#include "rpc/call_observer.h"
#include "store/store.h"

namespace once::rpc {

// Whether clients show a certificate. One that is shown is always verified against the client CA.
enum class ClientCertificates : uint8_t { kNone, kRequest, kRequire };

// PEM files; read again every `reload_interval`, so that certificates can be renewed without a
// restart. Broken or half-written files leave the ones in use as they are.
struct TlsOptions {
  std::string certificate_file;  // chain, leaf first
  std::string key_file;
  std::string client_ca_file;  // needed unless kNone
  ClientCertificates client_certificates = ClientCertificates::kNone;
  absl::Duration reload_interval = absl::Minutes(1);  // at least 1 s
};

struct ServerOptions {
  // "host:port" (port 0: any free one) or "unix:/path"; at least one.
  std::vector<std::string> listen_addresses;
  // Unset: plaintext. Whether that is allowed for an address is the caller's decision.
  std::optional<TlsOptions> tls;

  core::Limits limits;

  // Threads that read requests and write answers; at least 1.
  int threads = 1;
  // Of one connection; more calls wait at the client.
  int max_concurrent_streams = 10'000;
  // All headers of a call together. The contract needs 8 KiB.
  size_t max_metadata_bytes = size_t{16} << 10;
  // Buffers of all connections together; beyond, gRPC refuses and slows down connections.
  size_t memory_quota_bytes = size_t{512} << 20;
  // Pings from the server to find dead connections. Clients may ping every 10 s, also without
  // calls.
  absl::Duration keepalive_time = absl::Seconds(30);
  absl::Duration keepalive_timeout = absl::Seconds(10);
  // Connections are asked to go after this time, so that load spreads; their calls have `grace` to
  // end (more than the longest wait).
  absl::Duration max_connection_age = absl::Hours(1);
  absl::Duration max_connection_age_grace = absl::Minutes(2);
  absl::Duration handshake_timeout = absl::Seconds(10);

  // Calls of AdminService that wait; beyond: OVERLOADED.
  size_t max_admin_queue = 100;
  // Server reflection (without authentication).
  bool reflection = false;
};

// All must outlive the server. `observer` may be null.
struct ServerDependencies {
  pipeline::Pipeline* pipeline = nullptr;
  auth::Authenticator* authenticator = nullptr;
  const policy::PolicyCache* policies = nullptr;
  store::Store* store = nullptr;  // for AdminService
  const base::Clock* clock = nullptr;
  CallObserver* observer = nullptr;
  // Gets gRPC's own messages (errors of the transport, failed handshakes); must not block. Empty:
  // stderr.
  std::function<void(absl::string_view)> transport_log;
};

// Thread-safe.
class RpcServer {
 public:
  // Binds and starts to answer; health says NOT_SERVING until SetServing(true). INVALID_ARGUMENT or
  // UNAVAILABLE with the address or file at fault. Blocks shortly (binding, reading certificate
  // files).
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const ServerOptions& options,
                                                          const ServerDependencies& dependencies);

  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;
  // Shuts down without grace where Shutdown was not called.
  virtual ~RpcServer() = default;

  // One per listen address; 0 for "unix:".
  virtual const std::vector<int>& bound_ports() const = 0;

  // What the health service says, for the whole server ("") and for each service.
  virtual void SetServing(bool serving) = 0;

  // Says NOT_SERVING, refuses new calls with DRAINING, closes the listeners, asks connections to
  // go, and returns when every call is answered; calls still open at `deadline` are cancelled.
  // Blocks: a cancelled call too must be answered by the pipeline, so drain the pipeline (by a
  // deadline a little earlier, so that what it gives up is told why) on another thread at the same
  // time. Repeatable.
  virtual void Shutdown(absl::Time deadline) = 0;

 protected:
  RpcServer() = default;
};

}  // namespace once::rpc

#endif  // ONCE_RPC_SERVER_H_
