// The canonical form (RFC 8785, "JCS") of one I-JSON text, so that two texts which differ only in
// member order, white space, escapes or the spelling of numbers have the same digest.
//
// The input is untrusted. Work is bounded by the text's size times the depth limit, memory by a
// small multiple of the text's size, and nothing here recurses.
//
// Thread-safety: free functions on values; call them from any thread. Nothing here blocks or does
// I/O.

#ifndef ONCE_CORE_JSON_CANONICAL_H_
#define ONCE_CORE_JSON_CANONICAL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/json_fault.h"

namespace once::core {

struct JsonLimits {
  // Greatest number of objects and arrays inside each other; `[[1]]` has depth 2.
  int max_depth = 128;
};

// Returns the canonical UTF-8 text of `text` without the members that `excluded_pointers` (RFC
// 6901) name. A pointer may step through array elements by index but removes only object members; a
// pointer that matches nothing is ignored.
//
// InvalidArgument
// - with a JsonFault when `text` is not I-JSON or holds an integer literal that would change its
// value.
//   The excluded members have to be I-JSON as well, but may hold any integer: it is not digested.
// - without a JsonFault when `excluded_pointers` are malformed (see ParseMemberPointers) or
//   `limits` are out of range. Policies are checked when they are written, so this is a bug.
absl::StatusOr<std::string> CanonicalizeJson(absl::string_view text, const JsonLimits& limits = {},
                                             absl::Span<const std::string> excluded_pointers = {});

}  // namespace once::core

#endif  // ONCE_CORE_JSON_CANONICAL_H_
