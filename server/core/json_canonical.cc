#include "core/json_canonical.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/json_pointer.h"
#include "double-conversion/double-conversion.h"
#include "nlohmann/json.hpp"

namespace once::core {
namespace {

using double_conversion::DoubleToStringConverter;

constexpr std::int64_t kMaxExactInteger = std::int64_t{1} << 53;

// An input iterator that leaves the parser's position where the event handler can see it: the
// parser's own events do not say where in the text they happened.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  explicit Cursor(const char** position) : position_(position) {}
  reference operator*() const { return **position_; }
  Cursor& operator++() {
    ++*position_;
    return *this;
  }
  friend bool operator==(const Cursor& a, const Cursor& b) { return *a.position_ == *b.position_; }
  friend bool operator!=(const Cursor& a, const Cursor& b) { return !(a == b); }

 private:
  const char** position_;
};

// Makes the order of UTF-8 bytes that of UTF-16 code units: the lead bytes of supplementary
// characters (surrogates D800..DFFF in UTF-16) go below those of U+E000..U+FFFF. Where two valid
// strings first differ, either both bytes lead a character or neither does.
constexpr unsigned Utf16Rank(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == 0xEEU || byte == 0xEFU ? byte + 0x100U : byte;
}

// Negative, zero or positive; both names are valid UTF-8.
int CompareUtf16(absl::string_view a, absl::string_view b) {
  const std::size_t common = std::min(a.size(), b.size());
  const auto [at_a, at_b] = std::mismatch(a.begin(), a.begin() + common, b.begin());
  if (at_a != a.begin() + common) return Utf16Rank(*at_a) < Utf16Rank(*at_b) ? -1 : 1;
  if (a.size() == b.size()) return 0;
  return a.size() < b.size() ? -1 : 1;
}

void AppendEscaped(char c, std::string* out) {
  constexpr absl::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '"':
      out->append("\\\"");
      return;
    case '\\':
      out->append("\\\\");
      return;
    case '\b':
      out->append("\\b");
      return;
    case '\t':
      out->append("\\t");
      return;
    case '\n':
      out->append("\\n");
      return;
    case '\f':
      out->append("\\f");
      return;
    case '\r':
      out->append("\\r");
      return;
    default:
      out->append("\\u00");
      out->push_back(kHex[static_cast<unsigned char>(c) >> 4U]);
      out->push_back(kHex[static_cast<unsigned char>(c) & 0xFU]);
      return;
  }
}

void AppendString(absl::string_view text, std::string* out) {
  out->push_back('"');
  std::size_t run = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x20U && c != '"' && c != '\\') continue;
    out->append(text.data() + run, i - run);
    AppendEscaped(c, out);
    run = i + 1;
  }
  out->append(text.data() + run, text.size() - run);
  out->push_back('"');
}

