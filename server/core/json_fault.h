// Why a text has no canonical form, as a value and as a status.
//
// Thread-safety: a plain value and free functions; call them from any thread. Nothing here blocks.

#ifndef ONCE_CORE_JSON_FAULT_H_
#define ONCE_CORE_JSON_FAULT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace once::core {

// The numbers travel in a status payload: keep them.
enum class JsonFaultKind : std::uint8_t {
  kSyntax = 1,          // not JSON: empty, truncated, trailing bytes, byte order mark, NaN, ...
  kInvalidText = 2,     // invalid UTF-8 or a lone surrogate in a string or a name
  kDuplicateName = 3,   // one object has two members of the same (unescaped) name
  kTooDeep = 4,         // more levels than JsonLimits::max_depth
  kNumberRange = 5,     // beyond a double: 1e400
  kInexactInteger = 6,  // an integer whose value the canonical form would change: 9007199254740993
};

// Why a text has no canonical form. Holds no values of the content, which may be secret: only
// member names, and of each the first `kMaxFaultNameBytes`.
struct JsonFault {
  static constexpr std::size_t kMaxFaultNameBytes = 128;
  static constexpr std::size_t kMaxFaultPointerBytes = 1024;

  JsonFaultKind kind = JsonFaultKind::kSyntax;
  // RFC 6901 pointer to the faulty value or member, or to the object or array that contains the
  // fault; "" is the document. Valid UTF-8; control characters are replaced by '?'; cut names and a
  // cut pointer end in "…".
  std::string pointer;
  // Bytes from the start of the text: to the start of the faulty name, number or container, else to
  // the byte where the parser gave up (the text's size when it ended too soon).
  std::size_t offset = 0;
  // For people: what is wrong, without the path and the offset.
  std::string what;

  friend bool operator==(const JsonFault& a, const JsonFault& b) = default;
};

// InvalidArgument whose message names pointer, fault and offset and whose payload is the fault.
absl::Status JsonFaultToStatus(const JsonFault& fault);

// The fault in a status of this module; nothing when the status is about something else (a
// malformed excluded pointer, a wrong scheme). Callers use it to tell faults of the content from
// the rest.
std::optional<JsonFault> JsonFaultFromStatus(const absl::Status& status);

// The path of a fault from the names and indexes that lead to it, cut and cleaned as
// JsonFault::pointer promises. The steps have to be valid UTF-8.
std::string MakeFaultPointer(absl::Span<const std::string> steps);

}  // namespace once::core

#endif  // ONCE_CORE_JSON_FAULT_H_
