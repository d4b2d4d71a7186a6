// One call of Client::Execute: begin until granted, run the handler, complete or give back.
//
// Lives on the caller's stack; used by one thread.
#ifndef ONCE_CLIENT_SRC_EXECUTION_H_
#define ONCE_CLIENT_SRC_EXECUTION_H_

#include <memory>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lease_renewer.h"
#include "once/connection.h"
#include "once/execute.h"
#include "status_details.h"

namespace once::client_internal {

class Execution {
 public:
  Execution(Connection& connection, Clock& clock, LeaseRenewer& renewer,
            const OperationId& operation, const Payload& payload, const ExecuteOptions& options);

  absl::StatusOr<Executed> Run(Handler handler);

 private:
  struct Owned {
    Granted granted;
    absl::Duration measured_at;  // before the request was sent that `granted` answers
  };
  // Either the claim, or what to return without running the handler.
  using BeginResult = std::variant<Owned, Executed>;

  absl::StatusOr<BeginResult> BeginUntilGranted();
  absl::Status WaitForHolder(const InProgress& in_progress, absl::Duration began,
                             absl::Duration asked);
  absl::StatusOr<bool> Refresh(Owned& owned);
  absl::StatusOr<Executed> RunOwned(const Owned& owned, Handler handler);
  absl::StatusOr<Executed> Complete(const Claim& claim, HandlerResult result);
  void Abandon(const Claim& claim, const HandlerVerdict& verdict, const std::string& reason);

  Connection& connection_;
  Clock& clock_;
  LeaseRenewer& renewer_;
  const OperationId& operation_;
  const ExecuteOptions& options_;
  const absl::Duration wait_until_;
  BeginRequest begin_;
};

}  // namespace once::client_internal

#endif  // ONCE_CLIENT_SRC_EXECUTION_H_
