#include "rpc/call_metadata.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace once::rpc {
namespace {

constexpr size_t kMaxAuthorizationBytes = size_t{8} << 10;
constexpr absl::string_view kScheme = "Bearer ";

// 00-<32 digits of the trace id>-<16 digits of the parent id>-<2 digits of flags>; later versions
// may go on after another "-".
constexpr size_t kTraceIdStart = 3;
constexpr size_t kTraceIdDigits = 32;
constexpr size_t kParentIdStart = kTraceIdStart + kTraceIdDigits + 1;
constexpr size_t kParentIdDigits = 16;
constexpr size_t kFlagsStart = kParentIdStart + kParentIdDigits + 1;
constexpr size_t kTraceParentBytes = kFlagsStart + 2;

std::optional<absl::string_view> TheOne(const CallMetadata& metadata, const char* key) {
  const auto [begin, end] = metadata.equal_range(key);
  if (begin == end || std::next(begin) != end) {
    return std::nullopt;
  }
  return absl::string_view(begin->second.data(), begin->second.size());
}

bool IsVisibleAscii(char c) { return c > 0x20 && c < 0x7F; }

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsZero(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c == '0'; });
}

bool IsTraceParent(absl::string_view text) {
  if (text.size() < kTraceParentBytes) {
    return false;
  }
  const absl::string_view version = text.substr(0, 2);
  const bool ends_well = version == "00"
                             ? text.size() == kTraceParentBytes
                             : text.size() == kTraceParentBytes || text[kTraceParentBytes] == '-';
  const absl::string_view trace_id = text.substr(kTraceIdStart, kTraceIdDigits);
  const absl::string_view parent_id = text.substr(kParentIdStart, kParentIdDigits);
  return ends_well && IsHex(version) && version != "ff" && text[kTraceIdStart - 1] == '-' &&
         IsHex(trace_id) && !IsZero(trace_id) && text[kParentIdStart - 1] == '-' &&
         IsHex(parent_id) && !IsZero(parent_id) && text[kFlagsStart - 1] == '-' &&
         IsHex(text.substr(kFlagsStart, 2));
}

}  // namespace

std::optional<absl::string_view> BearerToken(const CallMetadata& metadata) {
  const std::optional<absl::string_view> value = TheOne(metadata, "authorization");
  if (!value.has_value() || value->size() > kMaxAuthorizationBytes ||
      !absl::StartsWithIgnoreCase(*value, kScheme)) {
    return std::nullopt;
  }
  absl::string_view token = value->substr(kScheme.size());
  token.remove_prefix(std::min(token.find_first_not_of(' '), token.size()));
  if (token.empty() || !std::all_of(token.begin(), token.end(), IsVisibleAscii)) {
    return std::nullopt;
  }
  return token;
}

std::string TraceId(const CallMetadata& metadata) {
  const std::optional<absl::string_view> value = TheOne(metadata, "traceparent");
  if (!value.has_value() || !IsTraceParent(*value)) {
    return {};
  }
  return std::string(value->substr(kTraceIdStart, kTraceIdDigits));
}

}  // namespace once::rpc
