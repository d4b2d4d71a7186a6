// The named values of a log record, and how a record looks as JSON and as text.
#ifndef ONCE_APP_LOG_FIELDS_H_
#define ONCE_APP_LOG_FIELDS_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "app/settings.h"

namespace once::app {

// A name and how often; for values that are counts by name.
using LogCount = std::pair<absl::string_view, size_t>;

// One value. Refers to the texts and counts that it is made from.
class LogValue {
 public:
  using Variant = std::variant<absl::string_view, int64_t, double, bool,
                               absl::Span<const std::string>, absl::Span<const LogCount>>;

  // Implicit, so that fields can be written as {{"count", 3}, {"name", name}}.
  // NOLINTBEGIN(google-explicit-constructor)
  template <std::convertible_to<absl::string_view> T>
  LogValue(const T& text) : value_(absl::string_view(text)) {}
  template <std::integral T>
  LogValue(T number) : value_(static_cast<int64_t>(number)) {}
  template <std::integral T>
    requires std::same_as<T, bool>
  LogValue(T yes) : value_(yes) {}
  LogValue(double number) : value_(number) {}
  LogValue(const std::vector<std::string>& list) : value_(absl::MakeConstSpan(list)) {}
  LogValue(absl::Span<const LogCount> counts) : value_(counts) {}
  // NOLINTEND(google-explicit-constructor)

  const Variant& value() const { return value_; }

 private:
  Variant value_;
};

struct LogField {
  absl::string_view name;  // letters, digits and "_"
  LogValue value;
};

// Named values of a record, in order. Copies nothing: whatever the values were made from must live
// until the record was given to the log, as it does within one expression.
class LogFields {
 public:
  LogFields() = default;
  LogFields(std::initializer_list<LogField> fields) : fields_(fields) {}

  void Add(absl::string_view name, LogValue value) { fields_.push_back({name, value}); }

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }

 private:
  absl::InlinedVector<LogField, 16> fields_;
};

// A record's line but for its time and level, without the newline:
//   "message":"call","method":"Begin","fence":42}
//   call method=Begin fence=42
// Bytes that are not UTF-8 are replaced, and nothing ends the line or fakes another value.
std::string RenderRecord(LogFormat format, absl::string_view message, const LogFields& fields);

}  // namespace once::app

#endif  // ONCE_APP_LOG_FIELDS_H_
