// The connection behind a Client: one method per RPC. Applications replace it in their tests
// (once/mocks/mock_connection.h) and otherwise leave it alone.
#ifndef ONCE_CONNECTION_H_
#define ONCE_CONNECTION_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "once/options.h"
#include "once/outcomes.h"
#include "once/requests.h"

namespace once {

// Implementations must be thread-safe. Every method blocks until there is an answer, the call's
// retry policy gives up, or the error is one that a retry does not cure.
//
// The default answers UNIMPLEMENTED, so that a new method does not break existing implementations.
class Connection {
 public:
  virtual ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  virtual absl::StatusOr<BeginOutcome> Begin(const BeginRequest& request,
                                             const CallOptions& options);
  virtual absl::StatusOr<CompleteOutcome> Complete(const CompleteRequest& request,
                                                   const CallOptions& options);
  virtual absl::StatusOr<AbandonOutcome> Abandon(const AbandonRequest& request,
                                                 const CallOptions& options);
  virtual absl::StatusOr<RenewOutcome> Renew(const RenewRequest& request,
                                             const CallOptions& options);
  virtual absl::StatusOr<LookupOutcome> Lookup(const LookupRequest& request,
                                               const CallOptions& options);

  // As many answers as there were requests, in their order.
  virtual absl::StatusOr<std::vector<absl::StatusOr<BeginOutcome>>> BatchBegin(
      const std::vector<BeginRequest>& requests, const CallOptions& options);
  virtual absl::StatusOr<std::vector<absl::StatusOr<CompleteOutcome>>> BatchComplete(
      const std::vector<CompleteRequest>& requests, const CallOptions& options);
  virtual absl::StatusOr<std::vector<absl::StatusOr<RenewOutcome>>> BatchRenew(
      const std::vector<RenewRequest>& requests, const CallOptions& options);

 protected:
  Connection() = default;
};

// A connection over gRPC. Does not block: the network is first used by the first call.
// INVALID_ARGUMENT: the options contradict each other or a limit; the message lists all problems.
// NOT_FOUND, PERMISSION_DENIED, …: a TLS file cannot be read.
absl::StatusOr<std::shared_ptr<Connection>> MakeConnection(ConnectionOptions options);

}  // namespace once

#endif  // ONCE_CONNECTION_H_
