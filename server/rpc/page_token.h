// Page tokens: opaque to callers, bound to the query that they continue. Pure functions;
// thread-safe.
#ifndef ONCE_RPC_PAGE_TOKEN_H_
#define ONCE_RPC_PAGE_TOKEN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace once::rpc {

// `query` names the list and its filter, for example "credentials acme"; `last` is the key of the
// last row of the page, 1 to 255 bytes.
std::string MakePageToken(absl::string_view query, absl::string_view last);

// The key to go on after; empty for an empty token. INVALID_FIELD for a token of another query,
// version or origin. A forged token is harmless: it only says where to go on.
absl::StatusOr<std::string> ParsePageToken(absl::string_view query, absl::string_view token);

}  // namespace once::rpc

#endif  // ONCE_RPC_PAGE_TOKEN_H_
