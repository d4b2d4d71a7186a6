#include "rpc/call_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace once::rpc {
namespace {

using ::testing::Eq;
using ::testing::Optional;

// Owns what gRPC would own.
class Metadata {
 public:
  Metadata(std::initializer_list<std::pair<std::string, std::string>> values) : values_(values) {
    for (const auto& [key, value] : values_) {
      map_.emplace(grpc::string_ref(key), grpc::string_ref(value.data(), value.size()));
    }
  }
  const CallMetadata& map() const { return map_; }

 private:
  std::vector<std::pair<std::string, std::string>> values_;
  CallMetadata map_;
};

std::optional<std::string> TokenIn(const Metadata& metadata) {
  const auto token = BearerToken(metadata.map());
  return token.has_value() ? std::optional<std::string>(*token) : std::nullopt;
}

TEST(BearerTokenTest, IsWhatFollowsTheScheme) {
  EXPECT_THAT(TokenIn({{"authorization", "Bearer once_x"}}), Optional(Eq("once_x")));
}

TEST(BearerTokenTest, SchemeIsComparedWithoutCase) {
  for (const char* scheme : {"bearer", "BEARER", "bEaReR"}) {
    EXPECT_THAT(TokenIn({{"authorization", std::string(scheme) + " t"}}), Optional(Eq("t")));
  }
}

TEST(BearerTokenTest, SpacesBeforeTheTokenAreSkipped) {
  EXPECT_THAT(TokenIn({{"authorization", "Bearer   t"}}), Optional(Eq("t")));
}

TEST(BearerTokenTest, NeedsExactlyOneValue) {
  EXPECT_EQ(TokenIn({}), std::nullopt);
  EXPECT_EQ(TokenIn({{"authorization", "Bearer t"}, {"authorization", "Bearer t"}}), std::nullopt);
  EXPECT_EQ(TokenIn({{"authorization", "Bearer t"}, {"authorization", ""}}), std::nullopt);
  EXPECT_EQ(TokenIn({{"x-authorization", "Bearer t"}}), std::nullopt);
}

TEST(BearerTokenTest, RefusesOtherSchemesAndEmptyTokens) {
  for (const char* value : {"", "Bearer", "Bearer ", "Bearer    ", "Basic dTpw", "Bearert",
                            " Bearer t", "once_x", "Bearer\tt"}) {
    EXPECT_EQ(TokenIn({{"authorization", value}}), std::nullopt) << value;
  }
}

TEST(BearerTokenTest, RefusesAnythingButVisibleAscii) {
  const std::vector<std::string> tokens = {"t t",   "t\t",   "t ",         "t\n",
                                           "t\x7f", "t\xff", "t\xc3\xa9x", std::string("t\0x", 3)};
  for (const std::string& token : tokens) {
    EXPECT_EQ(TokenIn({{"authorization", "Bearer " + token}}), std::nullopt) << token;
  }
}

TEST(BearerTokenTest, EightKibibytesAreTheLimit) {
  const std::string limit(8192 - 7, 't');
  EXPECT_THAT(TokenIn({{"authorization", "Bearer " + limit}}), Optional(Eq(limit)));
  EXPECT_EQ(TokenIn({{"authorization", "Bearer t" + limit}}), std::nullopt);
}

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";

std::string TraceIn(const std::string& value) {
  return TraceId(Metadata({{"traceparent", value}}).map());
}

TEST(TraceIdTest, IsReadFromAValidTraceparent) {
  EXPECT_EQ(TraceIn("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), kTrace);
  EXPECT_EQ(TraceIn("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what.is.new"), kTrace);
  EXPECT_EQ(TraceIn("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), kTrace);
}

TEST(TraceIdTest, IsEmptyForAnythingElse) {
  for (const char* value : {
           "",
           "00",
           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
           "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
           "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
           "00-4bf92f3577b34da6a3ce929d0e0e473\n-00f067aa0ba902b7-01",
       }) {
    EXPECT_EQ(TraceIn(value), "") << value;
  }
}

TEST(TraceIdTest, IsEmptyWhereTwoDisagree) {
  const Metadata metadata(
      {{"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
       {"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-01"}});
  EXPECT_EQ(TraceId(metadata.map()), "");
}

}  // namespace
}  // namespace once::rpc
