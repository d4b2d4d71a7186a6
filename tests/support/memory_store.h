// A whole store in memory: the same contract as the real ones (row locks, read committed, guarded
// changes, widths of columns), plus faults, gates and a look inside. For tests of what lies above
// the store.
//
// Where a real database would wait for a row lock, the session waits too, but only for the rows of
// TouchAndRead, which come in key order; a change of a row that another transaction holds is
// ABORTED at once. So there are no deadlocks to detect.
//
// Thread-safety: as store.h says. The look inside may be used from any thread at any time.
#ifndef ONCE_TESTS_SUPPORT_MEMORY_STORE_H_
#define ONCE_TESTS_SUPPORT_MEMORY_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "core/operation.h"
#include "core/types.h"
#include "store/store.h"
#include "support/fault_script.h"

namespace once::test {

struct MemoryStoreOptions {
  // The database's clock; the machine's where null. Must outlive the store. The store makes it grow
  // strictly from one transaction to the next, so a clock that stands still shows as microseconds.
  const base::Clock* clock = nullptr;
  int max_write_sessions = 8;
  // How long TouchAndRead waits for rows of another transaction before it is ABORTED. Zero for
  // tests with one thread.
  absl::Duration lock_timeout = absl::Seconds(30);
};

using store::LoggedAttempt;

class MemoryDatabase;

class MemoryStore final : public store::Store {
 public:
  explicit MemoryStore(const MemoryStoreOptions& options = {});
  ~MemoryStore() override;

  absl::StatusOr<std::unique_ptr<store::WriteSession>> OpenWriteSession() override;
  absl::StatusOr<std::unique_ptr<store::ReadSession>> OpenReadSession() override;
  absl::StatusOr<std::unique_ptr<store::ControlSession>> OpenControlSession() override;
  absl::StatusOr<std::vector<std::string>> Migrate() override;
  absl::StatusOr<std::vector<std::string>> Check(size_t max_result_bytes) override;
  int max_write_sessions() const override { return options_.max_write_sessions; }
  absl::string_view engine() const override { return "memory"; }

  FaultScript& faults() { return faults_; }

  // The committed row, its large body included; unset where there is none.
  std::optional<core::OperationRow> Row(const core::OperationKey& key) const;
  // Writes a committed row as it is, behind the back of all sessions: another server's work, a
  // tombstone.
  void PutRow(const core::OperationKey& key, core::OperationRow row);
  void DeleteRow(const core::OperationKey& key);
  // Committed attempt rows of a key, in the order in which they were committed.
  std::vector<LoggedAttempt> Attempts(const core::OperationKey& key) const;

  core::DbTime now() const;
  int64_t commits() const;    // write transactions
  int open_sessions() const;  // sessions that were not destroyed yet
  int open_transactions() const;
  int64_t sessions_opened() const;

 private:
  const MemoryStoreOptions options_;
  FaultScript faults_;
  const std::unique_ptr<MemoryDatabase> database_;
};

}  // namespace once::test

#endif  // ONCE_TESTS_SUPPORT_MEMORY_STORE_H_
