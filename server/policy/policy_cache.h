// The policies in force on this server, kept up with the database.
//
// A thread with a connection of its own asks every `refresh_interval` what has changed: one
// statement that answers nothing where nothing has. So a change is in force everywhere within the
// interval and the time of one read, and no call ever waits for the database. While they cannot be
// read, the last known ones stay in force, and the observer is told. Behind a new connection may be
// another database, a restored one or a host that lacks the last changes, whose numbers will be
// given again: everything is read anew.
//
// Thread-safe.
#ifndef ONCE_POLICY_POLICY_CACHE_H_
#define ONCE_POLICY_POLICY_CACHE_H_

#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/limits.h"
#include "policy/policies.h"
#include "store/store.h"

namespace once::policy {

struct PolicyCacheOptions {
  absl::Duration refresh_interval = absl::Seconds(1);
};

// Told after every read, on the cache's thread (the first time: on that of Start). Must not block.
class PolicyObserver {
 public:
  virtual ~PolicyObserver() = default;
  // `changed`: other policies are in force now. Not OK: those from before still are.
  virtual void OnPoliciesRead(const absl::Status& status, bool changed) = 0;
};

class PolicyCache {
 public:
  // Reads the policies, then starts the thread. `store` and `observer` (may be null) must outlive
  // it. Blocks; errors of the store (UNAVAILABLE, ABORTED: worth another try), or
  // FAILED_PRECONDITION where the policies cannot be understood.
  static absl::StatusOr<std::unique_ptr<PolicyCache>> Start(const PolicyCacheOptions& options,
                                                            const core::Limits& limits,
                                                            store::Store* store,
                                                            PolicyObserver* observer);
  PolicyCache(const PolicyCache&) = delete;
  PolicyCache& operator=(const PolicyCache&) = delete;
  ~PolicyCache();

  // Never null. Take it once for each call: all of a call goes by the same policies.
  std::shared_ptr<const Policies> Current() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  PolicyCache(const PolicyCacheOptions& options, const core::Limits& limits, store::Store* store,
              PolicyObserver* observer);

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // One read, after which the observer is told.
  absl::Status Refresh() ABSL_LOCKS_EXCLUDED(mutex_);
  // OK and null where nothing has changed.
  absl::StatusOr<std::shared_ptr<const Policies>> ReadChanges(const Policies& known);
  absl::Status EnsureSession();

  const PolicyCacheOptions options_;
  const core::Limits limits_;
  store::Store* const store_;
  PolicyObserver* const observer_;
  // Of the thread that reads.
  std::unique_ptr<store::ControlSession> session_;
  bool read_all_ = true;  // not yet done on this session

  mutable absl::Mutex mutex_;
  absl::CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const Policies> current_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace once::policy

#endif  // ONCE_POLICY_POLICY_CACHE_H_
