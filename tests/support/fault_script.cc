#include "support/fault_script.h"

#include <utility>

#include "absl/time/clock.h"

namespace once::test {

void FaultScript::SetHook(Hook hook) {
  absl::MutexLock lock(&mutex_);
  hook_ = std::move(hook);
}

void FaultScript::Next(FaultPoint point, Fault fault, int times, int skip) {
  absl::MutexLock lock(&mutex_);
  counted_[point].push_back({fault, times, skip});
}

void FaultScript::Random(uint64_t seed, std::map<FaultPoint, std::vector<Fault>> faults,
                         double probability) {
  absl::MutexLock lock(&mutex_);
  generator_.seed(seed);
  random_ = std::move(faults);
  probability_ = probability;
}

void FaultScript::Clear() {
  absl::MutexLock lock(&mutex_);
  hook_ = nullptr;
  counted_.clear();
  random_.clear();
}

void FaultScript::Close(FaultPoint point) {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  gate_ = point;
}

void FaultScript::Open() {
  absl::MutexLock lock(&mutex_);
  closed_ = false;
  changed_.SignalAll();
}

bool FaultScript::WaitUntilStopped(int sessions, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  absl::MutexLock lock(&mutex_);
  while (stopped_ < sessions) {
    if (changed_.WaitWithDeadline(&mutex_, deadline)) {
      return stopped_ >= sessions;
    }
  }
  return true;
}

int64_t FaultScript::passed(FaultPoint point) const {
  absl::MutexLock lock(&mutex_);
  const auto found = passed_.find(point);
  return found == passed_.end() ? 0 : found->second;
}

int64_t FaultScript::played(FaultPoint point) const {
  absl::MutexLock lock(&mutex_);
  const auto found = played_.find(point);
  return found == played_.end() ? 0 : found->second;
}

Fault FaultScript::At(const FaultSite& site) {
  Hook hook;
  {
    absl::MutexLock lock(&mutex_);
    if (closed_ && gate_ == site.point) {
      ++stopped_;
      changed_.SignalAll();
      while (closed_ && gate_ == site.point) {
        changed_.Wait(&mutex_);
      }
      --stopped_;
    }
    ++passed_[site.point];
    hook = hook_;
  }
  Fault fault = hook ? hook(site) : Fault::kNone;
  absl::MutexLock lock(&mutex_);
  if (fault == Fault::kNone) {
    fault = NextCounted(site.point);
  }
  if (fault == Fault::kNone) {
    fault = NextRandom(site.point);
  }
  if (fault != Fault::kNone) {
    ++played_[site.point];
  }
  return fault;
}

Fault FaultScript::NextCounted(FaultPoint point) {
  const auto found = counted_.find(point);
  if (found == counted_.end() || found->second.empty()) {
    return Fault::kNone;
  }
  Counted& next = found->second.front();
  if (next.skip > 0) {
    --next.skip;
    return Fault::kNone;
  }
  const Fault fault = next.fault;
  if (--next.times <= 0) {
    found->second.erase(found->second.begin());
  }
  return fault;
}

Fault FaultScript::NextRandom(FaultPoint point) {
  const auto found = random_.find(point);
  if (found == random_.end() || found->second.empty()) {
    return Fault::kNone;
  }
  if (std::uniform_real_distribution<double>(0, 1)(generator_) >= probability_) {
    return Fault::kNone;
  }
  return found->second[generator_() % found->second.size()];
}

}  // namespace once::test
