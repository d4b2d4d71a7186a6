// The load generator: callers that run cycles, closed loop (the next cycle when the last one ended)
// or open loop (cycles are due at a given rate, and their latency counts from when they were due,
// so that a stalled server is not flattered).
#ifndef ONCE_BENCH_LOAD_H_
#define ONCE_BENCH_LOAD_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace once::bench {

// Latencies in microseconds, in buckets of at most 1.6 % width. Negative ones count as 0.
class Histogram {
 public:
  void Add(int64_t micros);
  void Merge(const Histogram& other);
  // The least value that `p` percent of all are not above, to the width of a bucket (its lower
  // end); 0 where there is none.
  int64_t Percentile(double p) const;
  int64_t count() const { return count_; }

 private:
  static constexpr int kSubBits = 6;
  static size_t BucketOf(int64_t micros);
  static int64_t ValueOf(size_t bucket);
  std::array<int64_t, 64 << kSubBits> buckets_{};
  int64_t count_ = 0;
};

// Where a cycle ends. A pointer and not a function object: nothing is allocated for a cycle.
class CycleEnd {
 public:
  virtual ~CycleEnd() = default;
  // How many operations the cycle settled; 0: failed. May start the caller's next cycle.
  virtual void Ended(int settled) = 0;
};

// One caller with at most one cycle at a time. Not thread-safe; cycles of one caller follow each
// other.
class Caller {
 public:
  virtual ~Caller() = default;
  // Runs cycle `number` and tells `end` exactly once, from any thread.
  virtual void Cycle(uint64_t number, CycleEnd* end) = 0;
};

// What is measured: makes callers.
class Contender {
 public:
  virtual ~Contender() = default;
  // True where Cycle blocks its thread: each caller then gets a thread of its own.
  virtual bool blocking() const = 0;
  virtual std::unique_ptr<Caller> NewCaller(int index) = 0;
};

struct LoadOptions {
  int callers = 64;
  absl::Duration duration = absl::Seconds(5);
  absl::Duration warm_up = absl::Milliseconds(500);  // runs, does not count
  double rate = 0;                                   // cycles a second, open loop; 0: closed loop
  uint64_t cycles = 0;  // end after this many, whatever the duration; 0: by duration
};

struct LoadResult {
  int64_t cycles = 0;
  int64_t operations = 0;
  int64_t all_operations =
      0;  // also those of the warm-up and of the last moment, which do not count
  int64_t failures = 0;
  double seconds = 0;
  Histogram latency;  // of cycles
};

// Blocks until all callers have stopped.
LoadResult RunLoad(Contender& contender, const LoadOptions& options);

}  // namespace once::bench

#endif  // ONCE_BENCH_LOAD_H_
