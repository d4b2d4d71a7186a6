#include "policy/policy_cache.h"

#include <utility>
#include <vector>

#include "absl/time/clock.h"

namespace once::policy {

absl::StatusOr<std::unique_ptr<PolicyCache>> PolicyCache::Start(const PolicyCacheOptions& options,
                                                                const core::Limits& limits,
                                                                store::Store* store,
                                                                PolicyObserver* observer) {
  std::unique_ptr<PolicyCache> cache(new PolicyCache(options, limits, store, observer));
  if (absl::Status read = cache->Refresh(); !read.ok()) return read;
  cache->thread_ = std::thread([raw = cache.get()] { raw->Run(); });
  return cache;
}

PolicyCache::PolicyCache(const PolicyCacheOptions& options, const core::Limits& limits,
                         store::Store* store, PolicyObserver* observer)
    : options_(options),
      store_(store),
      observer_(observer),
      current_(std::make_shared<const Policies>(limits)) {}

PolicyCache::~PolicyCache() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    stop_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const Policies> PolicyCache::Current() const {
  absl::MutexLock lock(&mutex_);
  return current_;
}

void PolicyCache::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      const absl::Time next = absl::Now() + options_.refresh_interval;
      while (!stopping_ && !stop_.WaitWithDeadline(&mutex_, next)) {
      }
      if (stopping_) return;
    }
    // The observer was told; the next round tries again.
    Refresh().IgnoreError();
  }
}

absl::Status PolicyCache::Refresh() {
  auto read = ReadChanges(*Current());
  const bool changed = read.ok() && *read != nullptr;
  if (changed) {
    absl::MutexLock lock(&mutex_);
    current_ = *read;
  }
  if (observer_ != nullptr) observer_->OnPoliciesRead(read.status(), changed);
  return read.status();
}

absl::StatusOr<std::shared_ptr<const Policies>> PolicyCache::ReadChanges(const Policies& known) {
  if (session_ == nullptr) {
    auto opened = store_->OpenControlSession();
    if (!opened.ok()) return opened.status();
    session_ = *std::move(opened);
  }
  const auto rows = session_->ReadPolicyChanges(known.change_id());
  if (!session_->usable()) session_.reset();
  if (!rows.ok()) return rows.status();
  if (rows->empty()) return nullptr;
  return known.With(*rows);
}

}  // namespace once::policy
