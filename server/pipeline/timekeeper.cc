#include "pipeline/timekeeper.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace once::pipeline {
namespace {

// Ends are looked for no more often than this, which bounds the cost of a search through a long
// queue.
constexpr absl::Duration kGrain = absl::Milliseconds(10);

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

int64_t Micros(absl::Time when) {
  return when == absl::InfiniteFuture() ? kNever : absl::ToUnixMicros(when);
}

}  // namespace

void Timekeeper::Start(std::vector<Duty> duties) {
  duties_ = std::move(duties);
  thread_ = std::thread([this] { Run(); });
}

void Timekeeper::Nudge(absl::Time when) {
  const int64_t micros = Micros(when);
  if (micros >= next_micros_.load()) return;
  absl::MutexLock lock(&mutex_);
  if (micros >= next_micros_.load()) return;
  next_micros_.store(micros);
  changed_.Signal();
}

void Timekeeper::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

bool Timekeeper::WaitForEnd() {
  absl::MutexLock lock(&mutex_);
  while (!stopped_) {
    const int64_t next = next_micros_.load();
    const absl::Time when = next == kNever ? absl::InfiniteFuture() : absl::FromUnixMicros(next);
    if (timing_->Now() >= when) break;
    timing_->WaitUntil(&mutex_, &changed_, when);
  }
  // From here on a Nudge counts for the next round.
  next_micros_.store(kNever);
  return !stopped_;
}

void Timekeeper::Run() {
  while (WaitForEnd()) {
    const absl::Time now = timing_->Now();
    absl::Time next = absl::InfiniteFuture();
    for (const Duty& duty : duties_) {
      if (duty.next() <= now) duty.end(now);
      next = std::min(next, duty.next());
    }
    if (next != absl::InfiniteFuture()) Nudge(std::max(next, now + kGrain));
  }
}

}  // namespace once::pipeline
