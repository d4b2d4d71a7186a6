#include "core/content_digest.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/json_fault.h"
#include "nlohmann/json.hpp"

namespace once::core {
namespace {

std::string Hex(const absl::StatusOr<Digest>& digest) {
  if (!digest.ok()) return std::string(digest.status().message());
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(digest->sha256.data()), digest->sha256.size()));
}

std::string Raw(absl::string_view content) {
  return Hex(DigestContent(DigestScheme::kRawSha256, content));
}

std::string Json(absl::string_view content, const std::vector<std::string>& excluded = {}) {
  return Hex(DigestContent(DigestScheme::kJsonJcsSha256, content, excluded));
}

TEST(ContentDigest, RawIsSha256OfTheBytes) {
  EXPECT_EQ(Raw(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Raw("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Raw(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(ContentDigest, RawTellsEverySpellingApart) {
  EXPECT_NE(Raw(R"({"a":1,"b":2})"), Raw(R"({"b":2,"a":1})"));
  EXPECT_NE(Raw("[1,2]"), Raw("[1, 2]"));
  EXPECT_NE(Raw("[1,2]"), Raw("[2,1]"));
  EXPECT_NE(Raw("1"), Raw("1.0"));
  EXPECT_NE(Raw("a"), Raw(absl::string_view("a\0", 2)));
}

TEST(ContentDigest, RawTakesBytesThatAreNoJson) {
  EXPECT_TRUE(DigestContent(DigestScheme::kRawSha256, "\xFF{").ok());
}

TEST(ContentDigest, JsonIgnoresMemberOrderAndWhiteSpaceButNotElementOrder) {
  EXPECT_EQ(Json(R"({"a":1,"b":2})"), Json("{ \"b\": 2,\n\"a\": 1 }"));
  EXPECT_EQ(Json("[1,2]"), Json("[1, 2]"));
  EXPECT_NE(Json("[1,2]"), Json("[2,1]"));
  EXPECT_EQ(Json("1"), Json("1.0"));
  EXPECT_EQ(Json("1"), Json("1e0"));
}

TEST(ContentDigest, JsonIsSha256OfTheCanonicalForm) {
  EXPECT_EQ(Json("{ \"b\" : 1.0, \"a\" : \"\\u20ac\" }"), Raw("{\"a\":\"\u20ac\",\"b\":1}"));
}

TEST(ContentDigest, JsonLeavesExcludedMembersOut) {
  EXPECT_EQ(Json(R"({"amount":5,"sent_at":"10:00"})", {"/sent_at"}),
            Json(R"({"sent_at":"10:05","amount":5.0})", {"/sent_at"}));
  EXPECT_EQ(Json(R"({"amount":5,"sent_at":"10:00"})", {"/sent_at"}), Json(R"({"amount":5})"));
  EXPECT_NE(Json(R"({"amount":5,"sent_at":"10:00"})", {"/sent_at"}),
            Json(R"({"amount":6,"sent_at":"10:00"})", {"/sent_at"}));
}

TEST(ContentDigest, RawIgnoresExcludedMembers) {
  const std::vector<std::string> excluded = {"/a"};
  EXPECT_EQ(Hex(DigestContent(DigestScheme::kRawSha256, R"({"a":1})", excluded)),
            Raw(R"({"a":1})"));
}

TEST(ContentDigest, CarriesItsSchemeSoThatSchemesNeverCompareEqual) {
  const absl::StatusOr<Digest> raw = DigestContent(DigestScheme::kRawSha256, "1");
  const absl::StatusOr<Digest> json = DigestContent(DigestScheme::kJsonJcsSha256, "1");
  ASSERT_TRUE(raw.ok());
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(raw->sha256, json->sha256);
  EXPECT_NE(*raw, *json);
}

TEST(ContentDigest, RefusesWhatHasNoCanonicalFormWithThePath) {
  const absl::Status status =
      DigestContent(DigestScheme::kJsonJcsSha256, R"({"a":[9007199254740993]})").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::optional<JsonFault> fault = JsonFaultFromStatus(status);
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->kind, JsonFaultKind::kInexactInteger);
  EXPECT_EQ(fault->pointer, "/a/0");
}

TEST(ContentDigest, HonoursTheDepthLimit) {
  const JsonLimits limits{.max_depth = 2};
  EXPECT_TRUE(DigestContent(DigestScheme::kJsonJcsSha256, "[[1]]", {}, limits).ok());
  EXPECT_FALSE(DigestContent(DigestScheme::kJsonJcsSha256, "[[[1]]]", {}, limits).ok());
}

TEST(ContentDigest, RefusesAnUnknownSchemeWithoutBlamingTheContent) {
  const absl::Status status = DigestContent(static_cast<DigestScheme>(99), "1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(JsonFaultFromStatus(status), std::nullopt);
}

TEST(ContentDigest, AgreesWithEveryGeneratedVector) {
  std::ifstream file(absl::StrCat(ONCE_SOURCE_DIR, "/tests/vectors/jcs/generated/documents.jsonl"));
  ASSERT_TRUE(file.is_open());
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const nlohmann::json vector = nlohmann::json::parse(line);
    EXPECT_EQ(Json(vector.at("input").get<std::string>()), vector.at("sha256").get<std::string>());
  }
  EXPECT_EQ(count, 300);
}

}  // namespace
}  // namespace once::core
