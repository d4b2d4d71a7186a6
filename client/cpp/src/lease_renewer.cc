#include "lease_renewer.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "once/error.h"

namespace once::client_internal {
namespace {

constexpr size_t kMaxBatch = 1000;
// A renewal that hangs must not keep other claims from theirs for longer than this.
constexpr absl::Duration kMaxCall = absl::Seconds(2);
constexpr absl::Duration kMinCall = absl::Milliseconds(20);
constexpr absl::Duration kMinPause = absl::Milliseconds(20);
constexpr absl::Duration kMaxPause = absl::Seconds(1);

// When to renew a lease of this length, and how soon again after a renewal that failed.
absl::Duration RenewAfter(absl::Duration length) { return length / 3; }
absl::Duration PauseAfterFailure(absl::Duration length) {
  return std::clamp(length / 15, kMinPause, kMaxPause);
}

}  // namespace

// ---- Lease ----

Lease::Lease(RenewRequest request, absl::Duration valid_until, std::shared_ptr<Clock> clock)
    : request_(std::move(request)), clock_(std::move(clock)), valid_until_(valid_until) {}

bool Lease::LostLocked() const {
  if (clock_->Elapsed() >= valid_until_) lost_ = true;
  return lost_;
}

bool Lease::Lost() const {
  absl::MutexLock lock(&mutex_);
  return LostLocked();
}

bool Lease::LostByServer() const {
  absl::MutexLock lock(&mutex_);
  return lost_by_server_;
}

absl::Duration Lease::Remaining() const {
  absl::MutexLock lock(&mutex_);
  return LostLocked() ? absl::ZeroDuration() : valid_until_ - clock_->Elapsed();
}

absl::Duration Lease::ValidUntil() const {
  absl::MutexLock lock(&mutex_);
  return valid_until_;
}

void Lease::OnLost(std::function<void()> callback) {
  {
    absl::MutexLock lock(&mutex_);
    if (!LostLocked()) {
      callback_ = std::move(callback);
      return;
    }
  }
  if (callback) callback();
}

void Lease::StopNotifying() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  callback_ = nullptr;
  while (notifying_) notified_.Wait(&mutex_);
}

void Lease::Extend(absl::Duration valid_until) {
  absl::MutexLock lock(&mutex_);
  if (!LostLocked()) valid_until_ = std::max(valid_until_, valid_until);
}

void Lease::MarkLostByServer() {
  absl::MutexLock lock(&mutex_);
  lost_ = true;
  lost_by_server_ = true;
}

bool Lease::NotifyIfLost() {
  std::function<void()> callback;
  {
    absl::MutexLock lock(&mutex_);
    if (!LostLocked()) return false;
    if (stopped_ || !callback_) return true;
    callback = std::move(callback_);
    callback_ = nullptr;
    notifying_ = true;
  }
  callback();
  absl::MutexLock lock(&mutex_);
  notifying_ = false;
  notified_.SignalAll();
  return true;
}

// ---- LeaseRenewer ----

LeaseRenewer::LeaseRenewer(std::shared_ptr<Connection> connection, std::shared_ptr<Clock> clock,
                           Drive drive)
    : connection_(std::move(connection)), clock_(std::move(clock)), drive_(drive) {}

LeaseRenewer::~LeaseRenewer() {
  std::thread thread;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

std::shared_ptr<Lease> LeaseRenewer::Add(RenewRequest request, absl::Duration measured_at,
                                         absl::Duration lease_remaining) {
  auto lease = std::make_shared<Lease>(std::move(request), measured_at + lease_remaining, clock_);
  absl::MutexLock lock(&mutex_);
  entries_.push_back({lease, measured_at + RenewAfter(lease_remaining), lease_remaining});
  if (drive_ == Drive::kThread && !thread_.joinable()) {
    thread_ = std::thread([this] { Loop(); });
  }
  changed_.SignalAll();
  return lease;
}

void LeaseRenewer::Remove(const std::shared_ptr<Lease>& lease) {
  absl::MutexLock lock(&mutex_);
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                [&](const Entry& entry) { return entry.lease == lease; }),
                 entries_.end());
}

void LeaseRenewer::Loop() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      while (!stopping_) {
        const auto wake = NextWake();
        if (!wake.has_value()) {
          changed_.Wait(&mutex_);
          continue;
        }
        const absl::Duration pause = *wake - clock_->Elapsed();
        if (pause <= absl::ZeroDuration()) break;
        changed_.WaitWithTimeout(&mutex_, pause);
      }
      if (stopping_) return;
    }
    RunOnce();
  }
}

