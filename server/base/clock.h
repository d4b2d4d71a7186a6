// The server's own clock, for deadlines and delays. Never for leases or retention: those are judged
// by the database's.
#ifndef ONCE_BASE_CLOCK_H_
#define ONCE_BASE_CLOCK_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace once::base {

// Thread-safe. Tests pass their own.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

class RealClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

}  // namespace once::base

#endif  // ONCE_BASE_CLOCK_H_
