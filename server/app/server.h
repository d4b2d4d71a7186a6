// The one place where the layers are put together: store → pipeline → authenticator → policies →
// rpc, with metrics, logs and HTTP around them; and where they are taken down in order.
#ifndef ONCE_APP_SERVER_H_
#define ONCE_APP_SERVER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "app/call_log.h"
#include "app/http_server.h"
#include "app/logging.h"
#include "app/metrics.h"
#include "app/policy_log.h"
#include "app/settings.h"
#include "app/signals.h"
#include "auth/authenticator.h"
#include "base/clock.h"
#include "pipeline/pipeline.h"
#include "policy/policy_cache.h"
#include "rpc/server.h"
#include "store/store.h"

namespace once::app {

// Used by one thread.
class Server {
 public:
  // `settings` are valid. `log` must outlive it.
  Server(const Settings& settings, std::unique_ptr<store::Store> store, Log* log);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // Stops without grace where Shutdown was not called.
  ~Server();

  // HTTP first (alive, not ready), then waits for the database as PrepareStore does and reads the
  // handler policies, then gRPC.
  // Blocks. Statuses of PrepareStore and of the listeners.
  absl::Status Start(const ShutdownSignals& signals);

  // In the order of the contract: not ready → no new calls → committers answer all that wait. False
  // where calls were cut off at `deadline`. Blocks until then at most (but for the database's own
  // timeouts).
  bool Shutdown(absl::Time deadline);

  // With the ports that were bound; after Start. Empty where there is no HTTP.
  std::vector<std::string> grpc_addresses() const;
  std::string http_address() const;

 private:
  enum class Phase : uint8_t { kStarting, kServing, kDraining };

  absl::Status StartHttp();
  absl::Status StartPolicies(const ShutdownSignals& signals);
  absl::Status WritePorts();
  Readiness ReadinessNow() const;

  const Settings settings_;
  Log* const log_;
  base::RealClock clock_;
  Metrics metrics_;
  CallLog calls_;
  PolicyLog policy_log_;
  // Each uses those above it.
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
  std::unique_ptr<auth::Authenticator> authenticator_;
  std::unique_ptr<policy::PolicyCache> policies_;
  std::unique_ptr<rpc::RpcServer> rpc_;
  std::atomic<Phase> phase_{Phase::kStarting};
  std::unique_ptr<HttpServer> http_;
};

}  // namespace once::app

#endif  // ONCE_APP_SERVER_H_
