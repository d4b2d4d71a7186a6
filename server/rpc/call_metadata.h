// What we read from a call's metadata: the bearer token and the trace id. The metadata is
// untrusted. Pure functions; thread-safe.
#ifndef ONCE_RPC_CALL_METADATA_H_
#define ONCE_RPC_CALL_METADATA_H_

#include <grpcpp/support/string_ref.h>

#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace once::rpc {

using CallMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// What follows "Bearer " in the one `authorization` value; the scheme's case does not matter (RFC
// 9110). Unset where there is no such value or more than one, where it is longer than 8 KiB, or
// holds anything but visible ASCII. The view lives as long as `metadata`.
std::optional<absl::string_view> BearerToken(const CallMetadata& metadata);

// The trace id in the one valid W3C `traceparent`: 32 lower-case hexadecimal digits. Empty
// otherwise.
std::string TraceId(const CallMetadata& metadata);

}  // namespace once::rpc

#endif  // ONCE_RPC_CALL_METADATA_H_
