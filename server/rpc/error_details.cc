#include "rpc/error_details.h"

#include <string>
#include <utility>

#include "absl/time/time.h"
#include "base/error.h"
#include "once/internal/v1/wire_status.pb.h"
#include "rpc/wire_time.h"

namespace once::rpc {
namespace {

using base::ErrorReason;

constexpr char kDomain[] = "once";
constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr char kBadRequestUrl[] = "type.googleapis.com/google.rpc.BadRequest";

template <typename Message>
void AddDetail(const char* url, const Message& message, internal::v1::RpcStatus* status) {
  google::protobuf::Any* const any = status->add_details();
  any->set_type_url(url);
  message.SerializeToString(any->mutable_value());
}

bool NamesField(ErrorReason reason) {
  switch (reason) {
    case ErrorReason::kInvalidField:
    case ErrorReason::kContentNotCanonical:
    case ErrorReason::kResultTooLarge:
      return true;
    case ErrorReason::kUnauthenticated:
    case ErrorReason::kPermissionDenied:
    case ErrorReason::kOperationNotFound:
    case ErrorReason::kQuotaExceeded:
    case ErrorReason::kOverloaded:
    case ErrorReason::kDraining:
    case ErrorReason::kStoreUnavailable:
    case ErrorReason::kOutcomeUnknown:
    case ErrorReason::kDeadlineExceeded:
    case ErrorReason::kTenantAlreadyExists:
    case ErrorReason::kTenantNotFound:
    case ErrorReason::kCredentialNotFound:
    case ErrorReason::kInternal:
    case ErrorReason::kHandlerNotAllowed:
    case ErrorReason::kPoliciesNotFound:
    case ErrorReason::kPolicyVersionMismatch:
    case ErrorReason::kDigestChangeNotAccepted:
      return false;
  }
  return false;
}

void AddErrorInfo(const base::ErrorDetails& details, internal::v1::RpcStatus* status) {
  internal::v1::ErrorInfo info;
  info.set_reason(std::string(base::ReasonName(details.reason)));
  info.set_domain(kDomain);
  info.mutable_metadata()->insert(details.metadata.begin(), details.metadata.end());
  AddDetail(kErrorInfoUrl, info, status);
}

void AddRetryInfo(absl::Duration delay, internal::v1::RpcStatus* status) {
  internal::v1::RetryInfo retry;
  FillDuration(delay, retry.mutable_retry_delay());
  AddDetail(kRetryInfoUrl, retry, status);
}

void AddBadRequest(const std::string& field, absl::string_view message,
                   internal::v1::RpcStatus* status) {
  internal::v1::BadRequest bad;
  internal::v1::BadRequest::FieldViolation* const violation = bad.add_field_violations();
  violation->set_field(field);
  violation->set_description(std::string(message));
  AddDetail(kBadRequestUrl, bad, status);
}

}  // namespace

absl::Status Public(const absl::Status& error) {
  const ErrorReason reason = base::DetailsOf(error).reason;
  if (error.code() == base::CodeOf(reason) && reason != ErrorReason::kInternal) {
    return error;
  }
  return base::MakeError(ErrorReason::kInternal,
                         "a defect of the server; see its log. The same request with the same "
                         "attempt id is safe to send again");
}

grpc::Status ToGrpcStatus(const absl::Status& error) {
  const absl::Status shown = Public(error);
  const base::ErrorDetails details = base::DetailsOf(shown);
  internal::v1::RpcStatus status;
  status.set_code(static_cast<int>(shown.code()));
  status.set_message(std::string(shown.message()));
  AddErrorInfo(details, &status);
  if (details.retry_delay.has_value()) {
    AddRetryInfo(*details.retry_delay, &status);
  }
  const auto field = details.metadata.find("field");
  if (NamesField(details.reason) && field != details.metadata.end()) {
    AddBadRequest(field->second, shown.message(), &status);
  }
  // Both enums have the canonical numbers.
  return grpc::Status(static_cast<grpc::StatusCode>(shown.code()), std::string(shown.message()),
                      status.SerializeAsString());
}

void FillItemError(const absl::Status& error, v1::ItemError* item) {
  const absl::Status shown = Public(error);
  const base::ErrorDetails details = base::DetailsOf(shown);
  item->set_code(static_cast<int>(shown.code()));
  item->set_reason(std::string(base::ReasonName(details.reason)));
  item->set_message(std::string(shown.message()));
  item->mutable_metadata()->insert(details.metadata.begin(), details.metadata.end());
  if (details.retry_delay.has_value()) {
    FillDuration(*details.retry_delay, item->mutable_retry_delay());
  }
}

}  // namespace once::rpc