template <typename Integer>
void AppendDecimal(Integer value, std::string* out) {
  std::array<char, 24> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  out->append(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
}

void AppendDouble(double value, std::string* out) {
  std::array<char, 32> buffer;
  double_conversion::StringBuilder builder(buffer.data(), static_cast<int>(buffer.size()));
  // ECMAScript's form of a finite double has at most 25 characters, so this cannot fail.
  DoubleToStringConverter::EcmaScriptConverter().ToShortest(value, &builder);
  const auto size = static_cast<std::size_t>(builder.position());
  builder.Finalize();
  out->append(buffer.data(), size);
}

// Whether the canonical form of the non-zero `value` denotes the integer that `digits` (no sign, no
// leading zeros) denotes, of which `value` is the nearest double. So near to each other, equal
// significant digits mean equal numbers.
bool CanonicalFormKeeps(absl::string_view digits, double value) {
  std::array<char, DoubleToStringConverter::kBase10MaximalLength + 1> shortest;
  bool negative = false;
  int length = 0;
  int magnitude = 0;
  DoubleToStringConverter::DoubleToAscii(value, DoubleToStringConverter::SHORTEST, 0,
                                         shortest.data(), static_cast<int>(shortest.size()),
                                         &negative, &length, &magnitude);
  const absl::string_view significant = digits.substr(0, digits.find_last_not_of('0') + 1);
  return significant == absl::string_view(shortest.data(), static_cast<std::size_t>(length));
}

bool IsIntegerLiteral(absl::string_view literal) {
  absl::ConsumePrefix(&literal, "-");
  return std::all_of(literal.begin(), literal.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The part of the parser's message that is the library's own text. What follows repeats content.
std::string SafeMessage(absl::string_view message) {
  const std::size_t begin = message.find("syntax error");
  if (begin == absl::string_view::npos) return "syntax error";
  message.remove_prefix(begin);
  return std::string(message.substr(0, message.find("; last read: ")));
}

// Where the token that ends before `end` starts. Only a name or a string ends in a quote, quotes
// inside one are escaped, and no quote that opens one follows a backslash.
std::size_t TokenStart(absl::string_view text, std::size_t end) {
  constexpr absl::string_view kWord =
      "+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  if (end == 0) return 0;
  std::size_t start = end - 1;
  if (text[start] == '"') {
    while (start > 0) {
      --start;
      if (text[start] == '"' && (start == 0 || text[start - 1] != '\\')) break;
    }
    return start;
  }
  if (!absl::StrContains(kWord, text[start])) return start;
  while (start > 0 && absl::StrContains(kWord, text[start - 1])) --start;
  return start;
}

// Receives the parser's events and writes the canonical form as it goes, without building a
// document: each member lands in `out_` where it stands in the text, and the end of an object whose
// members came in another order moves their bytes.
class CanonicalWriter final : public nlohmann::json_sax<nlohmann::json> {
 public:
  CanonicalWriter(absl::string_view text, const JsonLimits& limits,
                  const std::vector<JsonPointer>& excluded)
      : text_(text),
        position_(text.data()),
        max_depth_(static_cast<std::size_t>(limits.max_depth)),
        excluded_(excluded) {
    out_.reserve(text.size());
  }

  absl::StatusOr<std::string> Run();

  // The parser's events. False ends the parse.
  bool null() override { return Literal("null"); }
  bool boolean(bool value) override { return Literal(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) override;
  bool number_unsigned(std::uint64_t value) override;
  bool number_float(double value, const std::string& literal) override;
  bool string(std::string& value) override;
  bool binary(nlohmann::json::binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*size*/) override { return Open('{'); }
  bool key(std::string& name) override;
  bool end_object() override;
  bool start_array(std::size_t /*size*/) override { return Open('['); }
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& last_token,
                   const nlohmann::detail::exception& error) override;

 private:
  // Bit i stands for the i-th excluded pointer.
  using PointerSet = std::uint64_t;

  // An open object or array.
  struct Level {
    bool is_object;
    bool in_value = false;          // object: the name was read, its value was not yet
    bool sorted = true;             // object: the names so far came in strictly rising order
    bool skip_value = false;        // object: the current member is excluded
    bool skipped;                   // lies inside an excluded member
    bool wrote = false;             // something stands in `out_` after the opening bracket
    PointerSet matching;            // pointers that lead through this object or array
    PointerSet value_matching = 0;  // object: those of them that lead through the current member
    std::size_t index = 0;          // array: elements finished
    std::size_t out_begin;          // where the first member or element stands in `out_`
    std::size_t members_begin;      // object: its members are the last in `members_`, from here on
    std::size_t names_begin;        // object: and their names the last in `names_`
  };

  // A member of an open object. An excluded one has no bytes in `out_`.
  struct Member {
    std::size_t name_begin;
    std::size_t name_size;
    std::size_t out_begin;
    std::size_t out_end;
    std::size_t text_end;  // where its name ends in the text
  };

  std::size_t Offset() const { return static_cast<std::size_t>(position_ - text_.data()); }
  absl::string_view Name(const Member& member) const {
    return absl::string_view(names_).substr(member.name_begin, member.name_size);
  }
  // Where the number that was just read starts. The parser may have read one character more.
  std::size_t NumberStart() const;

  bool Literal(absl::string_view text);
  bool Open(char bracket);
  void Close(char bracket);
  void BeforeValue();
  void AfterValue();
  PointerSet LeadingThrough(PointerSet candidates, absl::string_view token, bool* is_last) const;
  PointerSet MatchingOfNewLevel() const;
  bool IsSkipped() const;

  bool FinishMembers();
  bool RefuseDuplicates(const Member* begin, const Member* end);
  void RewriteSorted(const Member* begin, const Member* end, std::size_t out_begin);

  std::vector<std::string> StepsTo(bool current_element) const;
  bool Refuse(JsonFaultKind kind, std::size_t offset, std::string what);
  bool RefuseInteger() {
    return Refuse(JsonFaultKind::kInexactInteger, NumberStart(),
                  "integer whose value the canonical form would change");
  }

  const absl::string_view text_;
  const char* position_;  // what the parser reads next
  const std::size_t max_depth_;
  const std::vector<JsonPointer>& excluded_;

  std::string out_;
  std::string scratch_;
  std::string names_;  // unescaped names of the members of all open objects
  absl::InlinedVector<Member, 32> members_;
  absl::InlinedVector<Level, 8> levels_;
  JsonFault fault_;
};

absl::StatusOr<std::string> CanonicalWriter::Run() {
  if (text_.empty()) {
    fault_.what = "empty text";
    return JsonFaultToStatus(fault_);
  }
  if (absl::StartsWith(text_, "\xEF\xBB\xBF")) {  // the parser would skip it
    fault_.what = "byte order mark";
    return JsonFaultToStatus(fault_);
  }
  const char* end = text_.data() + text_.size();
  if (!nlohmann::json::sax_parse(Cursor(&position_), Cursor(&end), this)) {
    return JsonFaultToStatus(fault_);
  }
  // The parser takes a zero byte between tokens for the end of the text.
  const std::size_t zero = text_.find('\0');
  if (zero != absl::string_view::npos) {
    fault_.offset = zero;
    fault_.what = "zero byte after the document";
    return JsonFaultToStatus(fault_);
  }
  return std::move(out_);
}

bool CanonicalWriter::number_integer(std::int64_t value) {
  if (value < -kMaxExactInteger || value > kMaxExactInteger) {
    return number_float(static_cast<double>(value), absl::StrCat(value));
  }
  BeforeValue();
  AppendDecimal(value, &out_);
  AfterValue();
  return true;
}

bool CanonicalWriter::number_unsigned(std::uint64_t value) {
  if (value > static_cast<std::uint64_t>(kMaxExactInteger)) {
    return number_float(static_cast<double>(value), absl::StrCat(value));
  }
  BeforeValue();
  AppendDecimal(value, &out_);
  AfterValue();
  return true;
}

bool CanonicalWriter::number_float(double value, const std::string& literal) {
  // An excluded number is not digested, so it does not matter what would become of it.
  if (IsIntegerLiteral(literal) && !IsSkipped()) {
    absl::string_view digits = literal;
    absl::ConsumePrefix(&digits, "-");
    if (!CanonicalFormKeeps(digits, value)) return RefuseInteger();
  }
  BeforeValue();
  AppendDouble(value, &out_);
  AfterValue();
  return true;
}

bool CanonicalWriter::string(std::string& value) {
  BeforeValue();
  AppendString(value, &out_);
  AfterValue();
  return true;
}

bool CanonicalWriter::Literal(absl::string_view text) {
  BeforeValue();
  out_.append(text.data(), text.size());
  AfterValue();
  return true;
}

bool CanonicalWriter::Open(char bracket) {
  if (levels_.size() >= max_depth_) {
    return Refuse(JsonFaultKind::kTooDeep, Offset() - 1,
                  absl::StrCat("more than ", max_depth_, " levels"));
  }
  const PointerSet matching = MatchingOfNewLevel();
  const bool skipped = IsSkipped();
  BeforeValue();
  out_.push_back(bracket);
  levels_.push_back(Level{.is_object = bracket == '{',
                          .skipped = skipped,
                          .matching = matching,
                          .out_begin = out_.size(),
                          .members_begin = members_.size(),
                          .names_begin = names_.size()});
  return true;
}

void CanonicalWriter::Close(char bracket) {
  out_.push_back(bracket);
  levels_.pop_back();
  AfterValue();
}

bool CanonicalWriter::key(std::string& name) {
  Level& level = levels_.back();
  if (level.wrote) out_.push_back(',');
  if (members_.size() > level.members_begin && level.sorted) {
    level.sorted = CompareUtf16(Name(members_.back()), name) < 0;
  }
  members_.push_back(Member{.name_begin = names_.size(),
                            .name_size = name.size(),
                            .out_begin = out_.size(),
                            .out_end = out_.size(),
                            .text_end = Offset()});
  names_.append(name);
  level.in_value = true;
  level.skip_value = false;
  level.value_matching = LeadingThrough(level.matching, name, &level.skip_value);
  AppendString(name, &out_);
  out_.push_back(':');
  return true;
}

bool CanonicalWriter::end_object() {
  if (!FinishMembers()) return false;
  names_.resize(levels_.back().names_begin);
  members_.resize(levels_.back().members_begin);
  Close('}');
  return true;
}

bool CanonicalWriter::end_array() {
  Close(']');
  return true;
}

void CanonicalWriter::BeforeValue() {
  if (levels_.empty()) return;
  const Level& level = levels_.back();
  if (!level.is_object && level.wrote) out_.push_back(',');
}

void CanonicalWriter::AfterValue() {
  if (levels_.empty()) return;
  Level& level = levels_.back();
  if (!level.is_object) {
    ++level.index;
    level.wrote = true;
    return;
  }
  Member& member = members_.back();
  level.in_value = false;
  if (level.skip_value) {
    out_.resize(member.out_begin - (level.wrote ? 1U : 0U));
    return;
  }
  member.out_end = out_.size();
  level.wrote = true;
}

// Those of `candidates`, all of which lead through the innermost level, that go on with `token`.
// Sets `*is_last` when one of them ends there.
CanonicalWriter::PointerSet CanonicalWriter::LeadingThrough(PointerSet candidates,
                                                            absl::string_view token,
                                                            bool* is_last) const {
  if (candidates == 0) return 0;
  const std::size_t depth = levels_.size() - 1;
  PointerSet leading = 0;
  for (std::size_t i = 0; i < excluded_.size(); ++i) {
    const PointerSet bit = PointerSet{1} << i;
    if ((candidates & bit) == 0 || excluded_[i][depth] != token) continue;
    if (excluded_[i].size() == depth + 1) {
      *is_last = true;
    } else {
      leading |= bit;
    }
  }
  return leading;
}

CanonicalWriter::PointerSet CanonicalWriter::MatchingOfNewLevel() const {
  if (levels_.empty()) {
    return excluded_.empty() ? 0 : ~PointerSet{0} >> (kMaxExcludedPointers - excluded_.size());
  }
  const Level& level = levels_.back();
  if (level.is_object) return level.value_matching;
  if (level.matching == 0) return 0;
  bool is_element = false;  // elements are never removed, only members
  return LeadingThrough(level.matching, absl::StrCat(level.index), &is_element);
}

bool CanonicalWriter::IsSkipped() const {
  return !levels_.empty() && (levels_.back().skipped || levels_.back().skip_value);
}

bool CanonicalWriter::FinishMembers() {
  const Level& level = levels_.back();
  if (level.sorted) return true;
  Member* const begin = members_.data() + level.members_begin;
  Member* const end = members_.data() + members_.size();
  std::sort(begin, end, [this](const Member& a, const Member& b) {
    const int order = CompareUtf16(Name(a), Name(b));
    return order != 0 ? order < 0 : a.text_end < b.text_end;
  });
  if (!RefuseDuplicates(begin, end)) return false;
  RewriteSorted(begin, end, level.out_begin);
  return true;
}

// `begin` to `end` are sorted. Reports the duplicate that comes first in the text.
bool CanonicalWriter::RefuseDuplicates(const Member* begin, const Member* end) {
  const Member* duplicate = nullptr;
  for (const Member* member = begin + 1; member < end; ++member) {
    if (Name(*member) != Name(*(member - 1))) continue;
    if (duplicate == nullptr || member->text_end < duplicate->text_end) duplicate = member;
  }
  if (duplicate == nullptr) return true;
  std::vector<std::string> steps = StepsTo(/*current_element=*/false);
  steps.emplace_back(Name(*duplicate));
  fault_ = JsonFault{.kind = JsonFaultKind::kDuplicateName,
                     .pointer = MakeFaultPointer(steps),
                     .offset = TokenStart(text_, duplicate->text_end),
                     .what = "duplicate member name"};
  return false;
}

void CanonicalWriter::RewriteSorted(const Member* begin, const Member* end, std::size_t out_begin) {
  scratch_.clear();
  for (const Member* member = begin; member < end; ++member) {
    const std::size_t size = member->out_end - member->out_begin;
    if (size == 0) continue;
    if (!scratch_.empty()) scratch_.push_back(',');
    scratch_.append(out_, member->out_begin, size);
  }
  out_.replace(out_begin, std::string::npos, scratch_);
}

std::size_t CanonicalWriter::NumberStart() const {
  const std::size_t end = Offset();
  const char last = text_[end - 1];
  const bool read_one_more = last < '0' || last > '9';  // every number ends in a digit
  return TokenStart(text_, read_one_more ? end - 1 : end);
}

// The names and indexes that lead to the innermost level and, where there is one, on to its current
// member; with `current_element` also to the element of an array that comes next.
std::vector<std::string> CanonicalWriter::StepsTo(bool current_element) const {
  std::vector<std::string> steps;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const bool innermost = i + 1 == levels_.size();
    if (!levels_[i].is_object) {
      if (!innermost || current_element) steps.push_back(absl::StrCat(levels_[i].index));
    } else if (levels_[i].in_value) {
      const std::size_t next = innermost ? members_.size() : levels_[i + 1].members_begin;
      steps.emplace_back(Name(members_[next - 1]));
    }
  }
  return steps;
}

bool CanonicalWriter::Refuse(JsonFaultKind kind, std::size_t offset, std::string what) {
  fault_ = JsonFault{.kind = kind,
                     .pointer = MakeFaultPointer(StepsTo(/*current_element=*/true)),
                     .offset = offset,
                     .what = std::move(what)};
  return false;
}

bool CanonicalWriter::parse_error(std::size_t position, const std::string& /*last_token*/,
                                  const nlohmann::detail::exception& error) {
  constexpr int kNumberOverflow = 406;
  if (error.id == kNumberOverflow) {
    return Refuse(JsonFaultKind::kNumberRange, NumberStart(),
                  "number beyond the range of a double");
  }
  const std::string message = SafeMessage(error.what());
  const bool bad_text =
      absl::StrContains(message, "surrogate") || absl::StrContains(message, "UTF-8");
  // The parser counts what it has read, and counts the end of the text as one more.
  std::size_t offset = std::min(position - 1, text_.size());
  const bool whole_token = absl::StrContains(message, "unexpected") && offset < text_.size();
  if (whole_token) offset = TokenStart(text_, position);
  fault_ = JsonFault{
      .kind = bad_text ? JsonFaultKind::kInvalidText : JsonFaultKind::kSyntax,
      .pointer = MakeFaultPointer(StepsTo(absl::StrContains(message, "while parsing value"))),
      .offset = offset,
      .what = message};
  return false;
}

}  // namespace

absl::StatusOr<std::string> CanonicalizeJson(absl::string_view text, const JsonLimits& limits,
                                             absl::Span<const std::string> excluded_pointers) {
  if (limits.max_depth < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("JsonLimits::max_depth is ", limits.max_depth, ", must be at least 1"));
  }
  const absl::StatusOr<std::vector<JsonPointer>> excluded = ParseMemberPointers(excluded_pointers);
  if (!excluded.ok()) return excluded.status();
  return CanonicalWriter(text, limits, *excluded).Run();
}

}  // namespace once::core
