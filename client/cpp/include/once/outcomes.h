// What the server may answer: business outcomes as data.
//
// Plain values, as in types.h. The variants list every outcome, so that `std::visit` or a chain of
// `std::get_if` shows which one a caller forgot.
#ifndef ONCE_OUTCOMES_H_
#define ONCE_OUTCOMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "once/types.h"

namespace once {

// The caller holds the claim and must execute now.
struct Granted {
  Claim claim;
  // 1 for the first claim of the operation. The same for repeats of one attempt.
  int32_t attempt_number = 1;
  // Set where an earlier attempt's outcome is unknown: ask the business data before acting.
  std::optional<EarlierAttempt> earlier_attempt;
  // It is, and the request said `can_probe`.
  bool recovery = false;
};

// The operation is done; do not execute.
struct Completed {
  Receipt receipt;
  // True where the receipt had been stored before this call.
  bool replayed = false;
  // Until when duplicates are certain to be recognised. Unset: without end.
  std::optional<absl::Time> dedupe_guaranteed_until_time;
};

// Someone else may be executing; do not execute, do not acknowledge, come back.
struct InProgress {
  enum class Reason {
    kHeld,     // another attempt holds a live claim
    kDelayed,  // the last attempt gave its claim back and asked for a delay
    // Another operation of the same aggregate has to end first: `blocking_event_id`. The rest tells
    // of that operation's latest claim, whose lease may be over.
    kAggregateBusy,
  };
  Reason reason = Reason::kHeld;
  std::string consumer;
  std::string handler_version;
  absl::Duration lease_remaining;  // of the claim, or the rest of the delay
  absl::Duration suggested_wait;
  absl::Time begin_time;
  int32_t attempt_number = 0;
  std::optional<Digest> first_digest;  // not with kAggregateBusy
  std::string blocking_event_id;       // with kAggregateBusy
};

// The reason's name: HELD, DELAYED, AGGREGATE_BUSY.
absl::string_view ToString(InProgress::Reason reason);

// This identity was used before for other content: a programming error or tampering. Never execute,
// never acknowledge silently.
struct Conflict {
  enum class Difference {
    kDigest,
    kDigestScheme,  // the digests cannot be compared
  };
  Difference difference = Difference::kDigest;
  std::optional<Digest> first_digest;
  std::optional<Digest> request_digest;
  OperationState state = OperationState::kClaimed;
  std::string consumer;
  absl::Duration lease_remaining;
  absl::Time first_begin_time;
};

// An earlier attempt may or may not have acted, and the handler forbids a second run until that is
// known.
struct InDoubt {
  std::vector<EarlierAttempt> earlier_attempts;  // latest first, at most 10
  int32_t earlier_attempt_count = 0;
  std::string resolution;  // what to do, for people
  // A Begin with `can_probe` would be granted.
  bool probe_allowed = false;
};

// A newer version of the aggregate is already done.
struct Stale {
  Aggregate current;
  std::string current_event_id;
};

// The operation was completed and must not run again, but there is no receipt to show: only the
// tombstone is left, or the handler's policy does not call the version readable that wrote it.
struct Expired {
  ReceiptStatus status = ReceiptStatus::kSucceeded;
  absl::Time complete_time;
  std::string handler_version;  // that completed it; empty where its Begin named none
};

// The operation exists, nobody holds it, and the next Begin would be granted.
struct Unclaimed {
  OperationState state = OperationState::kReleased;
  std::optional<EarlierAttempt> earlier_attempt;
};

// The attempt does not hold the claim any more. Nothing was written.
struct ClaimLost {
  OperationState state = OperationState::kClaimed;
  // Of the claim that came after; empty and unset where there is none.
  std::string consumer;
  Fence fence;
  std::optional<absl::Time> take_over_time;
};

// The same attempt has already completed with another result, which stands.
struct CompletionConflict {
  Receipt receipt;
};

enum class AbandonMode {
  kRelease,  // identity and digest stay, the next attempt may run
  kForget,   // nothing happened: the identity may be used for other content
};

// The attempt holds nothing any more. `mode` is what was done: kForget becomes kRelease where an
// earlier attempt's outcome is unknown.
struct Abandoned {
  AbandonMode mode = AbandonMode::kRelease;
};

using BeginOutcome =
    std::variant<Granted, Completed, InProgress, Conflict, InDoubt, Stale, Expired>;
using CompleteOutcome = std::variant<Completed, ClaimLost, CompletionConflict>;
using AbandonOutcome = std::variant<Abandoned, ClaimLost>;
using RenewOutcome = std::variant<Claim, ClaimLost>;
using LookupOutcome = std::variant<Completed, InProgress, Conflict, InDoubt, Expired, Unclaimed>;

}  // namespace once

#endif  // ONCE_OUTCOMES_H_
