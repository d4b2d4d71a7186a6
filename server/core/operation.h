// The row of an operation as decisions see it.
#ifndef ONCE_CORE_OPERATION_H_
#define ONCE_CORE_OPERATION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "core/types.h"

namespace once::core {

struct ClaimInfo {
  AttemptId attempt;
  Fence fence;
  std::string consumer;         // at most 128 bytes
  std::string handler_version;  // at most 64 bytes
  DbTime begun;
  // End of the lease. In a released row: from when on the operation may be granted again.
  DbTime lease_expires;
  friend bool operator==(const ClaimInfo&, const ClaimInfo&) = default;
};

// The immutable result. `result` is unset where the body lies in the table of large bodies and was
// not read.
struct Receipt {
  ReceiptStatus status = ReceiptStatus::kSucceeded;
  std::string content_type;  // at most 128 bytes
  int64_t result_size = 0;
  // SHA-256 over status, content type and result: tells a repeated Complete from a different one.
  Sha256 fingerprint{};
  DbTime completed;
  std::optional<std::string> result;
  friend bool operator==(const Receipt&, const Receipt&) = default;
};

struct OperationRow {
  Digest digest;
  RowState state = RowState::kClaimed;
  ClaimInfo claim;  // the latest one
  // How many claims were granted; the attempt number of `claim`.
  int32_t claims = 1;
  // How many Begins arrived, as the store counted them; repeats after a lost connection may count
  // twice.
  int64_t deliveries = 1;
  DbTime first_seen;
  // The latest earlier attempt whose lease ran out without a word, kept until the operation is
  // completed: a repeat of the Begin that took over, and whoever comes after it, must be told
  // again.
  std::optional<ClaimInfo> unknown;
  int32_t unknown_attempts = 0;
  std::optional<Receipt> receipt;  // set in kCompleted and kTombstone
  friend bool operator==(const OperationRow&, const OperationRow&) = default;
};

}  // namespace once::core

#endif  // ONCE_CORE_OPERATION_H_
