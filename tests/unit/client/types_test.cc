#include "once/types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/time/clock.h"
#include "status_matchers.h"

namespace once {
namespace {

using testing_support::HasCode;

TEST(AttemptIdTest, GeneratedIdsDifferAndAreVersionSevenUuids) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const AttemptId id = AttemptId::Generate();
    EXPECT_EQ(id.bytes[6] >> 4, 7);
    EXPECT_EQ(id.bytes[8] >> 6, 2);
    seen.insert(id.ToString());
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(AttemptIdTest, GeneratedIdStartsWithTheTimeSoThatIdsSort) {
  const auto before = static_cast<uint64_t>(absl::ToUnixMillis(absl::Now()));
  const AttemptId id = AttemptId::Generate();
  const auto after = static_cast<uint64_t>(absl::ToUnixMillis(absl::Now()));
  uint64_t millis = 0;
  for (size_t i = 0; i < 6; ++i) millis = millis << 8 | id.bytes[i];
  EXPECT_GE(millis, before);
  EXPECT_LE(millis, after);
}

TEST(AttemptIdTest, TextFormReadsBackWithAndWithoutHyphensAndInEitherCase) {
  const AttemptId id = AttemptId::Generate();
  EXPECT_EQ(*AttemptId::Parse(id.ToString()), id);
  const auto upper = AttemptId::Parse("018F0C3E7B2A7CC1A2B3C4D5E6F70819");
  ASSERT_TRUE(upper.ok());
  EXPECT_EQ(upper->ToString(), "018f0c3e-7b2a-7cc1-a2b3-c4d5e6f70819");
}

TEST(AttemptIdTest, OtherTextIsRefusedWithoutRepeatingIt) {
  for (const std::string text :
       {"", "018f0c3e", "018f0c3e-7b2a-7cc1-a2b3-c4d5e6f7081g",
        "018f0c3e-7b2a-7cc1-a2b3-c4d5e6f708199", "018f0c3e7b2a-7cc1-a2b3-c4d5-e6f70819",
        "zz8f0c3e7b2a7cc1a2b3c4d5e6f70819"}) {
    const auto id = AttemptId::Parse(text);
    EXPECT_THAT(id, HasCode(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(DigestTest, RawDigestIsSha256OfTheBytes) {
  EXPECT_EQ(Digest::OfRaw("abc").ToHex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Digest::OfRaw("").ToHex(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(DigestTest, SchemesNeverCompareEqual) {
  Digest other = Digest::OfRaw("abc");
  other.scheme = DigestScheme::kJsonJcsSha256;
  EXPECT_NE(other, Digest::OfRaw("abc"));
}

}  // namespace
}  // namespace once
