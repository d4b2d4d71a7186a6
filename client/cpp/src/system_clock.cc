#include <time.h>

#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "once/options.h"

namespace once {
namespace {

class SystemClock final : public Clock {
 public:
  absl::Duration Elapsed() const override {
    timespec now{};
    // Unlike CLOCK_MONOTONIC it goes on while the machine is suspended.
    clock_gettime(CLOCK_BOOTTIME, &now);
    return absl::DurationFromTimespec(now);
  }
  void Sleep(absl::Duration duration) override { absl::SleepFor(duration); }
};

}  // namespace

std::shared_ptr<Clock> MakeSystemClock() { return std::make_shared<SystemClock>(); }

}  // namespace once
