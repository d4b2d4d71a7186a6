#include "input.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace once::cli {
namespace {

constexpr absl::string_view kHex = "hex:";
constexpr absl::string_view kText = "text:";
constexpr size_t kMaxInputBytes = size_t{64} << 20;

bool IsHexDigit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

absl::StatusOr<std::string> ParseEventId(absl::string_view text) {
  if (absl::ConsumePrefix(&text, kText)) return std::string(text);
  if (!absl::ConsumePrefix(&text, kHex)) return std::string(text);
  if (text.size() % 2 != 0 || !std::all_of(text.begin(), text.end(), IsHexDigit)) {
    return absl::InvalidArgumentError(
        "event id: after hex: comes an even number of hexadecimal digits");
  }
  return absl::HexStringToBytes(text);
}

std::string FormatEventId(absl::string_view event_id) {
  const auto visible = [](char c) { return c >= ' ' && c <= '~'; };
  if (!std::all_of(event_id.begin(), event_id.end(), visible)) {
    return absl::StrCat(kHex, absl::BytesToHexString(event_id));
  }
  if (absl::StartsWith(event_id, kHex) || absl::StartsWith(event_id, kText)) {
    return absl::StrCat(kText, event_id);
  }
  return std::string(event_id);
}

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  absl::Duration duration;
  if (absl::ParseDuration(text, &duration)) return duration;
  absl::string_view days = text;
  int64_t count = 0;
  if (absl::ConsumeSuffix(&days, "d") && absl::SimpleAtoi(days, &count)) {
    return count * absl::Hours(24);
  }
  return absl::InvalidArgumentError(absl::StrCat("'", absl::CHexEscape(text),
                                                 "' is not a duration such as 500ms, 30s, 1h30m "
                                                 "or 7d"));
}

absl::StatusOr<std::string> ReadInput(const std::string& file, std::istream& in) {
  std::ifstream opened;
  if (file != "-") {
    errno = 0;
    opened.open(file, std::ios::binary);
    if (!opened) {
      return absl::ErrnoToStatus(errno == 0 ? EIO : errno, absl::StrCat("cannot read ", file));
    }
  }
  std::istream& source = file == "-" ? in : opened;
  std::string content;
  char buffer[1 << 16];
  while (source.read(buffer, sizeof(buffer)) || source.gcount() > 0) {
    content.append(buffer, static_cast<size_t>(source.gcount()));
    if (content.size() > kMaxInputBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, " has more than ", kMaxInputBytes, " bytes"));
    }
  }
  if (source.bad()) return absl::DataLossError(absl::StrCat("cannot read ", file));
  return content;
}

}  // namespace once::cli
