#include "app/log_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace once::app {
namespace {

std::string Json(absl::string_view message, const LogFields& fields) {
  return RenderRecord(LogFormat::kJson, message, fields);
}

std::string Text(absl::string_view message, const LogFields& fields) {
  return RenderRecord(LogFormat::kText, message, fields);
}

// A number as JSON shows it.
std::string Number(double value) {
  const std::string record = Json("m", {{"n", value}});
  const size_t start = record.find("\"n\":") + 4;
  return record.substr(start, record.size() - 1 - start);
}

const std::vector<LogCount>& Counts() {
  static const auto& counts = *new std::vector<LogCount>{{"granted", 2}, {"INVALID_FIELD", 1}};
  return counts;
}

TEST(LogFields, EveryKindOfValueInOrder) {
  const std::string name = "x y";
  const std::vector<std::string> list = {"a", "b\n"};
  const LogFields fields = {{"text", name},
                            {"word", "word"},
                            {"int", -3},
                            {"size", size_t{7}},
                            {"big", std::numeric_limits<int64_t>::min()},
                            {"real", 1.5},
                            {"yes", true},
                            {"no", false},
                            {"list", list},
                            {"counts", absl::MakeConstSpan(Counts())}};
  EXPECT_EQ(Json("call", fields),
            R"("message":"call","text":"x y","word":"word","int":-3,"size":7,)"
            R"("big":-9223372036854775808,"real":1.5,"yes":true,"no":false,)"
            R"("list":["a","b\n"],"counts":{"granted":2,"INVALID_FIELD":1}})");
  EXPECT_EQ(Text("call", fields),
            R"(call text="x y" word=word int=-3 size=7 big=-9223372036854775808 real=1.5 yes=true )"
            R"(no=false list=["a","b\n"] counts={"granted":2,"INVALID_FIELD":1})");
}

TEST(LogFields, NoFieldsAndNothingInThem) {
  EXPECT_EQ(Json("m", {}), R"("message":"m"})");
  EXPECT_EQ(Text("m", {}), "m");
  const std::vector<std::string> list;
  const LogFields empty = {{"text", ""}, {"list", list}, {"counts", absl::Span<const LogCount>()}};
  EXPECT_EQ(Json("", empty), R"("message":"","text":"","list":[],"counts":{}})");
  EXPECT_EQ(Text("m", empty), R"(m text="" list=[] counts={})");
}

TEST(LogFields, EveryByteIsEscapedAsTheJsonLibraryDoes) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string value = absl::StrCat("a", std::string(1, static_cast<char>(byte)), "b");
    const std::string dumped =
        nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    EXPECT_EQ(Json(value, {{"v", value}}),
              absl::StrCat("\"message\":", dumped, ",\"v\":", dumped, "}"));
  }
}

TEST(LogFields, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(Json("m", {{"v", "\xff \xc3("}}), "\"message\":\"m\",\"v\":\"\uFFFD \uFFFD(\"}");
  EXPECT_EQ(Text("bad \xff", {{"v", "\xff"}}), "bad \uFFFD v=\"\uFFFD\"");
  EXPECT_EQ(Text("gr\u00fc\u00df", {{"v", "gr\u00fc\u00df"}}),
            "gr\u00fc\u00df v=\"gr\u00fc\u00df\"");
}

TEST(LogFields, NothingEndsATextLineOrFakesAValue) {
  EXPECT_EQ(Text("a\nb\r\x7f\"q\\", {}), "a b  \"q\\");
  EXPECT_EQ(Text("m", {{"v", "x\ny=1"}}), R"(m v="x\ny=1")");
  EXPECT_EQ(Text("m", {{"v", "x y=1"}}), R"(m v="x y=1")");
  EXPECT_EQ(Text("m", {{"v", "y=1"}}), R"(m v="y=1")");
  EXPECT_EQ(Text("m", {{"v", "\"x"}}), R"(m v="\"x")");
  EXPECT_EQ(Text("m", {{"v", "back\\slash"}}), R"(m v=back\slash)");
}

TEST(LogFields, RealNumbersLookAsTheJsonLibraryWritesThem) {
  EXPECT_EQ(Number(1.234), "1.234");
  EXPECT_EQ(Number(0.001), "0.001");
  EXPECT_EQ(Number(100000), "100000.0");
  for (double value :
       {0.0, -0.0, 1.0, -2.5, 1e-4, 9.9e-5, 1e-7, 123456.789, 1e14, 999999999999999.0, 1e15, 1e16,
        1e300, 5e-324, std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(Number(value), nlohmann::json(value).dump());
  }
  for (int us = 0; us < 50'000; ++us) {  // latencies
    const double value = us / 1000.0;
    ASSERT_EQ(Number(value), nlohmann::json(value).dump());
  }
}

}  // namespace
}  // namespace once::app
