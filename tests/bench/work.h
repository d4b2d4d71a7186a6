// The cycle that everybody measures: a new 40-byte event id, 200 bytes of JSON, a 128-byte result.
#ifndef ONCE_BENCH_WORK_H_
#define ONCE_BENCH_WORK_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace once::bench {

inline constexpr size_t kResultBytes = 128;

enum class IdOrder : uint8_t { kTime, kRandom };

// Names the events of one run, and has their result. Time-ordered ids begin with the time of the
// run and the number of the cycle, as UUIDv7 ids of one producer would; random ones are a hash of
// both.
class Events {
 public:
  // The same `run` gives the same ids again, for duplicates; 0: a new run.
  Events(uint64_t run, IdOrder order, size_t result_bytes = kResultBytes);
  std::string Id(uint64_t number) const;                 // 40 bytes
  const std::string& result() const { return result_; }  // JSON
  uint64_t run() const { return run_; }

 private:
  const uint64_t run_;
  const IdOrder order_;
  const std::string result_;
};

std::string ContentFor(const std::string& event_id);  // 200 bytes of JSON
std::string NewAttemptId();                           // 16 random bytes

}  // namespace once::bench

#endif  // ONCE_BENCH_WORK_H_
