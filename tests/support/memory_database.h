// What is inside of MemoryStore: committed tables, row locks and the clock. Used by its sessions
// only.
//
// Thread-safety: all public functions may be called from any thread; LockRows may block.
#ifndef ONCE_TESTS_SUPPORT_MEMORY_DATABASE_H_
#define ONCE_TESTS_SUPPORT_MEMORY_DATABASE_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "core/operation.h"
#include "core/order.h"
#include "core/types.h"
#include "store/store.h"
#include "support/memory_history.h"
#include "support/memory_store.h"

namespace once::test {

// The effect of one transaction, private to it until it is committed.
struct Transaction {
  std::map<core::OperationKey, std::optional<core::OperationRow>>
      rows;  // locked ones, as it leaves them
  std::map<core::OperationKey, std::string> bodies;
  std::map<core::AggregateKey, core::AggregateRow> aggregates;
  std::vector<LoggedAttempt> attempts;
  std::vector<store::AuditRow> audit;
  std::vector<std::pair<core::OperationKey, store::PastReceipt>> past;
};

class MemoryDatabase {
 public:
  explicit MemoryDatabase(const base::Clock* clock) : clock_(clock) {}

  // ---- claim path ----

  // Strictly greater than any time or fence given before.
  core::DbTime Tick() ABSL_LOCKS_EXCLUDED(mutex_);
  core::DbTime Now() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Locks `key` for `session` and gives its newest row. Commits pending transactions that hold it
  // first. ABORTED where another session holds it after `timeout`.
  absl::StatusOr<std::optional<core::OperationRow>> LockRow(int session,
                                                            const core::OperationKey& key,
                                                            absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<core::AggregateRow> LockAggregate(int session, const core::AggregateKey& key,
                                                   absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // True where the attempt row is committed.
  bool HasAttempt(const core::OperationKey& key, const store::EntryId& entry) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Applies the transaction and frees its locks.
  void Commit(int session, Transaction transaction) ABSL_LOCKS_EXCLUDED(mutex_);
  // Keeps the locks; the transaction is applied when somebody asks for one of its rows.
  void CommitLater(int session, Transaction transaction) ABSL_LOCKS_EXCLUDED(mutex_);
  void Unlock(int session) ABSL_LOCKS_EXCLUDED(mutex_);

  // Committed row without a large body.
  std::optional<core::OperationRow> Read(const core::OperationKey& key) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<store::PastReceipt> ReadPast(const core::OperationKey& key) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<std::string> ReadBody(const core::OperationKey& key) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<LoggedAttempt> Attempts(const core::OperationKey& key) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Put(const core::OperationKey& key, std::optional<core::OperationRow> row)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- control plane ----

  struct Control {
    std::map<std::string, store::TenantRow> tenants;
    std::map<std::string, store::CredentialRow> credentials;  // `active` is not kept up
    std::map<std::pair<uint32_t, std::string>, uint32_t> handlers;
    MemoryHistory history;
    uint32_t last_tenant = 0;
    uint32_t last_handler = 0;
  };
  // Runs `body` on the tables, alone. Its change is undone unless it returns OK and `keep`.
  absl::Status RunControl(bool keep, const std::function<absl::Status(Control&)>& body)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- counters ----
  int OpenSession() ABSL_LOCKS_EXCLUDED(mutex_);
  void CloseSession() ABSL_LOCKS_EXCLUDED(mutex_);
  void AddOpenTransactions(int change) ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t commits() const ABSL_LOCKS_EXCLUDED(mutex_);
  int open_sessions() const ABSL_LOCKS_EXCLUDED(mutex_);
  int open_transactions() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t sessions_opened() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Apply(Transaction transaction) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UnlockLocked(int session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SettlePending(const core::OperationKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const base::Clock* const clock_;
  mutable absl::Mutex mutex_;
  absl::CondVar unlocked_;
  mutable int64_t last_micros_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<core::OperationKey, core::OperationRow> rows_ ABSL_GUARDED_BY(mutex_);
  std::map<core::AggregateKey, core::AggregateRow> aggregates_ ABSL_GUARDED_BY(mutex_);
  std::map<core::OperationKey, std::vector<store::PastReceipt>> past_ ABSL_GUARDED_BY(mutex_);
  std::map<core::OperationKey, std::string> bodies_ ABSL_GUARDED_BY(mutex_);
  std::map<core::OperationKey, std::vector<LoggedAttempt>> attempts_ ABSL_GUARDED_BY(mutex_);
  std::map<core::OperationKey, int> locks_ ABSL_GUARDED_BY(mutex_);
  std::list<std::pair<int, Transaction>> pending_ ABSL_GUARDED_BY(mutex_);
  Control control_ ABSL_GUARDED_BY(mutex_);
  int64_t commits_ ABSL_GUARDED_BY(mutex_) = 0;
  int open_sessions_ ABSL_GUARDED_BY(mutex_) = 0;
  int open_transactions_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t sessions_opened_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace once::test

#endif  // ONCE_TESTS_SUPPORT_MEMORY_DATABASE_H_
