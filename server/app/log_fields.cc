#include "app/log_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace once::app {
namespace {

using Json = nlohmann::json;

// A call's record has about 300 bytes.
constexpr size_t kUsualBytes = 480;

std::string Dump(absl::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Whether JSON needs no escapes.
bool IsPlain(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isprint(static_cast<unsigned char>(c)) && c != '"' && c != '\\';
  });
}

// Whether text may stand without quotes.
bool IsBare(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c)) && c != '"' && c != '=';
  });
}

void AppendQuoted(std::string& out, absl::string_view text) {
  if (IsPlain(text)) {
    absl::StrAppend(&out, "\"", text, "\"");
  } else {
    out += Dump(text);
  }
}

void AppendDouble(std::string& out, double number) {
  const double size = std::fabs(number);
  // Elsewhere an exponent, or null, is called for.
  if (number != 0 && !(size >= 1e-4 && size < 1e15)) {
    out += Json(number).dump();
    return;
  }
  std::array<char, 32> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), number, std::chars_format::fixed)
          .ptr;
  const absl::string_view text(digits.data(), static_cast<size_t>(end - digits.data()));
  absl::StrAppend(&out, text, text.find('.') == text.npos ? ".0" : "");
}

// Appends a value as JSON.
struct JsonAppender {
  std::string& out;

  void operator()(absl::string_view text) const { AppendQuoted(out, text); }
  void operator()(int64_t number) const { absl::StrAppend(&out, number); }
  void operator()(double number) const { AppendDouble(out, number); }
  void operator()(bool yes) const { out += yes ? "true" : "false"; }
  void operator()(absl::Span<const std::string> list) const {
    absl::string_view separator;
    out += '[';
    for (const std::string& text : list) {
      absl::StrAppend(&out, std::exchange(separator, ","));
      AppendQuoted(out, text);
    }
    out += ']';
  }
  void operator()(absl::Span<const LogCount> counts) const {
    absl::string_view separator;
    out += '{';
    for (const auto& [name, count] : counts) {
      absl::StrAppend(&out, std::exchange(separator, ","));
      AppendQuoted(out, name);
      absl::StrAppend(&out, ":", count);
    }
    out += '}';
  }
};

void AppendTextValue(std::string& out, const LogValue& value) {
  const auto* text = std::get_if<absl::string_view>(&value.value());
  if (text != nullptr && IsBare(*text)) {
    absl::StrAppend(&out, *text);
  } else {
    std::visit(JsonAppender{out}, value.value());
  }
}

// For people: no quotes, but also nothing that could end the line.
void AppendMessage(std::string& out, absl::string_view message) {
  if (IsPlain(message)) {
    absl::StrAppend(&out, message);
    return;
  }
  std::string text = Json::parse(Dump(message)).get<std::string>();
  for (char& c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  out += text;
}

}  // namespace

std::string RenderRecord(LogFormat format, absl::string_view message, const LogFields& fields) {
  std::string out;
  out.reserve(kUsualBytes);
  switch (format) {
    case LogFormat::kJson:
      out += "\"message\":";
      AppendQuoted(out, message);
      for (const LogField& field : fields) {
        absl::StrAppend(&out, ",\"", field.name, "\":");
        std::visit(JsonAppender{out}, field.value.value());
      }
      out += '}';
      break;
    case LogFormat::kText:
      AppendMessage(out, message);
      for (const LogField& field : fields) {
        absl::StrAppend(&out, " ", field.name, "=");
        AppendTextValue(out, field.value);
      }
      break;
  }
  return out;
}

}  // namespace once::app
