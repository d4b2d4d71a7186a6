#include "store/sqlite/database_clock.h"

#include <algorithm>

namespace once::store::sqlite {
namespace {

constexpr absl::Duration kSmallStep = absl::Seconds(1);

}  // namespace

core::DbTime DatabaseClock::Now() {
  const core::DbTime now{absl::ToUnixMicros(clock_->Now())};
  absl::MutexLock lock(&mutex_);
  if (now >= last_ || last_ - now > kSmallStep) {
    last_ = now;
  }
  return last_;
}

core::Fence DatabaseClock::FreshFence(core::DbTime now) {
  absl::MutexLock lock(&mutex_);
  return {std::max(now.micros, floor_.value + 1)};
}

void DatabaseClock::RaiseFenceFloor(core::Fence deleted) {
  absl::MutexLock lock(&mutex_);
  floor_ = std::max(floor_, deleted);
}

}  // namespace once::store::sqlite
