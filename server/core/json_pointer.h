// JSON pointers (RFC 6901) as the handler's policy writes them: each names one object member that
// is removed from a document before it is digested, for example "/meta/sent_at".
//
// Thread-safety: free functions on values; call them from any thread. Nothing here blocks.

#ifndef ONCE_CORE_JSON_POINTER_H_
#define ONCE_CORE_JSON_POINTER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace once::core {

// How many members a policy may exclude. A matcher keeps one bit for each in a machine word.
inline constexpr std::size_t kMaxExcludedPointers = 64;

// One pointer as its unescaped reference tokens; never empty.
using JsonPointer = std::vector<std::string>;

// Parses pointers that name members to be removed. Meant both for checking a policy when it is
// written and for using it. InvalidArgument, with the pointer in the message, when
// - a pointer is empty (it would name the whole document),
// - it does not start with '/', or
// - a '~' is followed by anything but '0' or '1',
// and when there are more than `kMaxExcludedPointers` of them.
absl::StatusOr<std::vector<JsonPointer>> ParseMemberPointers(absl::Span<const std::string> texts);

// Appends '/' and `token`, escaped, to `*pointer`.
void AppendPointerToken(absl::string_view token, std::string* pointer);

}  // namespace once::core

#endif  // ONCE_CORE_JSON_POINTER_H_
