#include "store/sqlite/writer_turn.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"

namespace once::store::sqlite {
namespace {

TEST(WriterTurnTest, IsTakenByOneAtATime) {
  WriterTurn turn;
  ASSERT_TRUE(turn.Take(absl::ZeroDuration()).ok());
  EXPECT_TRUE(absl::IsAborted(turn.Take(absl::Milliseconds(1))));
  turn.Give();
  EXPECT_TRUE(turn.Take(absl::ZeroDuration()).ok());
  turn.Give();
}

TEST(WriterTurnTest, WhoGaveUpIsPassedOver) {
  WriterTurn turn;
  ASSERT_TRUE(turn.Take(absl::ZeroDuration()).ok());
  std::thread impatient([&] { EXPECT_TRUE(absl::IsAborted(turn.Take(absl::Milliseconds(5)))); });
  std::thread patient([&] {
    EXPECT_TRUE(turn.Take(absl::Minutes(1)).ok());
    turn.Give();
  });
  impatient.join();
  turn.Give();
  patient.join();
  EXPECT_TRUE(turn.Take(absl::ZeroDuration()).ok());
  turn.Give();
}

TEST(WriterTurnTest, GuardsWhatItIsFor) {
  WriterTurn turn;
  int64_t counter = 0;  // without a mutex: the turn is one
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) {
        ASSERT_TRUE(turn.Take(absl::Minutes(1)).ok());
        ++counter;
        turn.Give();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 4000);
}

TEST(WriterTurnTest, NobodyIsStarvedByWhoComesBackAtOnce) {
  WriterTurn turn;
  std::atomic<bool> served{false};
  std::thread greedy([&] {
    while (!served) {
      ASSERT_TRUE(turn.Take(absl::Minutes(1)).ok());
      turn.Give();
    }
  });
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(turn.Take(absl::Minutes(1)).ok());
    turn.Give();
  }
  served = true;
  greedy.join();
}

}  // namespace
}  // namespace once::store::sqlite
