// Matchers for errors of the contract.
#ifndef ONCE_TESTS_UNIT_RPC_STATUS_MATCHERS_H_
#define ONCE_TESTS_UNIT_RPC_STATUS_MATCHERS_H_

#include <gmock/gmock.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/error.h"

namespace once::testing {

inline absl::Status StatusOf(const absl::Status& status) { return status; }
template <typename T>
absl::Status StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

MATCHER(IsOk, "") {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).ok();
}

// An error with this reason whose message contains `text`.
MATCHER_P2(IsError, reason, text, "") {
  const absl::Status status = StatusOf(arg);
  *result_listener << status;
  return !status.ok() && base::DetailsOf(status).reason == reason &&
         status.code() == base::CodeOf(reason) &&
         std::string(status.message()).find(text) != std::string::npos;
}

// INVALID_FIELD with exactly this message.
MATCHER_P(IsInvalid, message, "") {
  const absl::Status status = StatusOf(arg);
  *result_listener << status;
  return base::DetailsOf(status).reason == base::ErrorReason::kInvalidField &&
         status.message() == message;
}

MATCHER_P2(HasMetadata, key, value, "") {
  const auto metadata = base::DetailsOf(StatusOf(arg)).metadata;
  const auto found = metadata.find(key);
  *result_listener << key << " is " << (found == metadata.end() ? "missing" : found->second);
  return found != metadata.end() && found->second == value;
}

}  // namespace once::testing

#endif  // ONCE_TESTS_UNIT_RPC_STATUS_MATCHERS_H_
