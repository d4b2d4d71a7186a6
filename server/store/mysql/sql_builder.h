// Builds one statement. Every value is a number or a hexadecimal literal, so there is nothing to
// escape and no value can become SQL; or it is left to be bound to a prepared statement.
#ifndef ONCE_STORE_MYSQL_SQL_BUILDER_H_
#define ONCE_STORE_MYSQL_SQL_BUILDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace once::store::mysql {

// The database's clock: microseconds since 1970 at the moment when this is evaluated, once per row.
// UTC_TIMESTAMP() would stand still from the start of the statement on, over all its lock waits.
inline constexpr absl::string_view kNowMicros =
    "TIMESTAMPDIFF(MICROSECOND,'1970-01-01 00:00:00',SYSDATE(6))";

// A value that is bound. Points into the row that it was taken from.
struct BoundValue {
  enum class Kind : uint8_t { kNull, kInt, kBytes };
  Kind kind = Kind::kNull;
  int64_t number = 0;
  absl::string_view bytes{};
};

class SqlBuilder {
 public:
  // With `bound`, values go there and the text has a "?" for each.
  explicit SqlBuilder(absl::string_view start = {}, std::vector<BoundValue>* bound = nullptr)
      : text_(start), bound_(bound) {}

  SqlBuilder& Raw(absl::string_view sql) {
    text_.append(sql.data(), sql.size());
    return *this;
  }
  SqlBuilder& Int(int64_t value) {
    if (bound_ != nullptr) return Bind({.kind = BoundValue::Kind::kInt, .number = value});
    absl::StrAppend(&text_, value);
    return *this;
  }
  SqlBuilder& Null() { return bound_ != nullptr ? Bind({}) : Raw("NULL"); }
  // `bytes` must outlive the statement where values are bound.
  SqlBuilder& Bytes(absl::string_view bytes) {
    if (bound_ != nullptr) return Bind({.kind = BoundValue::Kind::kBytes, .bytes = bytes});
    static constexpr char kDigits[] = "0123456789abcdef";
    const size_t start = text_.size();
    text_.resize(start + 2 * bytes.size() + 3);
    char* out = &text_[start];
    *out++ = 'x';
    *out++ = '\'';
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      *out++ = kDigits[byte >> 4];
      *out++ = kDigits[byte & 15];
    }
    *out = '\'';
    return *this;
  }
  template <size_t n>
  SqlBuilder& Bytes(const std::array<uint8_t, n>& bytes) {
    return Bytes(absl::string_view(reinterpret_cast<const char*>(bytes.data()), n));
  }
  SqlBuilder& BytesOrNull(absl::string_view bytes) { return bytes.empty() ? Null() : Bytes(bytes); }

  size_t size() const { return text_.size(); }
  const std::string& text() const { return text_; }

 private:
  SqlBuilder& Bind(BoundValue value) {
    bound_->push_back(value);
    return Raw("?");
  }

  std::string text_;
  std::vector<BoundValue>* bound_;
};

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_SQL_BUILDER_H_
