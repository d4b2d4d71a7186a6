// What a run of the generator saw: every call with its times, its request and its answer.
//
// Plain values. Times are nanoseconds of this process's monotonic clock; a call took effect, if at
// all, between start and end (after an error: at any time after start).
#ifndef ONCE_MODEL_HISTORY_H_
#define ONCE_MODEL_HISTORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace once::model {

enum class Call : uint8_t { kBegin, kComplete, kAbandon, kRenew, kLookup, kResolve };

enum class Outcome : uint8_t {
  kError,  // may or may not have happened
  kGranted,
  kCompleted,
  kInProgress,
  kConflict,
  kInDoubt,
  kUnclaimed,
  kNotFound,
  kClaimLost,
  kCompletionConflict,
  kAbandoned,
  kRenewed,
  kFoundNotDone,  // of Resolve; found done is kCompleted
  kUnexpected,    // an answer that no rule of the protocol allows
};

struct ReceiptSeen {
  std::string result;
  int status = 0;
  int64_t fence = 0;
  int64_t complete_time_us = 0;
  friend bool operator==(const ReceiptSeen&, const ReceiptSeen&) = default;
};

struct Event {
  Call call = Call::kBegin;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int server = 0;
  std::string attempt;
  // Request.
  std::string digest;      // Begin, Lookup with payload: SHA-256
  int64_t fence = 0;       // Complete, Abandon, Renew, Resolve
  std::string result;      // Complete, Resolve where it was found done
  bool forget = false;     // Abandon
  bool can_probe = false;  // Begin
  // Answer.
  Outcome outcome = Outcome::kError;
  int64_t granted_fence = 0;
  int attempt_number = 0;
  int64_t lease_remaining_ns = 0;  // granted, renewed
  std::string earlier_attempt;     // empty: none shown
  int64_t earlier_fence = 0;
  bool recovery = false;
  std::string first_digest;  // in progress, conflict
  std::optional<ReceiptSeen> receipt;
  bool replayed = false;
  std::string error;  // kError, kUnexpected: code, reason, message
};

struct Operation {
  bool forgettable = false;
  std::vector<Event> events;  // in any order
};

// What an expired lease means, from one change of the policy on.
enum class OnLapse : uint8_t { kRetry, kInDoubt, kProbe };
struct PolicyPhase {
  int64_t from_ns = 0;        // no server goes by it before
  int64_t everywhere_ns = 0;  // all do from here on, until the next phase begins
  OnLapse on_lapse = OnLapse::kRetry;
};

struct History {
  std::map<std::string, Operation> operations;  // by event id
  std::vector<PolicyPhase> phases;              // in their order; none: RETRY throughout
};

}  // namespace once::model

#endif  // ONCE_MODEL_HISTORY_H_
