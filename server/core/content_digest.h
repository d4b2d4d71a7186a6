// The digest of a request's content in the form that the handler declares. It decides whether two
// deliveries with one identity are the same fact, so it is taken over the caller's bytes, never
// over anything re-serialised on the way.
//
// Thread-safety: free function on values; call it from any thread. It does not block, and takes
// microseconds for typical documents and tens of milliseconds for the largest.

#ifndef ONCE_CORE_CONTENT_DIGEST_H_
#define ONCE_CORE_CONTENT_DIGEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/json_canonical.h"
#include "core/types.h"

namespace once::core {

// kRawSha256: SHA-256 of `content` as it is; `excluded_pointers` have no meaning and are ignored.
// kJsonJcsSha256: SHA-256 of the canonical form of `content` without the excluded members.
//
// InvalidArgument with a JsonFault in it (JsonFaultFromStatus) when `content` has no canonical
// form; InvalidArgument without one for malformed pointers or a scheme that is none of the
// enumerators.
absl::StatusOr<Digest> DigestContent(DigestScheme scheme, absl::string_view content,
                                     absl::Span<const std::string> excluded_pointers = {},
                                     const JsonLimits& limits = {});

}  // namespace once::core

#endif  // ONCE_CORE_CONTENT_DIGEST_H_
