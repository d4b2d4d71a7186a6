// What one worker knows about its trouble with the database, and how long it pauses before the next
// try.
#ifndef ONCE_PIPELINE_TROUBLE_H_
#define ONCE_PIPELINE_TROUBLE_H_

#include <cstdint>
#include <random>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace once::pipeline {

// Whether what a transaction met may be over at its next try.
inline bool MayPass(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsUnavailable(status) || absl::IsUnknown(status);
}

// Used by one thread.
class Trouble {
 public:
  explicit Trouble(uint64_t seed) : random_(seed) {}

  void OnSuccess();
  // Deadlock, lock timeout, certification failure: at once the first time, then a random time up to
  // 2^k ms, 64 ms at most.
  absl::Duration OnConflict(absl::Time now);
  // The connection is gone: at once the first time, for a connection that only idled too long, then
  // 20 ms, doubling up to 1 s.
  absl::Duration OnLost(absl::Time now);

  // Time of the first failure since the last success; in the future where there was none.
  absl::Time since() const { return since_; }

 private:
  absl::Time since_ = absl::InfiniteFuture();
  int conflicts_ = 0;
  int losses_ = 0;
  std::mt19937_64 random_;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_TROUBLE_H_
