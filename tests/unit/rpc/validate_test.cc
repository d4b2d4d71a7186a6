#include "rpc/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "unit/rpc/status_matchers.h"

namespace once::rpc {
namespace {

using ::once::testing::HasMetadata;
using ::once::testing::IsInvalid;
using ::once::testing::IsOk;
using ::testing::AllOf;

google::protobuf::Duration Proto(int64_t seconds, int32_t nanos = 0) {
  google::protobuf::Duration duration;
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
  return duration;
}

TEST(FieldTest, NamesItsItem) {
  EXPECT_EQ(Field("lease").Text(), "lease");
  EXPECT_EQ(FieldPath().To("lease").Text(), "lease");
  EXPECT_EQ(FieldPath::OfItem(3).To("content.data").Text(), "requests[3].content.data");
}

TEST(CheckNameTest, TakesTheAlphabetAndNothingElse) {
  const std::string alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/-";
  for (int byte = 0; byte < 256; ++byte) {
    const std::string name(1, static_cast<char>(byte));
    EXPECT_EQ(CheckName(Field("handler"), name, 128).ok(),
              alphabet.find(static_cast<char>(byte)) != std::string::npos)
        << byte;
  }
  EXPECT_THAT(CheckName(Field("handler"), "points grant", 128),
              AllOf(IsInvalid("handler has a byte outside [A-Za-z0-9._:/-] at offset 6"),
                    HasMetadata("field", "handler"), HasMetadata("offset", "6")));
}

TEST(CheckNameTest, NamesTheLimit) {
  EXPECT_THAT(CheckName(Field("handler"), std::string(128, 'a'), 128), IsOk());
  EXPECT_THAT(CheckName(Field("handler"), std::string(129, 'a'), 128),
              AllOf(IsInvalid("handler is 129 bytes; the limit is 128"), HasMetadata("size", "129"),
                    HasMetadata("limit", "128")));
  EXPECT_THAT(CheckName(Field("handler"), "", 128),
              IsInvalid("handler is empty; it needs 1 to 128 bytes of [A-Za-z0-9._:/-]"));
}

TEST(CheckNotEmptyTest, TakesAnyBytes) {
  EXPECT_THAT(CheckNotEmpty(Field("event_id"), std::string(1, '\0'), 255), IsOk());
  EXPECT_THAT(CheckNotEmpty(Field("event_id"), std::string(255, '\xff'), 255), IsOk());
  EXPECT_THAT(CheckNotEmpty(Field("event_id"), std::string(256, 'x'), 255),
              IsInvalid("event_id is 256 bytes; the limit is 255"));
  EXPECT_THAT(CheckNotEmpty(Field("event_id"), "", 255),
              IsInvalid("event_id is empty; it needs 1 to 255 bytes"));
}

TEST(CheckHandlerPatternTest, TakesNamesAndPrefixes) {
  const Field field("handler_patterns[0]");
  for (const char* good : {"*", "a", "a.*", "points.grant"}) {
    EXPECT_THAT(CheckHandlerPattern(field, good), IsOk()) << good;
  }
  for (const char* bad : {"", "**", "*.a", "a*b", "a b", "a b*"}) {
    EXPECT_FALSE(CheckHandlerPattern(field, bad).ok()) << bad;
  }
  EXPECT_THAT(CheckHandlerPattern(field, std::string(128, 'a') + "*"), IsOk());
  EXPECT_THAT(CheckHandlerPattern(field, std::string(129, 'a') + "*"),
              IsInvalid("handler_patterns[0] is 130 bytes; the limit is 129"));
  EXPECT_THAT(CheckHandlerPattern(field, std::string(129, 'a')),
              IsInvalid("handler_patterns[0] is 129 bytes; the limit is 128"));
}

TEST(ParseAttemptIdTest, NeedsSixteenBytesThatAreNotAllZero) {
  const auto id = ParseAttemptId(Field("attempt_id"), std::string(15, '\0') + "\x01");
  ASSERT_THAT(id, IsOk());
  EXPECT_EQ(id->bytes[15], 1);
  EXPECT_THAT(ParseAttemptId(Field("attempt_id"), std::string(15, 'a')),
              IsInvalid("attempt_id is 15 bytes; it needs exactly 16"));
  EXPECT_THAT(ParseAttemptId(Field("attempt_id"), std::string(17, 'a')),
              IsInvalid("attempt_id is 17 bytes; it needs exactly 16"));
  EXPECT_THAT(ParseAttemptId(Field("attempt_id"), ""),
              IsInvalid("attempt_id is 0 bytes; it needs exactly 16"));
  EXPECT_THAT(ParseAttemptId(Field("attempt_id"), std::string(16, '\0')),
              IsInvalid("attempt_id is all zero; make a random one for each logical try"));
}

TEST(ParseFenceTest, IsAboveZero) {
  EXPECT_EQ(ParseFence(Field("fence"), 1)->value, 1);
  EXPECT_FALSE(ParseFence(Field("fence"), 0).ok());
  EXPECT_THAT(ParseFence(Field("fence"), -1),
              IsInvalid("fence is -1; send the one that was granted"));
}

TEST(ParseLeaseTest, ZeroIsTheDefault) {
  const core::LeaseRange limits = core::LeaseRangeOf(core::Limits());
  EXPECT_EQ(*ParseLease(Field("lease"), Proto(0), limits), absl::Seconds(30));
}

TEST(ParseLeaseTest, RefusesValuesOutsideItsLimits) {
  const core::LeaseRange limits = core::LeaseRangeOf(core::Limits());
  EXPECT_EQ(*ParseLease(Field("lease"), Proto(0, 100'000'000), limits), absl::Milliseconds(100));
  EXPECT_EQ(*ParseLease(Field("lease"), Proto(86'400), limits), absl::Hours(24));
  EXPECT_THAT(ParseLease(Field("lease"), Proto(0, 99'999'999), limits),
              AllOf(IsInvalid("lease is 99.999999ms; the minimum is 100ms"),
                    HasMetadata("value", "99.999999ms"), HasMetadata("limit", "100ms")));
  EXPECT_THAT(ParseLease(Field("lease"), Proto(86'400, 1), limits),
              IsInvalid("lease is 24h0.000000001s; the limit is 24h"));
  EXPECT_THAT(ParseLease(Field("lease"), Proto(-1), limits),
              IsInvalid("lease is -1s; the minimum is 100ms"));
  EXPECT_THAT(ParseLease(Field("lease"), Proto(0, -1), limits),
              IsInvalid("lease is -1ns; the minimum is 100ms"));
  EXPECT_FALSE(ParseLease(Field("lease"), Proto(std::numeric_limits<int64_t>::max()), limits).ok());
  EXPECT_FALSE(ParseLease(Field("lease"), Proto(std::numeric_limits<int64_t>::min()), limits).ok());
  EXPECT_FALSE(
      ParseLease(Field("lease"), Proto(std::numeric_limits<int64_t>::max(), 999'999'999), limits)
          .ok());
}

TEST(ParseDurationTest, RefusesWhatIsNoDuration) {
  for (const auto& bad : {Proto(1, -1), Proto(-1, 1), Proto(0, 1'000'000'000),
                          Proto(0, -1'000'000'000), Proto(5, std::numeric_limits<int32_t>::max()),
                          Proto(-5, std::numeric_limits<int32_t>::min())}) {
    EXPECT_FALSE(
        ParseDuration(Field("wait"), bad, -absl::InfiniteDuration(), absl::InfiniteDuration()).ok())
        << bad.ShortDebugString();
  }
  EXPECT_THAT(
      ParseDuration(FieldPath::OfItem(7).To("wait"), Proto(1, -1), absl::ZeroDuration(),
                    absl::Seconds(60)),
      IsInvalid("requests[7].wait is no valid duration: nanos are out of range or differ in "
                "sign from seconds"));
}

TEST(ParsePageSizeTest, ZeroIsTheDefaultAndTheLimitIsNamed) {
  const core::Limits limits;
  EXPECT_EQ(*ParsePageSize(Field("page_size"), 0, limits), 100);
  EXPECT_EQ(*ParsePageSize(Field("page_size"), 1, limits), 1);
  EXPECT_EQ(*ParsePageSize(Field("page_size"), 1000, limits), 1000);
  EXPECT_THAT(ParsePageSize(Field("page_size"), 1001, limits),
              IsInvalid("page_size is 1001; the limit is 1000, 0 means 100"));
  EXPECT_FALSE(ParsePageSize(Field("page_size"), -1, limits).ok());
}

}  // namespace
}  // namespace once::rpc
