#include "load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <thread>

namespace once::bench {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Le;

TEST(HistogramTest, PercentilesAreTheRankedValuesToTheWidthOfABucket) {
  Histogram histogram;
  for (int i = 1; i <= 100'000; ++i) histogram.Add(i);
  for (const double p : {1.0, 50.0, 99.0, 99.9, 100.0}) {
    const auto exact = static_cast<int64_t>(p * 1000);
    EXPECT_THAT(histogram.Percentile(p), AllOf(Le(exact), Ge(exact * 98 / 100))) << p;
  }
}

TEST(HistogramTest, SmallValuesAreExact) {
  Histogram histogram;
  for (const int64_t value : {7, 9, 63}) histogram.Add(value);
  EXPECT_EQ(histogram.Percentile(0), 7);
  EXPECT_EQ(histogram.Percentile(33), 7);
  EXPECT_EQ(histogram.Percentile(50), 9);
  EXPECT_EQ(histogram.Percentile(100), 63);
}

TEST(HistogramTest, ExtremesAreKept) {
  Histogram histogram;
  histogram.Add(-5);
  histogram.Add(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(histogram.Percentile(50), 0);
  EXPECT_GE(histogram.Percentile(100), std::numeric_limits<int64_t>::max() / 100 * 98);
}

TEST(HistogramTest, MergedIsAsIfAllHadBeenAddedToOne) {
  Histogram low;
  Histogram high;
  for (int i = 1; i <= 99; ++i) low.Add(10);
  high.Add(50);
  low.Merge(high);
  EXPECT_EQ(low.count(), 100);
  EXPECT_EQ(low.Percentile(99), 10);
  EXPECT_EQ(low.Percentile(100), 50);
}

TEST(HistogramTest, NothingHasPercentileZero) { EXPECT_EQ(Histogram().Percentile(99), 0); }

constexpr auto kStall = std::chrono::milliseconds(20);

// Stalls in its first cycle, fails in its last, and is quick otherwise.
class Fake final : public Contender {
 public:
  Fake(bool blocks, uint64_t cycles) : blocks_(blocks), cycles_(cycles) {}
  bool blocking() const override { return blocks_; }
  std::unique_ptr<Caller> NewCaller(int) override { return std::make_unique<FakeCaller>(cycles_); }

 private:
  class FakeCaller final : public Caller {
   public:
    explicit FakeCaller(uint64_t cycles) : cycles_(cycles) {}
    void Cycle(uint64_t number, CycleEnd* end) override {
      if (number == 0) std::this_thread::sleep_for(kStall);
      end->Ended(number + 1 == cycles_ ? 0 : 1);
    }

   private:
    const uint64_t cycles_;
  };
  const bool blocks_;
  const uint64_t cycles_;
};

LoadOptions Cycles(uint64_t cycles) {
  LoadOptions options;
  options.callers = 1;
  options.warm_up = absl::ZeroDuration();
  options.cycles = cycles;
  return options;
}

class LoadTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Contenders, LoadTest, ::testing::Bool(),
                         [](const auto& suite) { return suite.param ? "Blocking" : "Callbacks"; });

TEST_P(LoadTest, AllCyclesAreCountedAndFailuresAmongThem) {
  Fake fake(GetParam(), 50);
  const LoadResult result = RunLoad(fake, Cycles(50));
  EXPECT_EQ(result.cycles, 50);
  EXPECT_EQ(result.operations, 49);
  EXPECT_EQ(result.failures, 1);
  EXPECT_EQ(result.latency.count(), 50);
}

TEST_P(LoadTest, AStallCountsForTheCyclesThatWereDueMeanwhileInAnOpenLoop) {
  Fake fake(GetParam(), 50);
  LoadOptions options = Cycles(50);
  options.rate = 1e6;  // the last one is due before the stall ends
  const LoadResult result = RunLoad(fake, options);
  EXPECT_EQ(result.cycles, 50);
  EXPECT_GE(result.latency.Percentile(0), 19'000);
}

}  // namespace
}  // namespace once::bench
