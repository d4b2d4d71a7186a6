#include "base/error.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace once::base {
namespace {

constexpr absl::string_view kReasonUrl = "once/reason";
constexpr absl::string_view kRetryUrl = "once/retry-delay-us";
constexpr absl::string_view kMetadataPrefix = "once/metadata/";

// Long enough for a failover to show, short enough that nobody notices a hiccup.
std::optional<absl::Duration> DefaultRetryDelay(ErrorReason reason) {
  switch (reason) {
    case ErrorReason::kQuotaExceeded:
    case ErrorReason::kOverloaded:
      return absl::Milliseconds(100);
    case ErrorReason::kDraining:
      return absl::Milliseconds(50);
    case ErrorReason::kStoreUnavailable:
    case ErrorReason::kOutcomeUnknown:
      return absl::Milliseconds(200);
    case ErrorReason::kInvalidField:
    case ErrorReason::kContentNotCanonical:
    case ErrorReason::kResultTooLarge:
    case ErrorReason::kUnauthenticated:
    case ErrorReason::kPermissionDenied:
    case ErrorReason::kOperationNotFound:
    case ErrorReason::kDeadlineExceeded:
    case ErrorReason::kTenantAlreadyExists:
    case ErrorReason::kTenantNotFound:
    case ErrorReason::kCredentialNotFound:
    case ErrorReason::kInternal:
    case ErrorReason::kHandlerNotAllowed:
    case ErrorReason::kPoliciesNotFound:
    case ErrorReason::kPolicyVersionMismatch:
    case ErrorReason::kDigestChangeNotAccepted:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

absl::string_view ReasonName(ErrorReason reason) {
  switch (reason) {
    case ErrorReason::kInvalidField:
      return "INVALID_FIELD";
    case ErrorReason::kContentNotCanonical:
      return "CONTENT_NOT_CANONICAL";
    case ErrorReason::kResultTooLarge:
      return "RESULT_TOO_LARGE";
    case ErrorReason::kUnauthenticated:
      return "UNAUTHENTICATED";
    case ErrorReason::kPermissionDenied:
      return "PERMISSION_DENIED";
    case ErrorReason::kOperationNotFound:
      return "OPERATION_NOT_FOUND";
    case ErrorReason::kQuotaExceeded:
      return "QUOTA_EXCEEDED";
    case ErrorReason::kOverloaded:
      return "OVERLOADED";
    case ErrorReason::kDraining:
      return "DRAINING";
    case ErrorReason::kStoreUnavailable:
      return "STORE_UNAVAILABLE";
    case ErrorReason::kOutcomeUnknown:
      return "OUTCOME_UNKNOWN";
    case ErrorReason::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case ErrorReason::kTenantAlreadyExists:
      return "TENANT_ALREADY_EXISTS";
    case ErrorReason::kTenantNotFound:
      return "TENANT_NOT_FOUND";
    case ErrorReason::kCredentialNotFound:
      return "CREDENTIAL_NOT_FOUND";
    case ErrorReason::kInternal:
      return "INTERNAL";
    case ErrorReason::kHandlerNotAllowed:
      return "HANDLER_NOT_ALLOWED";
    case ErrorReason::kPoliciesNotFound:
      return "POLICIES_NOT_FOUND";
    case ErrorReason::kPolicyVersionMismatch:
      return "POLICY_VERSION_MISMATCH";
    case ErrorReason::kDigestChangeNotAccepted:
      return "DIGEST_CHANGE_NOT_ACCEPTED";
  }
  return "INTERNAL";
}

absl::StatusCode CodeOf(ErrorReason reason) {
  switch (reason) {
    case ErrorReason::kInvalidField:
    case ErrorReason::kContentNotCanonical:
    case ErrorReason::kResultTooLarge:
      return absl::StatusCode::kInvalidArgument;
    case ErrorReason::kUnauthenticated:
      return absl::StatusCode::kUnauthenticated;
    case ErrorReason::kPermissionDenied:
      return absl::StatusCode::kPermissionDenied;
    case ErrorReason::kOperationNotFound:
    case ErrorReason::kTenantNotFound:
    case ErrorReason::kCredentialNotFound:
    case ErrorReason::kPoliciesNotFound:
      return absl::StatusCode::kNotFound;
    case ErrorReason::kQuotaExceeded:
    case ErrorReason::kOverloaded:
      return absl::StatusCode::kResourceExhausted;
    case ErrorReason::kDraining:
    case ErrorReason::kStoreUnavailable:
    case ErrorReason::kOutcomeUnknown:
      return absl::StatusCode::kUnavailable;
    case ErrorReason::kDeadlineExceeded:
      return absl::StatusCode::kDeadlineExceeded;
    case ErrorReason::kTenantAlreadyExists:
      return absl::StatusCode::kAlreadyExists;
    case ErrorReason::kHandlerNotAllowed:
    case ErrorReason::kDigestChangeNotAccepted:
      return absl::StatusCode::kFailedPrecondition;
    case ErrorReason::kPolicyVersionMismatch:
      return absl::StatusCode::kAborted;
    case ErrorReason::kInternal:
      return absl::StatusCode::kInternal;
  }
  return absl::StatusCode::kInternal;
}

absl::Status MakeError(ErrorReason reason, absl::string_view message,
                       const std::map<std::string, std::string>& metadata,
                       std::optional<absl::Duration> retry_delay) {
  absl::Status status(CodeOf(reason), message);
  status.SetPayload(kReasonUrl, absl::Cord(absl::StrCat(static_cast<int>(reason))));
  for (const auto& [key, value] : metadata) {
    status.SetPayload(absl::StrCat(kMetadataPrefix, key), absl::Cord(value));
  }
  if (!retry_delay.has_value()) {
    retry_delay = DefaultRetryDelay(reason);
  }
  if (retry_delay.has_value()) {
    status.SetPayload(kRetryUrl, absl::Cord(absl::StrCat(absl::ToInt64Microseconds(*retry_delay))));
  }
  return status;
}

absl::Status InvalidField(absl::string_view field, absl::string_view what,
                          std::map<std::string, std::string> metadata) {
  metadata.emplace("field", field);
  return MakeError(ErrorReason::kInvalidField, absl::StrCat(field, " ", what), metadata);
}

ErrorDetails DetailsOf(const absl::Status& status) {
  ErrorDetails details;
  status.ForEachPayload([&details](absl::string_view url, const absl::Cord& payload) {
    const std::string value(payload);
    int64_t number = 0;
    if (url == kReasonUrl && absl::SimpleAtoi(value, &number)) {
      details.reason = static_cast<ErrorReason>(number);
    } else if (url == kRetryUrl && absl::SimpleAtoi(value, &number)) {
      details.retry_delay = absl::Microseconds(number);
    } else if (url.substr(0, kMetadataPrefix.size()) == kMetadataPrefix) {
      details.metadata.emplace(url.substr(kMetadataPrefix.size()), value);
    }
  });
  return details;
}

}  // namespace once::base
