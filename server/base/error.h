// Errors that leave the server: a reason, a message for people, the values it mentions, and whether
// to come back.
//
// An absl::Status made here carries its details as payloads; `rpc` turns them into google.rpc
// details. This is the one place that maps a reason to its status code. Thread-safe: functions of
// values.
#ifndef ONCE_BASE_ERROR_H_
#define ONCE_BASE_ERROR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace once::base {

// The same numbers and names as once.v1.ErrorReason; a test compares them.
enum class ErrorReason : uint8_t {
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
};

struct ErrorDetails {
  ErrorReason reason = ErrorReason::kInternal;
  std::map<std::string, std::string> metadata;
  // Set where the call may be repeated; default delays are filled in by MakeError for the retryable
  // reasons.
  std::optional<absl::Duration> retry_delay;
};

// "INVALID_FIELD" and so on.
absl::string_view ReasonName(ErrorReason reason);

absl::StatusCode CodeOf(ErrorReason reason);

// Messages must never contain content, results or secrets.
absl::Status MakeError(ErrorReason reason, absl::string_view message,
                       const std::map<std::string, std::string>& metadata = {},
                       std::optional<absl::Duration> retry_delay = std::nullopt);

// INVALID_FIELD for `field`, a path such as "event_id" or "requests[3].lease". `what` completes the
// sentence "<field> …".
absl::Status InvalidField(absl::string_view field, absl::string_view what,
                          std::map<std::string, std::string> metadata = {});

// Details of a status made by MakeError. A status from elsewhere gives kInternal without metadata.
ErrorDetails DetailsOf(const absl::Status& status);

}  // namespace once::base

#endif  // ONCE_BASE_ERROR_H_
