// Checks of single fields against the contract's limits. Every refusal is INVALID_FIELD and names
// the field, the limit and the size or value, never the value of a text or of bytes.
//
// Pure functions; thread-safe.
#ifndef ONCE_RPC_VALIDATE_H_
#define ONCE_RPC_VALIDATE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/limits.h"
#include "core/types.h"
#include "google/protobuf/duration.pb.h"
#include "rpc/field_path.h"

namespace once::rpc {

// "<field> is 256 bytes; the limit is 255".
absl::Status TooLong(const Field& field, size_t size, size_t limit);

// A refusal where `value` is longer than `limit`.
absl::Status CheckSize(const Field& field, absl::string_view value, size_t limit);

// Names of handlers and tenants: 1 to `limit` bytes of [A-Za-z0-9._:/-].
absl::Status CheckName(const Field& field, absl::string_view value, size_t limit);

// 1 to `limit` bytes of any values.
absl::Status CheckNotEmpty(const Field& field, absl::string_view value, size_t limit);

// A handler pattern of a credential: a name, or the beginning of one followed by "*".
absl::Status CheckHandlerPattern(const Field& field, absl::string_view value);

// 16 bytes, not all zero.
absl::StatusOr<core::AttemptId> ParseAttemptId(const Field& field, absl::string_view value);

// Above 0.
absl::StatusOr<core::Fence> ParseFence(const Field& field, int64_t value);

// `least` to `most`; values outside are refused with the limit that they break.
absl::StatusOr<absl::Duration> ParseDuration(const Field& field,
                                             const google::protobuf::Duration& value,
                                             absl::Duration least, absl::Duration most);

// Zero means the normal one.
absl::StatusOr<absl::Duration> ParseLease(const Field& field,
                                          const google::protobuf::Duration& value,
                                          const core::LeaseRange& range);

// 0: the default; otherwise 1 to the limit.
absl::StatusOr<int> ParsePageSize(const Field& field, int32_t value, const core::Limits& limits);

}  // namespace once::rpc

#endif  // ONCE_RPC_VALIDATE_H_
