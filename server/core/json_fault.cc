#include "core/json_fault.h"

#include <array>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/json_pointer.h"

namespace once::core {
namespace {

// The payload is "<kind>\n<offset>\n<pointer>\n<what>". Neither a cleaned pointer nor a message has
// a line break, and the payload does not leave the process, so nothing more elaborate is needed.
constexpr absl::string_view kPayloadUrl = "once.internal/json_fault";
constexpr absl::string_view kEllipsis = "…";

// `text`, or its longest prefix of at most `limit` bytes that does not end inside a character and
// "…".
std::string Cut(absl::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0U) == 0x80U) --limit;
  return absl::StrCat(text.substr(0, limit), kEllipsis);
}

// Names reach logs, where a line break would forge a line.
std::string CleanName(absl::string_view name) {
  std::string cleaned = Cut(name, JsonFault::kMaxFaultNameBytes);
  for (char& c : cleaned) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20U || byte == 0x7FU) c = '?';
  }
  return cleaned;
}

std::optional<JsonFaultKind> KindFromNumber(int number) {
  constexpr std::array kKinds = {JsonFaultKind::kSyntax,        JsonFaultKind::kInvalidText,
                                 JsonFaultKind::kDuplicateName, JsonFaultKind::kTooDeep,
                                 JsonFaultKind::kNumberRange,   JsonFaultKind::kInexactInteger};
  for (const JsonFaultKind kind : kKinds) {
    if (static_cast<int>(kind) == number) return kind;
  }
  return std::nullopt;
}

}  // namespace

absl::Status JsonFaultToStatus(const JsonFault& fault) {
  absl::Status status = absl::InvalidArgumentError(
      absl::StrCat("content has no canonical JSON form: ", fault.what, " at path \"", fault.pointer,
                   "\", byte ", fault.offset));
  status.SetPayload(kPayloadUrl,
                    absl::Cord(absl::StrCat(static_cast<int>(fault.kind), "\n", fault.offset, "\n",
                                            fault.pointer, "\n", fault.what)));
  return status;
}

std::optional<JsonFault> JsonFaultFromStatus(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('\n', 3));
  int number = 0;
  JsonFault fault;
  if (parts.size() != 4 || !absl::SimpleAtoi(parts[0], &number) ||
      !absl::SimpleAtoi(parts[1], &fault.offset)) {
    return std::nullopt;
  }
  const std::optional<JsonFaultKind> kind = KindFromNumber(number);
  if (!kind.has_value()) return std::nullopt;
  fault.kind = *kind;
  fault.pointer = std::string(parts[2]);
  fault.what = std::string(parts[3]);
  return fault;
}

std::string MakeFaultPointer(absl::Span<const std::string> steps) {
  std::string pointer;
  for (const std::string& step : steps) AppendPointerToken(CleanName(step), &pointer);
  return Cut(pointer, JsonFault::kMaxFaultPointerBytes - kEllipsis.size());
}

}  // namespace once::core
