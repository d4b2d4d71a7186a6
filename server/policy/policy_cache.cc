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
      limits_(limits),
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
  const std::shared_ptr<const Policies> known = Current();
  auto read = ReadChanges(*known);
  const bool other = read.ok() && *read != nullptr;
  const bool changed = other && (*read)->change_id() != known->change_id();
  if (other) {
    absl::MutexLock lock(&mutex_);
    current_ = *std::move(read);  // `known` lets go of what it was, outside of the lock
  }
  if (observer_ != nullptr) observer_->OnPoliciesRead(read.status(), changed);
  return read.status();
}

absl::StatusOr<std::shared_ptr<const Policies>> PolicyCache::ReadChanges(const Policies& known) {
  if (absl::Status opened = EnsureSession(); !opened.ok()) return opened;
  const auto rows = session_->ReadPolicyChanges(read_all_ ? 0 : known.change_id());
  if (!rows.ok()) return rows.status();
  if (rows->empty() && !read_all_) return nullptr;
  auto next = read_all_ ? Policies(limits_).With(*rows) : known.With(*rows);
  if (next.ok()) read_all_ = false;
  return next;
}

absl::Status PolicyCache::EnsureSession() {
  // It may have been idle for too long since the last read, or be lost by it.
  if (session_ != nullptr && !session_->usable()) session_.reset();
  if (session_ != nullptr) return absl::OkStatus();
  auto opened = store_->OpenControlSession();
  if (!opened.ok()) return opened.status();
  session_ = *std::move(opened);
  read_all_ = true;
  return absl::OkStatus();
}

}  // namespace once::policy
