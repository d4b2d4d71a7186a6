#include "app/values.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace once::app {
namespace {

TEST(ParseBytes, TakesDigitsAndBinaryUnits) {
  EXPECT_EQ(ParseBytes("0"), 0);
  EXPECT_EQ(ParseBytes("4096"), 4096);
  EXPECT_EQ(ParseBytes("64KiB"), 64 << 10);
  EXPECT_EQ(ParseBytes("4MiB"), 4 << 20);
  EXPECT_EQ(ParseBytes("2GiB"), int64_t{2} << 30);
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "MiB", "-1", "+1", " 1", "1 MiB", "1.5MiB", "1MB", "1k", "0x10",
                           "9223372036854775808", "9007199254740993GiB"}) {
    EXPECT_EQ(ParseBytes(text), std::nullopt) << text;
  }
}

TEST(BytesText, RoundTrips) {
  for (int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1023}, int64_t{1024}, int64_t{1} << 20,
                        int64_t{3} << 30, (int64_t{1} << 20) + 1}) {
    EXPECT_EQ(ParseBytes(BytesText(bytes)), bytes);
  }
  EXPECT_EQ(BytesText(4 << 20), "4MiB");
}

TEST(ParseDuration, NeedsAUnitAndAFiniteValue) {
  EXPECT_EQ(ParseDuration("1h30m"), absl::Minutes(90));
  EXPECT_EQ(ParseDuration("1.5s"), absl::Milliseconds(1500));
  EXPECT_EQ(ParseDuration("0"), absl::ZeroDuration());
  for (const char* text : {"", "30", "-1s", "inf", "1 day", "1d"}) {
    EXPECT_EQ(ParseDuration(text), std::nullopt) << text;
  }
}

TEST(ParseHostPort, TakesNamesAddressesAndBrackets) {
  const std::optional<HostPort> v4 = ParseHostPort("127.0.0.1:7447");
  ASSERT_TRUE(v4.has_value());
  EXPECT_EQ(v4->host, "127.0.0.1");
  EXPECT_EQ(v4->port, 7447);
  const std::optional<HostPort> v6 = ParseHostPort("[::1]:0");
  ASSERT_TRUE(v6.has_value());
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(HostPortText(*v6), "[::1]:0");
  EXPECT_EQ(ParseHostPort("db.example:65535")->port, 65535);
}

TEST(ParseHostPort, RefusesTheRest) {
  for (const char* text :
       {"", ":7447", "localhost", "localhost:", "localhost:65536", "localhost:-1", "localhost:x",
        "::1:7447", "[::1:7447", "[nonsense]:1", "a b:1", "http://localhost:1"}) {
    EXPECT_FALSE(ParseHostPort(text).has_value()) << text;
  }
}

TEST(IsLoopback, KnowsTheWholeBlockAndNothingElse) {
  for (const char* host : {"127.0.0.1", "127.8.9.10", "::1", "localhost"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "localhost.example", "128.0.0.1", ""}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace once::app
