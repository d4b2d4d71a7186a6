// The small parts: names, pauses.
#include <gtest/gtest.h>

#include <string>

#include "pipeline/handler_names.h"
#include "pipeline/trouble.h"

namespace once::pipeline {
namespace {

TEST(HandlerNamesTest, RemembersByTenantAndName) {
  HandlerNames names(10);
  names.Remember({1}, "a", {11});
  names.Remember({2}, "a", {12});
  EXPECT_EQ(names.Find({1}, "a")->value, 11u);
  EXPECT_EQ(names.Find({2}, "a")->value, 12u);
  EXPECT_FALSE(names.Find({1}, "A").has_value());
}

TEST(HandlerNamesTest, ForgetsWhatNobodyAsksForAndKeepsWhatIsUsed) {
  HandlerNames names(10);
  names.Remember({1}, "used", {1});
  names.Remember({1}, "unused", {2});
  for (uint32_t i = 0; i < 100; ++i) {
    names.Remember({1}, "other" + std::to_string(i), {i + 10});
    ASSERT_TRUE(names.Find({1}, "used").has_value()) << i;
  }
  EXPECT_FALSE(names.Find({1}, "unused").has_value());
}

TEST(TroubleTest, FirstConflictIsRepeatedAtOnceLaterOnesAfterAtMost64Milliseconds) {
  Trouble trouble(1);
  const absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(trouble.OnConflict(now), absl::ZeroDuration());
  for (int k = 1; k < 20; ++k) {
    const absl::Duration pause = trouble.OnConflict(now);
    EXPECT_GE(pause, absl::ZeroDuration());
    EXPECT_LE(pause, absl::Milliseconds(k < 6 ? 1 << k : 64));
  }
}

TEST(TroubleTest, ReconnectsAtOnceThenBacksOffToASecond) {
  Trouble trouble(1);
  const absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(trouble.OnLost(now), absl::ZeroDuration());
  EXPECT_EQ(trouble.OnLost(now), absl::Milliseconds(20));
  EXPECT_EQ(trouble.OnLost(now), absl::Milliseconds(40));
  for (int i = 0; i < 10; ++i) trouble.OnLost(now);
  EXPECT_EQ(trouble.OnLost(now), absl::Seconds(1));
}

TEST(TroubleTest, TroubleStartsWithTheFirstFailureAndEndsWithSuccess) {
  Trouble trouble(1);
  const absl::Time start = absl::UnixEpoch();
  EXPECT_EQ(trouble.since(), absl::InfiniteFuture());
  trouble.OnConflict(start);
  trouble.OnLost(start + absl::Seconds(5));
  EXPECT_EQ(trouble.since(), start);
  trouble.OnSuccess();
  EXPECT_EQ(trouble.since(), absl::InfiniteFuture());
  EXPECT_EQ(trouble.OnLost(start), absl::ZeroDuration());
}

}  // namespace
}  // namespace once::pipeline
