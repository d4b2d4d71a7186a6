// A clock that stands still until a test moves it.
#ifndef ONCE_TESTS_SUPPORT_MANUAL_CLOCK_H_
#define ONCE_TESTS_SUPPORT_MANUAL_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "base/clock.h"

namespace once::test {

// Thread-safe.
class ManualClock final : public base::Clock {
 public:
  explicit ManualClock(absl::Time start = absl::FromUnixSeconds(1'700'000'000))
      : micros_(absl::ToUnixMicros(start)) {}

  absl::Time Now() const override { return absl::FromUnixMicros(micros_.load()); }
  void Advance(absl::Duration by) { micros_ += absl::ToInt64Microseconds(by); }
  void Set(absl::Time now) { micros_ = absl::ToUnixMicros(now); }

 private:
  std::atomic<int64_t> micros_;
};

}  // namespace once::test

#endif  // ONCE_TESTS_SUPPORT_MANUAL_CLOCK_H_
