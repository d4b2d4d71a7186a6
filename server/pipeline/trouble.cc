#include "pipeline/trouble.h"

#include <algorithm>

namespace once::pipeline {
namespace {

constexpr int kMaxConflictDoublings = 6;  // 64 ms
constexpr absl::Duration kFirstReconnectPause = absl::Milliseconds(20);
constexpr absl::Duration kMaxReconnectPause = absl::Seconds(1);
constexpr int kMaxLossDoublings = 7;

}  // namespace

void Trouble::OnSuccess() {
  since_ = absl::InfiniteFuture();
  conflicts_ = 0;
  losses_ = 0;
}

absl::Duration Trouble::OnConflict(absl::Time now) {
  since_ = std::min(since_, now);
  const int k = std::min(conflicts_++, kMaxConflictDoublings);
  if (k == 0) return absl::ZeroDuration();
  return absl::Milliseconds(1 << k) * std::uniform_real_distribution<double>(0, 1)(random_);
}

absl::Duration Trouble::OnLost(absl::Time now) {
  since_ = std::min(since_, now);
  const int k = std::min(losses_++, kMaxLossDoublings);
  if (k == 0) return absl::ZeroDuration();
  return std::min(kFirstReconnectPause * (1 << (k - 1)), kMaxReconnectPause);
}

}  // namespace once::pipeline
