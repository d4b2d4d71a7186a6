#include "core/json_canonical.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

namespace once::core {
namespace {

std::string ReadVector(const std::string& name) {
  std::ifstream file(absl::StrCat(ONCE_SOURCE_DIR, "/tests/vectors/jcs/", name), std::ios::binary);
  EXPECT_TRUE(file.is_open()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string Canonical(absl::string_view text, const std::vector<std::string>& excluded = {}) {
  const absl::StatusOr<std::string> canonical = CanonicalizeJson(text, JsonLimits{}, excluded);
  return canonical.ok() ? *canonical : absl::StrCat("refused: ", canonical.status().message());
}

JsonFault FaultOf(absl::string_view text, const JsonLimits& limits = {},
                  const std::vector<std::string>& excluded = {}) {
  const absl::StatusOr<std::string> canonical = CanonicalizeJson(text, limits, excluded);
  EXPECT_EQ(canonical.status().code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 200);
  const std::optional<JsonFault> fault = JsonFaultFromStatus(canonical.status());
  EXPECT_TRUE(fault.has_value()) << text.substr(0, 200);
  return fault.value_or(JsonFault{});
}

std::string Nested(absl::string_view open, std::size_t levels, absl::string_view middle,
                   absl::string_view close) {
  std::string text;
  for (std::size_t i = 0; i < levels; ++i) absl::StrAppend(&text, open);
  absl::StrAppend(&text, middle);
  for (std::size_t i = 0; i < levels; ++i) absl::StrAppend(&text, close);
  return text;
}

// ---------------------------------------------------------------------------------------------------
// Published and generated vectors.

class PublishedDocument : public testing::TestWithParam<const char*> {};

TEST_P(PublishedDocument, HasThePublishedForm) {
  EXPECT_EQ(Canonical(ReadVector(absl::StrCat("input/", GetParam(), ".json"))),
            ReadVector(absl::StrCat("output/", GetParam(), ".json")));
}

INSTANTIATE_TEST_SUITE_P(Rfc8785, PublishedDocument,
                         testing::Values("arrays", "french", "structures", "unicode", "values",
                                         "weird"),
                         [](const auto& test) { return std::string(test.param); });

TEST(GeneratedVectors, EveryDocumentHasTheFormOfTheReferencePackage) {
  const std::string lines = ReadVector("generated/documents.jsonl");
  int count = 0;
  for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const nlohmann::json vector = nlohmann::json::parse(line);
    const std::string canonical = vector.at("canonical");
    EXPECT_EQ(Canonical(vector.at("input").get<std::string>()), canonical);
    EXPECT_EQ(Canonical(canonical), canonical);
    ++count;
  }
  EXPECT_EQ(count, 300);
}

TEST(GeneratedVectors, EveryNumberHasTheFormOfEcmaScript) {
  const std::string lines = ReadVector("generated/numbers.csv");
  int count = 0;
  for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(line, ',');
    ASSERT_EQ(fields.size(), 2U);
    const double value =
        std::bit_cast<double>(std::uint64_t{std::strtoull(fields[0].c_str(), nullptr, 16)});
    EXPECT_EQ(Canonical(absl::StrFormat("%.17e", value)), fields[1]) << fields[0];
    EXPECT_EQ(Canonical(fields[1]), fields[1]) << fields[0];
    ++count;
  }
  EXPECT_EQ(count, 5000);
}

// ---------------------------------------------------------------------------------------------------
// The canonical form.

TEST(CanonicalizeJson, IgnoresMemberOrderAndWhiteSpaceButNotElementOrder) {
  EXPECT_EQ(Canonical("{ \"b\" : 2 ,\n\t\"a\" : [ 1 , 2 ] }\r\n"), R"({"a":[1,2],"b":2})");
  EXPECT_EQ(Canonical(R"({"a":[1,2],"b":2})"), R"({"a":[1,2],"b":2})");
  EXPECT_NE(Canonical("[1,2]"), Canonical("[2,1]"));
}

TEST(CanonicalizeJson, AcceptsEveryKindOfTopLevelValue) {
  EXPECT_EQ(Canonical(" null "), "null");
  EXPECT_EQ(Canonical("true"), "true");
  EXPECT_EQ(Canonical("false"), "false");
  EXPECT_EQ(Canonical("0"), "0");
  EXPECT_EQ(Canonical("\"\""), "\"\"");
  EXPECT_EQ(Canonical("[ ]"), "[]");
  EXPECT_EQ(Canonical("{ }"), "{}");
}

TEST(CanonicalizeJson, SortsNamesByUtf16CodeUnit) {
  // U+1F600 is D83D DE00 in UTF-16 and goes before U+E000 and U+FB33, after U+D7FF; by code point
  // it would go last.
  EXPECT_EQ(Canonical("{\"\uFB33\":4,\"\uE000\":3,\"\U0001F600\":2,\"\uD7FF\":1,\"a\":0}"),
            "{\"a\":0,\"\uD7FF\":1,\"\U0001F600\":2,\"\uE000\":3,\"\uFB33\":4}");
  EXPECT_EQ(Canonical("{\"x\uE000\":2,\"x\U0010FFFF\":1,\"x\":0}"),
            "{\"x\":0,\"x\U0010FFFF\":1,\"x\uE000\":2}");
}

TEST(CanonicalizeJson, ComparesUnescapedNames) {
  EXPECT_EQ(Canonical(R"({"\u0062":1,"a":2})"), R"({"a":2,"b":1})");
  // A quote's escape starts with a backslash, yet a quote sorts before '#'.
  EXPECT_EQ(Canonical(R"({"#":1,"\"":2,"\n":3,"\u0000":4})"),
            R"({"\u0000":4,"\n":3,"\"":2,"#":1})");
}

TEST(CanonicalizeJson, EscapesOnlyWhatHasToBe) {
  EXPECT_EQ(
      Canonical(R"("\u0000\u0001\b\t\n\u000b\f\r\u001F\u0020\"\\\/\u007f\u20ac\ud83d\uDE00")"),
      "\"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f \\\"\\\\/\x7f\u20ac\U0001F600\"");
}

TEST(CanonicalizeJson, SortsEveryLevel) {
  EXPECT_EQ(Canonical(R"({"z":{"y":[{"d":1,"c":{"b":2,"a":3}}],"x":0},"a":[{"2":0,"1":0}]})"),
            R"({"a":[{"1":0,"2":0}],"z":{"x":0,"y":[{"c":{"a":3,"b":2},"d":1}]}})");
}

TEST(CanonicalizeJson, SpellsEqualNumbersEqually) {
  for (const char* one : {"1", "1.0", "1e0", "10e-1", "0.1E+1", "1.000000000000000000000000"}) {
    EXPECT_EQ(Canonical(one), "1") << one;
  }
  for (const char* zero : {"0", "-0", "0.0", "-0.0", "0e9", "-0E-9", "1e-400"}) {
    EXPECT_EQ(Canonical(zero), "0") << zero;
  }
  EXPECT_EQ(Canonical("1e20"), "100000000000000000000");
  EXPECT_EQ(Canonical("1e21"), "1e+21");
  EXPECT_EQ(Canonical("1e-6"), "0.000001");
  EXPECT_EQ(Canonical("1e-7"), "1e-7");
  EXPECT_EQ(Canonical("1.7976931348623157e308"), "1.7976931348623157e+308");
  EXPECT_EQ(Canonical("-123"), "-123");
}

TEST(CanonicalizeJson, KeepsIntegersThatTheCanonicalFormDoesNotChange) {
  for (const char* integer :
       {"9007199254740991", "9007199254740992", "-9007199254740992", "9007199254740994",
        "9223372036854776000", "18446744073709552000", "-18446744073709552000",
        "100000000000000000000", "999999999999999900000"}) {
    EXPECT_EQ(Canonical(integer), integer);
  }
  EXPECT_EQ(Canonical("1000000000000000000000"), "1e+21");
  EXPECT_EQ(Canonical("123000000000000000000000"), "1.23e+23");
}

TEST(CanonicalizeJson, RefusesIntegersThatTheCanonicalFormWouldChange) {
  for (const char* integer :
       {"9007199254740993", "-9007199254740993", "9223372036854775807", "9223372036854775808",
        "-9223372036854775808", "18446744073709551615", "18446744073709551616",
        "100000000000000000001", "1000000000000000000001", "123456789012345678901234567890"}) {
    const JsonFault fault = FaultOf(integer);
    EXPECT_EQ(fault.kind, JsonFaultKind::kInexactInteger) << integer;
    EXPECT_EQ(fault.offset, 0U) << integer;
  }
}

TEST(CanonicalizeJson, RoundsFractionsAsRfc8785Does) {
  // Not integer literals: whoever writes a fraction or an exponent means a double.
  EXPECT_EQ(Canonical("9007199254740993.0"), "9007199254740992");
  EXPECT_EQ(Canonical("333333333.33333329"), "333333333.3333333");
}

TEST(CanonicalizeJson, KeepsNoncharacters) {
  EXPECT_EQ(Canonical("\"\\uffff\U0010FFFF\""), "\"\uFFFF\U0010FFFF\"");
}

// ---------------------------------------------------------------------------------------------------
// Faults.

struct FaultCase {
  const char* name;
  std::string text;
  JsonFaultKind kind;
  std::string pointer;
  std::size_t offset;
};

void PrintTo(const FaultCase& fault_case, std::ostream* out) { *out << fault_case.name; }

class RefusedText : public testing::TestWithParam<FaultCase> {};

TEST_P(RefusedText, NamesThePathAndTheOffset) {
  const JsonFault fault = FaultOf(GetParam().text);
  EXPECT_EQ(fault.kind, GetParam().kind) << fault.what;
  EXPECT_EQ(fault.pointer, GetParam().pointer) << fault.what;
  EXPECT_EQ(fault.offset, GetParam().offset) << fault.what;
  EXPECT_FALSE(fault.what.empty());
}

std::vector<FaultCase> FaultCases() {
  using enum JsonFaultKind;
  using std::string_literals::operator""s;
  return {
      {"Empty", "", kSyntax, "", 0},
      {"OnlyWhiteSpace", " \n", kSyntax, "", 2},
      {"ByteOrderMark", "\xEF\xBB\xBF{}", kSyntax, "", 0},
      {"TrailingGarbage", "{\"a\":1} x", kSyntax, "", 8},
      {"SecondDocument", "{}{}", kSyntax, "", 2},
      {"TrailingZeroByte", "{}\0"s, kSyntax, "", 2},
      {"ZeroByteThenMore", "1\0 2"s, kSyntax, "", 1},
      {"ZeroByteInArray", "[1,\0]"s, kSyntax, "/1", 3},
      {"ZeroByteInString", "[\"a\0\"]"s, kSyntax, "/0", 3},
      {"ControlCharacterInString", "{\"a\":\"b\n\"}", kSyntax, "/a", 7},
      {"Truncated", "{\"a\":[1,", kSyntax, "/a/1", 8},
      {"TruncatedString", "[\"abc", kSyntax, "/0", 5},
      {"MissingColon", "{\"a\" 1}", kSyntax, "/a", 5},
      {"MissingComma", "[1 \"abc\"]", kSyntax, "", 3},
      {"TrailingCommaInArray", "[1,]", kSyntax, "/1", 3},
      {"TrailingCommaInObject", "{\"a\":1,}", kSyntax, "", 7},
      {"NameIsNumber", "{\"a\":{12:1}}", kSyntax, "/a", 6},
      {"MismatchedBracket", "{\"a\":[1}", kSyntax, "/a", 7},
      {"Comment", "[1,/*x*/2]", kSyntax, "/1", 3},
      {"SingleQuotes", "{'a':1}", kSyntax, "", 1},
      {"NaN", "{\"a\":NaN}", kSyntax, "/a", 5},
      {"Infinity", "[-Infinity]", kSyntax, "/0", 2},
      {"LeadingZero", "[01]", kSyntax, "", 1},
      {"PlusSign", "[+1]", kSyntax, "/0", 1},
      {"BareFraction", "[1.]", kSyntax, "/0", 3},
      {"HexNumber", "[0x10]", kSyntax, "", 2},
      {"BadEscape", "[\"\\x\"]", kSyntax, "/0", 3},
      {"CapitalLiteral", "[True]", kSyntax, "/0", 1},
      {"Overflow", "{\"a\":[0,1e400]}", kNumberRange, "/a/1", 8},
      {"NegativeOverflow", "-1e400", kNumberRange, "", 0},
      {"IntegerOverflow", "[1" + std::string(400, '0') + "]", kNumberRange, "/0", 1},
      {"InexactInteger", "{\"a\":[0,9007199254740993]}", kInexactInteger, "/a/1", 8},
      {"InexactNegativeInteger", "{\"a\": -9007199254740993 }", kInexactInteger, "/a", 6},
      {"LoneHighSurrogate", R"({"a":"\ud800"})", kInvalidText, "/a", 12},
      {"LoneLowSurrogate", R"({"a":"\udc00"})", kInvalidText, "/a", 11},
      {"HighSurrogateThenCharacter", R"(["\ud800\u0041"])", kInvalidText, "/0", 13},
      {"LoneSurrogateInName", R"({"a":{"\ud800":1}})", kInvalidText, "/a", 13},
      {"SurrogateAsUtf8", "[\"\xED\xA0\x80\"]", kInvalidText, "/0", 3},
      {"InvalidUtf8", "[\"\xFF\"]", kInvalidText, "/0", 2},
      {"OverlongUtf8", "[\"\xC0\x80\"]", kInvalidText, "/0", 2},
      {"TruncatedUtf8", "[\"\xE2\x82\"]", kInvalidText, "/0", 4},
      {"Utf8BeyondUnicode", "[\"\xF4\x90\x80\x80\"]", kInvalidText, "/0", 3},
      {"InvalidUtf8InName", "{\"a\xFF\":1}", kInvalidText, "", 3},
      {"InvalidUtf8OutsideOfStrings", "[1,\xFF]", kSyntax, "/1", 3},
      {"DuplicateName", R"({"a":1,"b":2,"a":3})", kDuplicateName, "/a", 13},
      {"AdjacentDuplicateName", R"({"a":1,"a":1})", kDuplicateName, "/a", 7},
      {"EscapedDuplicateName", R"({"x":{"a\"":1,"\u0061\u0022":1}})", kDuplicateName, "/x/a\"", 14},
      {"FirstOfManyDuplicates", R"({"d":1,"d":1,"a":1,"a":1})", kDuplicateName, "/d", 7},
      {"EmptyDuplicateName", R"([{"":1,"":1}])", kDuplicateName, "/0/", 7},
      {"NameNeedsPointerEscape", R"({"a/b~c":[NaN]})", kSyntax, "/a~1b~0c/0", 10},
      {"NameWithLineBreak", R"({"a\nb":[1e999]})", kNumberRange, "/a?b/0", 9},
      {"FaultAfterFinishedMembers", R"({"a":{"b":[1,2]},"c":1e999})", kNumberRange, "/c", 21},
  };
}

