// Builds the text of one statement. Every value is a number or a hexadecimal literal, so there is
// nothing to escape and no value can become SQL.
#ifndef ONCE_STORE_MYSQL_SQL_BUILDER_H_
#define ONCE_STORE_MYSQL_SQL_BUILDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace once::store::mysql {

// The database's clock: microseconds since 1970 at the moment when this is evaluated, once per row.
// UTC_TIMESTAMP() would stand still from the start of the statement on, over all its lock waits.
inline constexpr absl::string_view kNowMicros =
    "TIMESTAMPDIFF(MICROSECOND,'1970-01-01 00:00:00',SYSDATE(6))";

class SqlBuilder {
 public:
  SqlBuilder() = default;
  explicit SqlBuilder(absl::string_view start) : text_(start) {}

  SqlBuilder& Raw(absl::string_view sql) {
    text_.append(sql.data(), sql.size());
    return *this;
  }
  SqlBuilder& Int(int64_t value) {
    absl::StrAppend(&text_, value);
    return *this;
  }
  SqlBuilder& Bytes(absl::string_view bytes) {
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
  SqlBuilder& BytesOrNull(absl::string_view bytes) {
    return bytes.empty() ? Raw("NULL") : Bytes(bytes);
  }

  size_t size() const { return text_.size(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_SQL_BUILDER_H_
