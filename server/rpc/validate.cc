#include "rpc/validate.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"

namespace once::rpc {
namespace {

using base::InvalidField;

constexpr absl::string_view kNameBytes = "[A-Za-z0-9._:/-]";
constexpr int32_t kNanosPerSecond = 1'000'000'000;

bool IsNameByte(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == ':' || c == '/' || c == '-';
}

absl::Status CheckNameBytes(const Field& field, absl::string_view value) {
  const auto bad = std::find_if_not(value.begin(), value.end(), IsNameByte);
  if (bad == value.end()) {
    return absl::OkStatus();
  }
  const auto offset = std::to_string(bad - value.begin());
  return InvalidField(field.Text(),
                      absl::StrCat("has a byte outside ", kNameBytes, " at offset ", offset),
                      {{"offset", offset}});
}

absl::Status OutOfRange(const Field& field, absl::Duration value, absl::string_view kind,
                        absl::Duration limit) {
  const std::string value_text = absl::FormatDuration(value);
  const std::string limit_text = absl::FormatDuration(limit);
  return InvalidField(field.Text(),
                      absl::StrCat("is ", value_text, "; the ", kind, " is ", limit_text),
                      {{"value", value_text}, {"limit", limit_text}});
}

}  // namespace

absl::Status TooLong(const Field& field, size_t size, size_t limit) {
  return InvalidField(field.Text(), absl::StrCat("is ", size, " bytes; the limit is ", limit),
                      {{"size", absl::StrCat(size)}, {"limit", absl::StrCat(limit)}});
}

absl::Status CheckSize(const Field& field, absl::string_view value, size_t limit) {
  return value.size() > limit ? TooLong(field, value.size(), limit) : absl::OkStatus();
}

absl::Status CheckNotEmpty(const Field& field, absl::string_view value, size_t limit) {
  if (value.empty()) {
    return InvalidField(field.Text(), absl::StrCat("is empty; it needs 1 to ", limit, " bytes"),
                        {{"size", "0"}, {"limit", absl::StrCat(limit)}});
  }
  return CheckSize(field, value, limit);
}

absl::Status CheckName(const Field& field, absl::string_view value, size_t limit) {
  if (value.empty()) {
    return InvalidField(field.Text(),
                        absl::StrCat("is empty; it needs 1 to ", limit, " bytes of ", kNameBytes),
                        {{"size", "0"}, {"limit", absl::StrCat(limit)}});
  }
  if (value.size() > limit) {
    return TooLong(field, value.size(), limit);
  }
  return CheckNameBytes(field, value);
}

absl::Status CheckHandlerPattern(const Field& field, absl::string_view value) {
  absl::string_view name = value;
  if (!absl::ConsumeSuffix(&name, "*")) {
    return CheckName(field, value, core::kMaxHandlerBytes);
  }
  if (name.size() > core::kMaxHandlerBytes) {
    return TooLong(field, value.size(), core::kMaxHandlerBytes + 1);
  }
  return CheckNameBytes(field, name);
}

absl::StatusOr<core::AttemptId> ParseAttemptId(const Field& field, absl::string_view value) {
  core::AttemptId id;
  if (value.size() != id.bytes.size()) {
    return InvalidField(
        field.Text(),
        absl::StrCat("is ", value.size(), " bytes; it needs exactly ", id.bytes.size()),
        {{"size", absl::StrCat(value.size())}, {"limit", absl::StrCat(id.bytes.size())}});
  }
  std::memcpy(id.bytes.data(), value.data(), id.bytes.size());
  if (id == core::AttemptId{}) {
    return InvalidField(field.Text(), "is all zero; make a random one for each logical try");
  }
  return id;
}

absl::StatusOr<core::Fence> ParseFence(const Field& field, int64_t value) {
  if (value <= 0) {
    return InvalidField(field.Text(), absl::StrCat("is ", value, "; send the one that was granted"),
                        {{"value", absl::StrCat(value)}, {"limit", "1"}});
  }
  return core::Fence{value};
}

absl::StatusOr<absl::Duration> ParseDuration(const Field& field,
                                             const google::protobuf::Duration& value,
                                             absl::Duration least, absl::Duration most) {
  const bool signs_differ =
      (value.seconds() > 0 && value.nanos() < 0) || (value.seconds() < 0 && value.nanos() > 0);
  if (signs_differ || value.nanos() <= -kNanosPerSecond || value.nanos() >= kNanosPerSecond) {
    return InvalidField(field.Text(),
                        "is no valid duration: nanos are out of range or differ in sign from "
                        "seconds");
  }
  const absl::Duration duration = absl::Seconds(value.seconds()) + absl::Nanoseconds(value.nanos());
  if (duration < least) {
    return OutOfRange(field, duration, "minimum", least);
  }
  if (duration > most) {
    return OutOfRange(field, duration, "limit", most);
  }
  return duration;
}

absl::StatusOr<absl::Duration> ParseLease(const Field& field,
                                          const google::protobuf::Duration& value,
                                          const core::LeaseRange& range) {
  if (value.seconds() == 0 && value.nanos() == 0) {
    return range.normal;
  }
  return ParseDuration(field, value, range.least, range.greatest);
}

absl::StatusOr<int> ParsePageSize(const Field& field, int32_t value, const core::Limits& limits) {
  if (value == 0) {
    return limits.default_page_size;
  }
  if (value < 0 || value > limits.max_page_size) {
    return InvalidField(
        field.Text(),
        absl::StrCat("is ", value, "; the limit is ", limits.max_page_size, ", 0 means ",
                     limits.default_page_size),
        {{"value", absl::StrCat(value)}, {"limit", absl::StrCat(limits.max_page_size)}});
  }
  return value;
}

}  // namespace once::rpc
