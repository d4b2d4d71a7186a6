// Why a call failed, for programs.
//
// Every error that the server sends, and every outcome that `Client::Execute` reports as an error,
// carries a reason, the values that its message mentions and, where coming back makes sense, when.
// Functions of values; thread-safe.
#ifndef ONCE_ERROR_H_
#define ONCE_ERROR_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace once {

enum class ErrorReason {
  // The error is not the server's: the transport, a proxy, or a newer server with a reason that
  // this
  // library does not know (`ErrorInfo::reason_name` has it).
  kUnknown = 0,

  // Sent by the server; the numbers are those of once.v1.ErrorReason.
  kInvalidField = 1,
  kContentNotCanonical = 2,
  kResultTooLarge = 3,
  kUnauthenticated = 4,
  kPermissionDenied = 5,
  kOperationNotFound = 6,
  kQuotaExceeded = 7,
  kOverloaded = 8,
  kDraining = 9,
  kStoreUnavailable = 10,
  kOutcomeUnknown = 11,
  kDeadlineExceeded = 12,
  kTenantAlreadyExists = 13,
  kTenantNotFound = 14,
  kCredentialNotFound = 15,
  kInternal = 16,
  kHandlerNotAllowed = 17,
  kPoliciesNotFound = 18,
  kPolicyVersionMismatch = 19,
  kDigestChangeNotAccepted = 20,

  // Outcomes that `Client::Execute` reports as errors; never sent by the server. Each names the
  // outcome of the same name in outcomes.h.
  kInProgress = 1001,
  kConflict = 1002,
  kInDoubt = 1003,
  kStale = 1004,
  kExpired = 1005,
  kClaimLost = 1006,
  kCompletionConflict = 1007,
};

// "INVALID_FIELD", "IN_PROGRESS" and so on; "UNKNOWN" for kUnknown.
absl::string_view ToString(ErrorReason reason);

struct FieldViolation {
  std::string field;  // a path such as "event_id" or "requests[3].lease"
  std::string description;
};

struct ErrorInfo {
  ErrorReason reason = ErrorReason::kUnknown;
  std::string reason_name;                      // as sent; empty where nothing was
  std::map<std::string, std::string> metadata;  // the values that the message mentions
  std::optional<absl::Duration> retry_delay;    // set: the same request may be sent again after it
  std::vector<FieldViolation> field_violations;
};

// The details of a status that this library returned. A status from elsewhere, also OK, gives
// kUnknown and nothing else.
ErrorInfo ErrorInfoOf(const absl::Status& status);

// Short for `ErrorInfoOf(status).reason`.
ErrorReason ReasonOf(const absl::Status& status);

// What a handler says about its failure by the error that it returns from `Client::Execute`.
// Without one of these the claim is released and the next attempt may run at once. `status` must
// not be OK.

// Release the claim; nobody shall be granted for `delay` (0 to 24 h).
absl::Status RetryAfter(absl::Status status, absl::Duration delay);

// Nothing happened and the identity may be used for other content, for example because the request
// turned out to be malformed.
absl::Status ForgetOperation(absl::Status status);

// The effect may or may not have happened (a payment call timed out): keep the claim until its
// lease runs out, so that the next attempt is told that the outcome of this one is unknown.
absl::Status OutcomeUnknown(absl::Status status);

}  // namespace once

#endif  // ONCE_ERROR_H_
