// Once's client: ask before you act, exactly one caller is granted.
//
//   auto connection = once::MakeConnection(options);
//   once::Client client(*connection);
//   auto executed = client.Execute({"points.grant", event_id}, once::Content::Json(body),
//                                  [&](once::ExecutionContext& context) { return Grant(context);
//                                  });
#ifndef ONCE_CLIENT_H_
#define ONCE_CLIENT_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "once/connection.h"
#include "once/error.h"
#include "once/execute.h"
#include "once/options.h"
#include "once/outcomes.h"
#include "once/requests.h"
#include "once/types.h"

namespace once {

// Thin and cheap to copy; copies share the connection and one thread that renews leases (started by
// the first Execute). Make one per process and copy it. All methods are thread-safe and block.
//
// Methods return a business outcome, or an error that `ErrorInfoOf` explains. UNAVAILABLE, an
// attempt that timed out, and RESOURCE_EXHAUSTED with a retry delay have been retried by the time
// they are returned. Any call may be repeated with the same arguments: the answer is the one that
// the first would have given.
class Client {
 public:
  explicit Client(std::shared_ptr<Connection> connection, std::shared_ptr<Clock> clock = nullptr);

  // Asks for the right to execute. Prefer Execute, which cannot forget to complete.
  absl::StatusOr<BeginOutcome> Begin(const BeginRequest& request,
                                     const CallOptions& options = {}) const;
  // Stores the receipt. Succeeds after the lease ran out as long as nobody took over.
  absl::StatusOr<CompleteOutcome> Complete(const CompleteRequest& request,
                                           const CallOptions& options = {}) const;
  // Gives the claim back.
  absl::StatusOr<AbandonOutcome> Abandon(const AbandonRequest& request,
                                         const CallOptions& options = {}) const;
  // Extends the lease.
  absl::StatusOr<RenewOutcome> Renew(const RenewRequest& request,
                                     const CallOptions& options = {}) const;
  // Reads the state of an operation. Reason kOperationNotFound: never begun, or forgotten.
  absl::StatusOr<LookupOutcome> Lookup(const LookupRequest& request,
                                       const CallOptions& options = {}) const;

  // Many at once, at most 1000: an answer per item, in order; one item's error is its own.
  // BatchBegin items must not ask for a wait.
  absl::StatusOr<std::vector<absl::StatusOr<BeginOutcome>>> BatchBegin(
      const std::vector<BeginRequest>& requests, const CallOptions& options = {}) const;
  absl::StatusOr<std::vector<absl::StatusOr<CompleteOutcome>>> BatchComplete(
      const std::vector<CompleteRequest>& requests, const CallOptions& options = {}) const;
  absl::StatusOr<std::vector<absl::StatusOr<RenewOutcome>>> BatchRenew(
      const std::vector<RenewRequest>& requests, const CallOptions& options = {}) const;

  // Begins, runs `handler` at most once, renews the lease meanwhile at a third of its length, and
  // completes with what the handler returned.
  //
  // OK: the receipt, fresh or replayed. It may say kRejected.
  // The handler's own error: the claim was given back as the error says (RetryAfter,
  // ForgetOperation, OutcomeUnknown; without these it is released). A handler that throws:
  // released, and the exception goes on. Otherwise an error with one of the reasons
  //   kInProgress         another attempt holds the claim; do not acknowledge, come back
  //   kConflict           the identity was used for other content; never acknowledge silently
  //   kInDoubt            an earlier attempt's outcome is unknown and the policy forbids a
  //                       second run
  //   kStale, kExpired    done before, without a receipt to show
  //   kClaimLost          the handler ran, and somebody else took over meanwhile: its effect must
  //                       be fenced or undone
  //   kCompletionConflict this attempt id has completed with another result, which stands
  //   kResultTooLarge     the handler ran, its result does not fit; the claim was kept
  // or what the transport said. When Complete could not be answered the claim is kept, never
  // released: the effect has happened. Repeating Execute with the same attempt id is safe.
  absl::StatusOr<Executed> Execute(const OperationId& operation, const Payload& payload,
                                   Handler handler, const ExecuteOptions& options = {}) const;

  // Copies compare equal: they share everything.
  friend bool operator==(const Client& a, const Client& b) { return a.impl_ == b.impl_; }
  friend bool operator!=(const Client& a, const Client& b) { return !(a == b); }

 private:
  friend struct ClientPeer;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace once

#endif  // ONCE_CLIENT_H_