INSTANTIATE_TEST_SUITE_P(All, RefusedText, testing::ValuesIn(FaultCases()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(CanonicalizeJsonDepth, AcceptsTheLimitAndRefusesOneMore) {
  const std::string at_limit = Nested("[", 128, "", "]");
  EXPECT_EQ(Canonical(at_limit), at_limit);
  const JsonFault fault = FaultOf(Nested("[", 129, "", "]"));
  EXPECT_EQ(fault.kind, JsonFaultKind::kTooDeep);
  EXPECT_EQ(fault.offset, 128U);
  EXPECT_EQ(FaultOf(R"({"a":[1,{}]})", JsonLimits{.max_depth = 2}).pointer, "/a/1");
  EXPECT_TRUE(CanonicalizeJson("1", JsonLimits{.max_depth = 1}).ok());
  EXPECT_TRUE(CanonicalizeJson("[1]", JsonLimits{.max_depth = 1}).ok());
}

TEST(CanonicalizeJsonDepth, RefusesTenThousandLevelsCleanly) {
  EXPECT_EQ(FaultOf(Nested("[", 10'000, "", "]")).kind, JsonFaultKind::kTooDeep);
  EXPECT_EQ(FaultOf(Nested("[", 10'000, "", "")).kind, JsonFaultKind::kTooDeep);
  EXPECT_EQ(FaultOf(Nested("{\"a\":", 10'000, "1", "}")).kind, JsonFaultKind::kTooDeep);
  EXPECT_EQ(FaultOf(std::string(1 << 20, '[')).kind, JsonFaultKind::kTooDeep);
}

TEST(CanonicalizeJsonDepth, NeedsNoStackWhereTheLimitAllowsMore) {
  const JsonLimits limits{.max_depth = 1'000'000};
  const std::string arrays = Nested("[", 300'000, "", "]");
  const absl::StatusOr<std::string> canonical = CanonicalizeJson(arrays, limits);
  ASSERT_TRUE(canonical.ok());
  EXPECT_TRUE(*canonical == arrays);
  const JsonFault fault = FaultOf(Nested("{\"a\":", 100'000, "NaN", "}"), limits);
  EXPECT_EQ(fault.kind, JsonFaultKind::kSyntax);
  EXPECT_LE(fault.pointer.size(), JsonFault::kMaxFaultPointerBytes);
}

TEST(CanonicalizeJsonDepth, LimitBelowOneIsNoFaultOfTheContent) {
  const absl::Status status = CanonicalizeJson("1", JsonLimits{.max_depth = 0}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(JsonFaultFromStatus(status), std::nullopt);
}

TEST(CanonicalizeJsonSize, SortsAHundredThousandMembers) {
  constexpr int kMembers = 100'000;
  std::vector<std::string> members;
  for (int i = 0; i < kMembers; ++i) members.push_back(absl::StrFormat("\"%06d\":%d", i, i));
  const std::string sorted = absl::StrCat("{", absl::StrJoin(members, ","), "}");
  std::reverse(members.begin(), members.end());
  EXPECT_TRUE(Canonical(absl::StrCat("{", absl::StrJoin(members, ","), "}")) == sorted);
  members.push_back("\"050000\":0");
  const JsonFault fault = FaultOf(absl::StrCat("{", absl::StrJoin(members, ","), "}"));
  EXPECT_EQ(fault.kind, JsonFaultKind::kDuplicateName);
  EXPECT_EQ(fault.pointer, "/050000");
}

TEST(JsonFaultText, NamesPathFaultAndOffsetInTheMessage) {
  const absl::Status status = CanonicalizeJson(R"({"a":[{"b":1,"b":2}]})").status();
  EXPECT_EQ(
      status.message(),
      "content has no canonical JSON form: duplicate member name at path \"/a/0/b\", byte 13");
}

TEST(JsonFaultText, NeverRepeatsContent) {
  for (const char* text : {
           R"({"a":"s3cret)",
           R"({"a":s3cret})",
           R"({"a":"s3cret\q"})",
           R"({"a":"s3cret\ud800"})",
           "{\"a\":\"s3cret\xFF\"}",
           "{\"a\":\"s3cret\n\"}",
           R"({"a":1 "s3cret"})",
           R"({"a":1,"a":"s3cret"})",
           R"({"a":"s3cret"} "s3cret")",
           R"(["s3cret",9007199254740993])",
           R"(["s3cret" "; last read: 's3cret'"])",
           R"(["; last read: 's3cret])",
       }) {
    const absl::Status status = CanonicalizeJson(text).status();
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_FALSE(absl::StrContains(status.ToString(), "s3cret")) << status;
  }
  for (const char* number : {"7777777777777777777777", "77777e7777", "-7777777777777777777"}) {
    EXPECT_FALSE(absl::StrContains(CanonicalizeJson(number).status().ToString(), "777")) << number;
  }
}

TEST(JsonFaultText, CutsLongNamesAtACharacter) {
  std::string name = "x";
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&name, "\u20ac");
  const JsonFault fault = FaultOf(absl::StrCat("{\"", name, "\":NaN}"));
  std::string expected = "/x";
  for (int i = 0; i < 42; ++i) absl::StrAppend(&expected, "\u20ac");  // 127 of 128 bytes
  EXPECT_EQ(fault.pointer, absl::StrCat(expected, "…"));
}

TEST(JsonFaultText, CutsLongPaths) {
  const std::string open = absl::StrCat("{\"", std::string(100, 'n'), "\":");
  const JsonFault fault = FaultOf(Nested(open, 100, "NaN", "}"));
  EXPECT_LE(fault.pointer.size(), JsonFault::kMaxFaultPointerBytes);
  EXPECT_TRUE(absl::EndsWith(fault.pointer, "n…"));
}

TEST(JsonFaultStatus, CarriesTheFault) {
  const JsonFault fault{JsonFaultKind::kTooDeep, "/a/0", 17, "more than 1 levels"};
  EXPECT_EQ(JsonFaultFromStatus(JsonFaultToStatus(fault)), fault);
  EXPECT_EQ(JsonFaultFromStatus(absl::OkStatus()), std::nullopt);
  EXPECT_EQ(JsonFaultFromStatus(absl::InvalidArgumentError("other")), std::nullopt);
}

// ---------------------------------------------------------------------------------------------------
// Excluded members.

TEST(ExcludedMembers, AreRemovedBeforeSorting) {
  const std::string text = R"({"c":3,"sent_at":"now","a":1,"b":2})";
  EXPECT_EQ(Canonical(text, {"/sent_at"}), R"({"a":1,"b":2,"c":3})");
  EXPECT_EQ(Canonical(text, {"/c"}), R"({"a":1,"b":2,"sent_at":"now"})");
  EXPECT_EQ(Canonical(text, {"/b", "/c", "/a", "/sent_at"}), "{}");
  EXPECT_EQ(Canonical(R"({"a":1,"b":{"z":[1]},"c":3})", {"/b"}), R"({"a":1,"c":3})");
  EXPECT_EQ(Canonical(R"({"a":1,"b":2,"c":3})", {"/a", "/c"}), R"({"b":2})");
}

TEST(ExcludedMembers, MayLieDeepAndBehindArrayElements) {
  EXPECT_EQ(Canonical(R"({"meta":{"trace":{"id":1},"kind":"x"},"trace":2})", {"/meta/trace"}),
            R"({"meta":{"kind":"x"},"trace":2})");
  EXPECT_EQ(Canonical(R"({"items":[{"at":1,"n":1},{"at":1,"n":2}]})", {"/items/1/at"}),
            R"({"items":[{"at":1,"n":1},{"n":2}]})");
  EXPECT_EQ(Canonical(R"([[{"at":1}],{"at":2}])", {"/0/0/at", "/1/at"}), "[[{}],{}]");
}

TEST(ExcludedMembers, AreMatchedByUnescapedName) {
  EXPECT_EQ(Canonical(R"({"a/b":1,"m~n":2,"\u0063":3,"":4,"x":5})", {"/a~1b", "/m~0n", "/c", "/"}),
            R"({"x":5})");
}

TEST(ExcludedMembers, ThatAreNotThereChangeNothing) {
  const std::string text = R"({"a":{"b":1},"c":[1,2]})";
  EXPECT_EQ(Canonical(text, {"/x", "/a/x", "/a/b/c", "/c/7/x", "/c/-", "/c/00", "/b"}), text);
  EXPECT_EQ(Canonical("[1]", {"/a"}), "[1]");
  EXPECT_EQ(Canonical("1", {"/a"}), "1");
}

TEST(ExcludedMembers, AreNeverArrayElements) {
  EXPECT_EQ(Canonical(R"({"a":[1,2]})", {"/a/0"}), R"({"a":[1,2]})");
  EXPECT_EQ(Canonical(R"([1,[2]])", {"/1"}), R"([1,[2]])");
}

TEST(ExcludedMembers, MayHoldIntegersThatADoubleCannot) {
  EXPECT_EQ(Canonical(R"({"trace":9007199254740993,"a":1})", {"/trace"}), R"({"a":1})");
  EXPECT_EQ(Canonical(R"({"trace":{"ids":[9007199254740993]},"a":1})", {"/trace"}), R"({"a":1})");
  // What follows the excluded member is judged again.
  EXPECT_EQ(FaultOf(R"({"trace":{"id":1},"a":9007199254740993})", {}, {"/trace"}).pointer, "/a");
  EXPECT_EQ(FaultOf(R"([{"t":1},9007199254740993])", {}, {"/0/t"}).pointer, "/1");
}

TEST(ExcludedMembers, StillHaveToBeIJson) {
  EXPECT_EQ(FaultOf(R"({"t":{"x":1,"x":1}})", {}, {"/t"}).kind, JsonFaultKind::kDuplicateName);
  EXPECT_EQ(FaultOf(R"({"t":1,"t":2})", {}, {"/t"}).kind, JsonFaultKind::kDuplicateName);
  EXPECT_EQ(FaultOf(R"({"t":1e400})", {}, {"/t"}).kind, JsonFaultKind::kNumberRange);
  EXPECT_EQ(FaultOf(R"({"t":"\ud800"})", {}, {"/t"}).pointer, "/t");
}

TEST(ExcludedMembers, PointersAreLimitedInNumber) {
  std::vector<std::string> pointers;
  for (int i = 0; i < 64; ++i) pointers.push_back(absl::StrCat("/", i));
  EXPECT_EQ(Canonical(R"({"0":1,"63":1,"64":1})", pointers), R"({"64":1})");
  pointers.emplace_back("/64");
  const absl::Status status = CanonicalizeJson("{}", {}, pointers).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(JsonFaultFromStatus(status), std::nullopt);
}

TEST(ExcludedMembers, MalformedPointersAreNoFaultOfTheContent) {
  for (const char* pointer : {"", "a", "/a~", "/a~2", "#/a"}) {
    const std::vector<std::string> pointers = {pointer};
    const absl::Status status = CanonicalizeJson("{}", {}, pointers).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << pointer;
    EXPECT_EQ(JsonFaultFromStatus(status), std::nullopt) << pointer;
    EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat("\"", pointer, "\"")));
  }
}

// ---------------------------------------------------------------------------------------------------
// Properties.

// A JSON document as a value; `scalar` is the text of a leaf that is not a string.
struct Node {
  enum class Kind { kScalar, kString, kArray, kObject };
  Kind kind = Kind::kScalar;
  std::string scalar;
  std::string string;
  std::vector<Node> elements;
  std::map<std::string, Node> members;
};

// Writes `node` as JSON with white space, member order and escapes picked by `random`.
class Speller {
 public:
  explicit Speller(std::uint32_t seed) : random_(seed) {}

  std::string Spell(const Node& node) {
    Value(node);
    return text_;
  }

 private:
  void Space() {
    static constexpr const char* kSpaces[] = {"", "", "", " ", "\n", "\t ", "\r\n"};
    text_ += kSpaces[random_() % std::size(kSpaces)];
  }

  void String(const std::string& value) {
    text_ += '"';
    for (const char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20 || c == '"' || c == '\\' || (byte < 0x80 && random_() % 8 == 0)) {
        const std::string hex = absl::StrFormat("%04x", byte);
        absl::StrAppend(&text_, "\\u", random_() % 2 == 0 ? hex : absl::AsciiStrToUpper(hex));
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  void Value(const Node& node) {
    Space();
    switch (node.kind) {
      case Node::Kind::kScalar:
        text_ += node.scalar;
        break;
      case Node::Kind::kString:
        String(node.string);
        break;
      case Node::Kind::kArray:
        Array(node);
        break;
      case Node::Kind::kObject:
        Object(node);
        break;
    }
    Space();
  }

  void Array(const Node& node) {
    text_ += '[';
    for (std::size_t i = 0; i < node.elements.size(); ++i) {
      if (i > 0) text_ += ',';
      Value(node.elements[i]);
    }
    text_ += ']';
  }

  void Object(const Node& node) {
    std::vector<const std::pair<const std::string, Node>*> members;
    for (const auto& member : node.members) members.push_back(&member);
    std::shuffle(members.begin(), members.end(), random_);
    text_ += '{';
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (i > 0) text_ += ',';
      Space();
      String(members[i]->first);
      Space();
      text_ += ':';
      Value(members[i]->second);
    }
    text_ += '}';
  }

  std::mt19937 random_;
  std::string text_;
};

// Any spelling of `node`; a failing property prints it.
std::string Spelled(const Node& node, std::uint32_t seed) {
  std::string text = Speller(seed).Spell(node);
  RC_LOG() << text << "\n";
  return text;
}

rc::Gen<std::string> AnyText() {
  return rc::gen::map(
      rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(std::vector<std::string>{
          "a", "b", "~", "/", "\"", "\\", "\n", "\u0001", "\u007f", "\u00e9", "\u20ac", "\uD7FF",
          "\uE000", "\uFB33", "\uFFFD", "\U0001F600", "\U0010FFFF"})),
      [](const std::vector<std::string>& parts) { return absl::StrJoin(parts, ""); });
}

rc::Gen<std::string> AnyScalar() {
  return rc::gen::oneOf(
      rc::gen::elementOf(std::vector<std::string>{"null", "true", "false", "-0", "1e21", "1E-7",
                                                  "0.10", "9007199254740992"}),
      rc::gen::map(rc::gen::arbitrary<std::int32_t>(),
                   [](int value) { return absl::StrCat(value); }),
      rc::gen::map(rc::gen::arbitrary<std::uint64_t>(), [](std::uint64_t bits) {
        const auto value = std::bit_cast<double>(bits);
        return std::isfinite(value) ? absl::StrFormat("%.17e", value) : std::string("0");
      }));
}

Node AnyNode(int depth) {
  Node node;
  const int kind = *rc::gen::inRange(0, depth > 0 ? 4 : 2);
  node.kind = static_cast<Node::Kind>(kind);
  switch (node.kind) {
    case Node::Kind::kScalar:
      node.scalar = *AnyScalar();
      break;
    case Node::Kind::kString:
      node.string = *AnyText();
      break;
    case Node::Kind::kArray:
      for (int i = *rc::gen::inRange(0, 5); i > 0; --i) node.elements.push_back(AnyNode(depth - 1));
      break;
    case Node::Kind::kObject:
      for (int i = *rc::gen::inRange(0, 7); i > 0; --i)
        node.members[*AnyText()] = AnyNode(depth - 1);
      break;
  }
  return node;
}

Node AnyObject() {
  Node node;
  node.kind = Node::Kind::kObject;
  for (int i = *rc::gen::inRange(1, 7); i > 0; --i) node.members[*AnyText()] = AnyNode(3);
  return node;
}

RC_GTEST_PROP(CanonicalFormProperty, DoesNotDependOnOrderWhiteSpaceOrEscapes,
              (std::uint32_t one, std::uint32_t other)) {
  const Node node = AnyNode(4);
  const std::string canonical = Canonical(Spelled(node, one));
  RC_ASSERT(!absl::StartsWith(canonical, "refused"));
  RC_ASSERT(Canonical(Spelled(node, other)) == canonical);
}

RC_GTEST_PROP(CanonicalFormProperty, IsAFixedPoint, (std::uint32_t seed)) {
  const std::string canonical = Canonical(Spelled(AnyNode(4), seed));
  RC_ASSERT(Canonical(canonical) == canonical);
}

RC_GTEST_PROP(CanonicalFormProperty, HasTheSameValue, (std::uint32_t seed)) {
  const std::string text = Spelled(AnyNode(4), seed);
  RC_ASSERT(nlohmann::json::parse(Canonical(text)) == nlohmann::json::parse(text));
}

// Names of up to two bytes of UTF-16 ("\uXXXX" twice), compared with char16_t as the reference.
RC_GTEST_PROP(CanonicalFormProperty, OrdersNamesAsUtf16Does, (std::uint32_t seed)) {
  const auto units = *rc::gen::container<std::vector<std::pair<char16_t, char16_t>>>(
      rc::gen::pair(rc::gen::inRange<char16_t>(0x20, 0xFFFF), rc::gen::inRange<char16_t>(0, 2)));
  std::map<std::u16string, std::string> escaped;  // UTF-16 order
  for (auto [unit, plane] : units) {
    std::u16string name;
    if (unit >= 0xD800 && unit <= 0xDFFF) unit = 0xE000;
    if (plane == 0) {
      name = {unit};
    } else {
      name = {static_cast<char16_t>(0xD800 + unit % 0x400),
              static_cast<char16_t>(0xDC00 + unit / 64)};
    }
    std::string text;
    for (const char16_t u : name) absl::StrAppendFormat(&text, "\\u%04x", static_cast<unsigned>(u));
    escaped[name] = text;
  }
  std::vector<std::string> members;
  int rank = 0;
  for (const auto& [name, text] : escaped) {
    members.push_back(absl::StrCat("\"", text, "\":", rank++));
  }
  std::shuffle(members.begin(), members.end(), std::mt19937(seed));
  const std::string canonical = Canonical(absl::StrCat("{", absl::StrJoin(members, ","), "}"));
  int expected = 0;
  const auto count_up = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::value) RC_ASSERT(value == expected++);
    return true;
  };
  RC_ASSERT(!nlohmann::json::parse(canonical, count_up).is_discarded());
  RC_ASSERT(expected == static_cast<int>(escaped.size()));
}

RC_GTEST_PROP(ExcludedMembersProperty, LookAsIfTheyHadNeverBeenThere, (std::uint32_t seed)) {
  Node node = AnyObject();
  const std::string with_all = Spelled(node, seed);
  // Walk down to some member, removing it from the value and naming it by pointer.
  std::string pointer;
  Node* at = &node;
  while (true) {
    const auto index = *rc::gen::inRange<std::size_t>(0, at->members.size());
    const auto member = std::next(at->members.begin(), static_cast<std::ptrdiff_t>(index));
    std::string token = member->first;
    token = absl::StrJoin(absl::StrSplit(token, '~'), "~0");
    token = absl::StrJoin(absl::StrSplit(token, '/'), "~1");
    absl::StrAppend(&pointer, "/", token);
    if (!member->second.members.empty() && *rc::gen::arbitrary<bool>()) {
      at = &member->second;
      continue;
    }
    at->members.erase(member);
    break;
  }
  RC_ASSERT(Canonical(with_all, {pointer}) == Canonical(Spelled(node, seed + 1)));
}

RC_GTEST_PROP(DamagedTextProperty, IsRefusedOrCanonicalisedNeverHalfway, (std::uint32_t seed)) {
  std::mt19937 random(seed);
  std::string text = Spelled(AnyObject(), seed);
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
    static constexpr absl::string_view kBytes("{}[]\",:\\u0-1e.\xFF\xED\0\xEF\n", 20);
    text[random() % text.size()] = kBytes[random() % kBytes.size()];
  }
  const absl::StatusOr<std::string> canonical = CanonicalizeJson(text);
  if (canonical.ok()) {
    RC_ASSERT(nlohmann::json::accept(text));
    RC_ASSERT(Canonical(*canonical) == *canonical);
  } else {
    const std::optional<JsonFault> fault = JsonFaultFromStatus(canonical.status());
    RC_ASSERT(fault.has_value());
    RC_ASSERT(fault->offset <= text.size());
  }
}

}  // namespace
}  // namespace once::core
