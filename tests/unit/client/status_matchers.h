// Matchers for statuses of the client, and makers of those that a server sends.
#ifndef ONCE_TESTS_UNIT_CLIENT_STATUS_MATCHERS_H_
#define ONCE_TESTS_UNIT_CLIENT_STATUS_MATCHERS_H_

#include <gmock/gmock.h>

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "once/error.h"
#include "status_details.h"

namespace once::testing_support {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg);
  return arg.ok();
}

MATCHER_P(HasCode, code, "has the status code") {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).code() == code;
}

MATCHER_P(HasReason, reason, "has the error reason") {
  *result_listener << StatusOf(arg);
  return ReasonOf(StatusOf(arg)) == reason;
}

inline absl::Status ServerError(absl::StatusCode code, ErrorReason reason,
                                std::optional<absl::Duration> retry_delay = std::nullopt) {
  ErrorInfo info;
  info.reason = reason;
  info.retry_delay = retry_delay;
  return client_internal::MakeError(code, "the server says so", info);
}

}  // namespace once::testing_support

#endif  // ONCE_TESTS_UNIT_CLIENT_STATUS_MATCHERS_H_