std::optional<absl::Duration> LeaseRenewer::NextWake() const {
  std::optional<absl::Duration> wake;
  for (const Entry& entry : entries_) {
    const absl::Duration at = std::min(entry.due, entry.lease->ValidUntil());
    wake = wake.has_value() ? std::min(*wake, at) : at;
  }
  return wake;
}

void LeaseRenewer::RunOnce() {
  std::vector<std::shared_ptr<Lease>> all;
  {
    absl::MutexLock lock(&mutex_);
    for (const Entry& entry : entries_) all.push_back(entry.lease);
  }
  for (const auto& lease : all) {
    if (lease->NotifyIfLost()) Remove(lease);
  }

  std::vector<std::shared_ptr<Lease>> due;
  absl::Duration timeout;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Duration now = clock_->Elapsed();
    due = TakeDue(now);
    timeout = CallTimeout(now);
  }
  if (!due.empty()) Renew(due, timeout);
}

// The earliest due first, so that a batch's limit starves nobody.
std::vector<std::shared_ptr<Lease>> LeaseRenewer::TakeDue(absl::Duration now) {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.due < b.due; });
  std::vector<std::shared_ptr<Lease>> due;
  for (const Entry& entry : entries_) {
    if (entry.due > now || due.size() == kMaxBatch) break;
    due.push_back(entry.lease);
  }
  return due;
}

// No longer than the shortest lease can spare, nor past the next one's end, whose owner has to be
// told in time.
absl::Duration LeaseRenewer::CallTimeout(absl::Duration now) const {
  absl::Duration timeout = kMaxCall;
  for (const Entry& entry : entries_) {
    timeout = std::min(timeout, RenewAfter(entry.length));
    timeout = std::min(timeout, entry.lease->ValidUntil() - now);
  }
  return std::max(timeout, kMinCall);
}

void LeaseRenewer::Renew(const std::vector<std::shared_ptr<Lease>>& due, absl::Duration timeout) {
  std::vector<RenewRequest> requests;
  requests.reserve(due.size());
  for (const auto& lease : due) requests.push_back(lease->request());
  CallOptions options;
  options.retry = RetryPolicy{timeout, 1, timeout};
  const absl::Duration measured_at = clock_->Elapsed();
  const auto outcomes = connection_->BatchRenew(requests, options);
  if (outcomes.ok() && outcomes->size() != due.size()) {
    for (const auto& lease : due) {
      Apply(lease, absl::InternalError("BatchRenew answered with another number"), measured_at);
    }
    return;
  }
  for (size_t i = 0; i < due.size(); ++i) {
    if (outcomes.ok()) {
      Apply(due[i], (*outcomes)[i], measured_at);
    } else {
      Apply(due[i], outcomes.status(), measured_at);
    }
  }
}

void LeaseRenewer::Apply(const std::shared_ptr<Lease>& lease,
                         const absl::StatusOr<RenewOutcome>& outcome, absl::Duration measured_at) {
  const bool gone = outcome.ok() ? std::holds_alternative<ClaimLost>(*outcome)
                                 : ReasonOf(outcome.status()) == ErrorReason::kOperationNotFound;
  if (gone) {
    Remove(lease);
    lease->MarkLostByServer();
    lease->NotifyIfLost();
    return;
  }
  absl::MutexLock lock(&mutex_);
  Entry* entry = Find(lease);
  if (entry == nullptr) return;
  if (!outcome.ok()) {
    entry->due = clock_->Elapsed() + PauseAfterFailure(entry->length);
    return;
  }
  const auto& claim = std::get<Claim>(*outcome);
  lease->Extend(measured_at + claim.lease_remaining);
  entry->length = claim.lease_remaining;
  // Never in the past: a server that grants next to nothing must not make this loop spin.
  entry->due =
      std::max(measured_at + RenewAfter(claim.lease_remaining), clock_->Elapsed() + kMinPause);
}

LeaseRenewer::Entry* LeaseRenewer::Find(const std::shared_ptr<Lease>& lease) {
  for (Entry& entry : entries_) {
    if (entry.lease == lease) return &entry;
  }
  return nullptr;
}

}  // namespace once::client_internal
