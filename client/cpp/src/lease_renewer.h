// Keeps the claims of running handlers alive: one thread per client, one BatchRenew for all that
// are due.
//
// A claim is renewed when a third of its lease has passed, so that two renewals may fail before it
// ends. Only two things end it early: the server's word that the claim is lost, and this machine's
// own clock saying that the granted lease is over. Everything else (a proxy's 502 during a deploy,
// a refused credential) is tried again until then.
#ifndef ONCE_CLIENT_SRC_LEASE_RENEWER_H_
#define ONCE_CLIENT_SRC_LEASE_RENEWER_H_

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "once/connection.h"
#include "once/options.h"
#include "once/outcomes.h"
#include "once/requests.h"

namespace once::client_internal {

// What is known about one claim. Thread-safe. All times are `Clock::Elapsed`.
class Lease {
 public:
  Lease(RenewRequest request, absl::Duration valid_until, std::shared_ptr<Clock> clock);

  const RenewRequest& request() const { return request_; }

  // True from the server's word or the end of the lease on, for good.
  bool Lost() const ABSL_LOCKS_EXCLUDED(mutex_);
  // True where the server said so.
  bool LostByServer() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Duration Remaining() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Duration ValidUntil() const ABSL_LOCKS_EXCLUDED(mutex_);

  // See ExecutionContext::OnClaimLost.
  void OnLost(std::function<void()> callback) ABSL_LOCKS_EXCLUDED(mutex_);

  // No callback starts afterwards; waits for one that runs.
  void StopNotifying() ABSL_LOCKS_EXCLUDED(mutex_);

  // For the renewer. A lost lease is not extended.
  void Extend(absl::Duration valid_until) ABSL_LOCKS_EXCLUDED(mutex_);
  void MarkLostByServer() ABSL_LOCKS_EXCLUDED(mutex_);
  // Runs the callback where the lease is lost and it did not run yet. Returns Lost().
  bool NotifyIfLost() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  bool LostLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RenewRequest request_;
  const std::shared_ptr<Clock> clock_;
  mutable absl::Mutex mutex_;
  absl::CondVar notified_;
  absl::Duration valid_until_ ABSL_GUARDED_BY(mutex_);
  mutable bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  bool lost_by_server_ ABSL_GUARDED_BY(mutex_) = false;
  bool notifying_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> callback_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe. The destructor stops the thread and waits for a renewal that is on its way.
class LeaseRenewer {
 public:
  enum class Drive {
    kThread,  // a thread, started by the first lease
    kManual,  // tests call RunOnce
  };
  LeaseRenewer(std::shared_ptr<Connection> connection, std::shared_ptr<Clock> clock,
               Drive drive = Drive::kThread);
  ~LeaseRenewer();

  // Renews from now on. `measured_at` is before the request was sent that answered with
  // `lease_remaining`.
  std::shared_ptr<Lease> Add(RenewRequest request, absl::Duration measured_at,
                             absl::Duration lease_remaining) ABSL_LOCKS_EXCLUDED(mutex_);
  // Renews no more.
  void Remove(const std::shared_ptr<Lease>& lease) ABSL_LOCKS_EXCLUDED(mutex_);

  // What the thread does each time it wakes: renews what is due, and tells the owners of lost
  // leases.
  void RunOnce() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::shared_ptr<Lease> lease;
    absl::Duration due;     // when to renew next
    absl::Duration length;  // of the lease as granted last
  };

  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<absl::Duration> NextWake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::shared_ptr<Lease>> TakeDue(absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration CallTimeout(absl::Duration now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Renew(const std::vector<std::shared_ptr<Lease>>& due, absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Apply(const std::shared_ptr<Lease>& lease, const absl::StatusOr<RenewOutcome>& outcome,
             absl::Duration measured_at) ABSL_LOCKS_EXCLUDED(mutex_);
  Entry* Find(const std::shared_ptr<Lease>& lease) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<Connection> connection_;
  const std::shared_ptr<Clock> clock_;
  const Drive drive_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace once::client_internal

#endif  // ONCE_CLIENT_SRC_LEASE_RENEWER_H_
