// The decisions: (row, request, database time) → (outcome, row afterwards).
//
// Pure functions of values, used by every path: first insert, duplicate, batch, wake-up of a
// waiter, lookup. No I/O, no clock, no threads. `row_after` is set where the row has to be written;
// its absence means that nothing changes.
#ifndef ONCE_CORE_DECIDE_H_
#define ONCE_CORE_DECIDE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "core/operation.h"
#include "core/types.h"

namespace once::core {

// ---- outcomes (once.v1 says what each means to a caller) ----

struct Granted {
  ClaimInfo claim;
  absl::Duration lease_remaining;
  int32_t attempt_number = 1;
  std::optional<ClaimInfo> earlier_attempt;
  // An earlier attempt's outcome is unknown, and the caller said that it asks its business data
  // before it acts.
  bool recovery = false;
};

struct Completed {
  Receipt receipt;
  std::string handler_version;
  Fence fence;
  bool replayed = true;
};

struct InProgress {
  enum class Reason : uint8_t { kHeld, kDelayed, kAggregateBusy };
  Reason reason = Reason::kHeld;
  std::string consumer;
  std::string handler_version;
  absl::Duration lease_remaining;
  DbTime begun;
  int32_t attempt_number = 1;
  std::optional<Digest> first_digest;  // unset where it is another operation that is in progress
  std::string blocking_event_id;       // that operation, with kAggregateBusy
};

struct Conflict {
  enum class Difference : uint8_t { kDigest, kScheme };
  Difference difference = Difference::kDigest;
  Digest first_digest;
  Digest request_digest;
  OperationState state = OperationState::kClaimed;
  std::string consumer;
  absl::Duration lease_remaining;  // zero unless state is kClaimed
  DbTime first_seen;
};

struct InDoubt {
  std::vector<ClaimInfo> earlier_attempts;  // latest first
  int32_t earlier_attempt_count = 0;
  bool probe_allowed = false;  // a Begin that can probe would be granted
};

struct Stale {
  std::string aggregate_id;
  int64_t current_version = 0;
  std::string current_event_id;
};

// Completed, without a receipt to show.
struct Expired {
  ReceiptStatus status = ReceiptStatus::kSucceeded;
  DbTime completed;
  std::string handler_version;
};

struct Unclaimed {
  OperationState state = OperationState::kReleased;
  std::optional<ClaimInfo> earlier_attempt;
};

struct ClaimLost {
  OperationState state = OperationState::kClaimed;
  // The claim that came after; consumer empty and begun 0 where there is none.
  std::string consumer;
  Fence fence;
  DbTime begun;
};

struct CompletionConflict {
  Completed stored;
};

struct Abandoned {
  bool forgotten = false;
};

// An operator decided that the operation did not happen, or shall happen again: the next Begin is
// granted.
struct Released {};

struct Renewed {
  ClaimInfo claim;
  absl::Duration lease_remaining;
};

// There is no such operation. `rpc` turns it into OPERATION_NOT_FOUND.
struct NotFound {};

using BeginOutcome =
    std::variant<Granted, Completed, InProgress, Conflict, InDoubt, Stale, Expired>;
using CompleteOutcome = std::variant<Completed, ClaimLost, CompletionConflict, NotFound>;
using AbandonOutcome = std::variant<Abandoned, ClaimLost, NotFound>;
using RenewOutcome = std::variant<Renewed, ClaimLost, NotFound>;
using ResolveOutcome =
    std::variant<Completed, Released, InProgress, ClaimLost, CompletionConflict, NotFound>;
using ResetOutcome = std::variant<Released, InProgress, ClaimLost, NotFound>;
using LookupOutcome =
    std::variant<Completed, InProgress, Conflict, InDoubt, Expired, Unclaimed, NotFound>;

// ---- requests, already validated ----

// The aggregate that an operation changes, and the order that the handler's policy wants there (see
// order.h).
struct OrderRequest {
  std::string aggregate_id;
  int64_t version = 0;
  bool guards_versions = false;
  bool one_at_a_time = false;
};

struct BeginRequest {
  Digest digest;
  AttemptId attempt;
  absl::Duration lease;
  std::string consumer;
  std::string handler_version;
  LapsePolicy on_lapse = LapsePolicy::kRetry;
  // The caller asks its business data about an earlier attempt before it acts.
  bool can_probe = false;
  std::optional<OrderRequest> order = std::nullopt;  // unset: the operation runs when it comes
  std::vector<std::string> readable_versions = {};   // as in HandlerPolicy
};

struct CompleteRequest {
  AttemptId attempt;
  Fence fence;
  ReceiptStatus status = ReceiptStatus::kSucceeded;
  std::string result;
  std::string content_type;
  Sha256 fingerprint{};  // FingerprintOf(status, content_type, result)
};

struct AbandonRequest {
  AttemptId attempt;
  Fence fence;
  bool forget = false;
  absl::Duration retry_delay;  // with release
};

// What an operator found out about an operation that nobody finished.
enum class Verdict : uint8_t { kDone, kRefused, kNotDone };

struct ResolveRequest {
  // The operation's latest claim, so that no later one is decided about.
  AttemptId attempt;
  Fence fence;
  Verdict verdict = Verdict::kNotDone;
  // With kDone (SUCCEEDED) and kRefused (REJECTED).
  std::string result;
  std::string content_type;
  Sha256 fingerprint{};  // FingerprintOf(status, content_type, result)
};

// The receipt's fence, so that a later one is not reset.
struct ResetRequest {
  Fence fence;
};

struct RenewRequest {
  AttemptId attempt;
  Fence fence;
  absl::Duration lease;
};

struct LookupRequest {
  std::optional<Digest> digest;
  LapsePolicy on_lapse = LapsePolicy::kRetry;
  std::vector<std::string> readable_versions = {};  // as in HandlerPolicy
};

// ---- decisions ----

template <typename Outcome>
struct Decision {
  Outcome outcome;
  std::optional<OperationRow> row_after;
  bool delete_row = false;  // Abandon with forget
};

// The row that a Begin inserts where there is none. `now` and the fence come from the database's
// clock at the insert.
OperationRow NewRow(const BeginRequest& request, DbTime now);

// Order of the tests: digest, receipt, own live or lapsed claim, released, another's live claim,
// lapsed claim by policy.
//
// A repeat by the attempt that holds the claim is granted again with the same fence and attempt
// number, also after the lease ran out (nobody took over). It extends the lease where less than
// half of the asked one is left, so that a transport retry writes nothing and a restarted owner
// gets time to work.
Decision<BeginOutcome> DecideBegin(const OperationRow& row, const BeginRequest& request,
                                   DbTime now);

// `row` is null where the operation does not exist; so below.
Decision<CompleteOutcome> DecideComplete(const OperationRow* row, const CompleteRequest& request,
                                         DbTime now);
Decision<AbandonOutcome> DecideAbandon(const OperationRow* row, const AbandonRequest& request,
                                       DbTime now);
Decision<RenewOutcome> DecideRenew(const OperationRow* row, const RenewRequest& request,
                                   DbTime now);
// Ends an operation whose lease is over, or which was given back. A live claim is its holder's.
Decision<ResolveOutcome> DecideResolve(const OperationRow* row, const ResolveRequest& request,
                                       DbTime now);
// Lets a completed operation run again. Its receipt goes to the past receipts; digest and fence
// stay, so that other content is a conflict still and the next claim has a higher fence.
Decision<ResetOutcome> DecideReset(const OperationRow* row, const ResetRequest& request,
                                   DbTime now);
LookupOutcome DecideLookup(const OperationRow* row, const LookupRequest& request, DbTime now);

// State as callers see it.
OperationState StateOf(const OperationRow& row, LapsePolicy on_lapse, DbTime now);

}  // namespace once::core

#endif  // ONCE_CORE_DECIDE_H_
