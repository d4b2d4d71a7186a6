#include "once/error.h"

#include <cstdint>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "convert.h"
#include "once/internal/v1/wire_status.pb.h"
#include "status_details.h"

namespace once {
namespace {

namespace wire = internal::v1;

constexpr absl::string_view kDomain = "once";
constexpr absl::string_view kErrorInfoUrl = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr absl::string_view kRetryInfoUrl = "type.googleapis.com/google.rpc.RetryInfo";
constexpr absl::string_view kBadRequestUrl = "type.googleapis.com/google.rpc.BadRequest";
constexpr absl::string_view kVerdictUrl = "once.client/handler-verdict";
constexpr absl::string_view kForget = "forget";
constexpr absl::string_view kUnknown = "unknown";

constexpr ErrorReason kAllReasons[] = {
    ErrorReason::kInvalidField,
    ErrorReason::kContentNotCanonical,
    ErrorReason::kResultTooLarge,
    ErrorReason::kUnauthenticated,
    ErrorReason::kPermissionDenied,
    ErrorReason::kOperationNotFound,
    ErrorReason::kQuotaExceeded,
    ErrorReason::kOverloaded,
    ErrorReason::kDraining,
    ErrorReason::kStoreUnavailable,
    ErrorReason::kOutcomeUnknown,
    ErrorReason::kDeadlineExceeded,
    ErrorReason::kTenantAlreadyExists,
    ErrorReason::kTenantNotFound,
    ErrorReason::kCredentialNotFound,
    ErrorReason::kInternal,
    ErrorReason::kHandlerNotAllowed,
    ErrorReason::kPoliciesNotFound,
    ErrorReason::kPolicyVersionMismatch,
    ErrorReason::kDigestChangeNotAccepted,
    ErrorReason::kInProgress,
    ErrorReason::kConflict,
    ErrorReason::kInDoubt,
    ErrorReason::kStale,
    ErrorReason::kExpired,
    ErrorReason::kClaimLost,
    ErrorReason::kCompletionConflict,
};

template <typename Message>
bool ReadPayload(const absl::Status& status, absl::string_view url, Message& message) {
  const auto payload = status.GetPayload(url);
  return payload.has_value() && message.ParseFromString(std::string(*payload));
}

void WritePayload(absl::Status& status, absl::string_view url, const std::string& bytes) {
  status.SetPayload(url, absl::Cord(bytes));
}

absl::Status WithVerdict(absl::Status status, const std::string& verdict) {
  WritePayload(status, kVerdictUrl, verdict);
  return status;
}

}  // namespace

absl::string_view ToString(ErrorReason reason) {
  switch (reason) {
    case ErrorReason::kUnknown:
      return "UNKNOWN";
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
    case ErrorReason::kInProgress:
      return "IN_PROGRESS";
    case ErrorReason::kConflict:
      return "CONFLICT";
    case ErrorReason::kInDoubt:
      return "IN_DOUBT";
    case ErrorReason::kStale:
      return "STALE";
    case ErrorReason::kExpired:
      return "EXPIRED";
    case ErrorReason::kClaimLost:
      return "CLAIM_LOST";
    case ErrorReason::kCompletionConflict:
      return "COMPLETION_CONFLICT";
  }
  return "";
}

ErrorInfo ErrorInfoOf(const absl::Status& status) {
  ErrorInfo info;
  wire::ErrorInfo error_info;
  if (ReadPayload(status, kErrorInfoUrl, error_info) && error_info.domain() == kDomain) {
    info.reason = client_internal::ReasonFromName(error_info.reason());
    info.reason_name = error_info.reason();
    info.metadata.insert(error_info.metadata().begin(), error_info.metadata().end());
  }
  wire::RetryInfo retry_info;
  if (ReadPayload(status, kRetryInfoUrl, retry_info)) {
    info.retry_delay = client_internal::FromProto(retry_info.retry_delay());
  }
  wire::BadRequest bad_request;
  if (ReadPayload(status, kBadRequestUrl, bad_request)) {
    for (const auto& violation : bad_request.field_violations()) {
      info.field_violations.push_back({violation.field(), violation.description()});
    }
  }
  return info;
}

ErrorReason ReasonOf(const absl::Status& status) { return ErrorInfoOf(status).reason; }

absl::Status RetryAfter(absl::Status status, absl::Duration delay) {
  return WithVerdict(std::move(status), absl::StrCat(absl::ToInt64Microseconds(delay)));
}

absl::Status ForgetOperation(absl::Status status) {
  return WithVerdict(std::move(status), std::string(kForget));
}

absl::Status OutcomeUnknown(absl::Status status) {
  return WithVerdict(std::move(status), std::string(kUnknown));
}

namespace client_internal {

ErrorReason ReasonFromName(absl::string_view name) {
  for (const ErrorReason reason : kAllReasons) {
    if (ToString(reason) == name) return reason;
  }
  return ErrorReason::kUnknown;
}

absl::Status MakeError(absl::StatusCode code, absl::string_view message, const ErrorInfo& info) {
  absl::Status status(code, message);
  wire::ErrorInfo error_info;
  error_info.set_reason(info.reason_name.empty() ? std::string(ToString(info.reason))
                                                 : info.reason_name);
  error_info.set_domain(std::string(kDomain));
  error_info.mutable_metadata()->insert(info.metadata.begin(), info.metadata.end());
  WritePayload(status, kErrorInfoUrl, error_info.SerializeAsString());
  if (info.retry_delay.has_value()) {
    wire::RetryInfo retry_info;
    *retry_info.mutable_retry_delay() = ToProto(*info.retry_delay);
    WritePayload(status, kRetryInfoUrl, retry_info.SerializeAsString());
  }
  return status;
}

absl::Status FromWire(int code, absl::string_view message, absl::string_view serialized_details) {
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  absl::Status status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      message);
  wire::RpcStatus details;
  if (serialized_details.empty() || !details.ParseFromString(std::string(serialized_details))) {
    return status;
  }
  for (const auto& any : details.details()) WritePayload(status, any.type_url(), any.value());
  return status;
}

absl::Status Annotate(const absl::Status& status, absl::string_view suffix) {
  absl::Status longer(status.code(), absl::StrCat(status.message(), suffix));
  status.ForEachPayload([&longer](absl::string_view url, const absl::Cord& payload) {
    longer.SetPayload(url, payload);
  });
  return longer;
}

HandlerVerdict VerdictOf(const absl::Status& status) {
  HandlerVerdict verdict;
  const auto payload = status.GetPayload(kVerdictUrl);
  if (!payload.has_value()) return verdict;
  const std::string text(*payload);
  int64_t micros = 0;
  if (text == kForget) {
    verdict.kind = HandlerVerdict::Kind::kForget;
  } else if (text == kUnknown) {
    verdict.kind = HandlerVerdict::Kind::kUnknown;
  } else if (absl::SimpleAtoi(text, &micros)) {
    verdict.delay = absl::Microseconds(micros);
  }
  return verdict;
}

}  // namespace client_internal
}  // namespace once
