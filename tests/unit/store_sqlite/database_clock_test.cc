#include "store/sqlite/database_clock.h"

#include <gtest/gtest.h>

#include "support/manual_clock.h"

namespace once::store::sqlite {
namespace {

TEST(DatabaseClockTest, StandsStillWhereTheClockGoesBackALittle) {
  test::ManualClock real;
  DatabaseClock clock(&real);
  const core::DbTime first = clock.Now();
  real.Advance(-absl::Milliseconds(500));
  EXPECT_EQ(clock.Now(), first);
  real.Advance(absl::Seconds(1));
  EXPECT_EQ(clock.Now(), first + absl::Milliseconds(500));
}

TEST(DatabaseClockTest, FollowsAClockThatIsSetBack) {
  test::ManualClock real;
  DatabaseClock clock(&real);
  const core::DbTime first = clock.Now();
  real.Advance(-absl::Hours(1));
  EXPECT_EQ(clock.Now(), first + -absl::Hours(1)) << "or no lease would end for an hour";
}

TEST(DatabaseClockTest, FreshFencesAreAboveDeletedOnes) {
  test::ManualClock real;
  DatabaseClock clock(&real);
  const core::DbTime now = clock.Now();
  EXPECT_EQ(clock.FreshFence(now).value, now.micros);
  clock.RaiseFenceFloor({now.micros});
  EXPECT_EQ(clock.FreshFence(now).value, now.micros + 1);
  clock.RaiseFenceFloor({now.micros + 1000});
  clock.RaiseFenceFloor({now.micros + 10});
  EXPECT_EQ(clock.FreshFence(now).value, now.micros + 1001);
  EXPECT_EQ(clock.FreshFence(now + absl::Seconds(1)).value, now.micros + 1'000'000);
  EXPECT_EQ(clock.Now(), now) << "fences are not the time";
}

}  // namespace
}  // namespace once::store::sqlite
