// An oracle for commands that run side by side: collects what callers were told, and says at the
// end what of it cannot be true together. It knows the promises, not the implementation.
//
// Thread-safe.
#ifndef ONCE_TESTS_CONFORMANCE_HISTORY_H_
#define ONCE_TESTS_CONFORMANCE_HISTORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/decide.h"
#include "core/operation.h"
#include "core/types.h"
#include "store/batch.h"

namespace once::conformance {

class History {
 public:
  // Before the first try of a command. An Abandon whose answer is lost may have freed the claim.
  void Sent(const store::Command& command) ABSL_LOCKS_EXCLUDED(mutex_);
  // The answer that the caller got in the end.
  void Answered(const store::Command& command, const store::Answer& answer)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // What was broken, in words; empty where all is well.
  std::vector<std::string> Violations() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for one operation's row and the number of its log rows, as found at the end.
  std::vector<std::string> ViolationsAtEnd(const core::OperationKey& key,
                                           const std::optional<core::OperationRow>& row,
                                           size_t logged) const ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<core::OperationKey> keys() const ABSL_LOCKS_EXCLUDED(mutex_);
  // How often each outcome was answered; a test that never met some has tested less than it says.
  std::map<std::string, int> outcomes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct ClaimSeen {
    core::AttemptId attempt;
    std::optional<core::Digest> digest;  // of the Begin that was granted
    core::DbTime begun;
    core::DbTime lease_end;  // the latest that a caller was told
  };
  struct KeySeen {
    std::map<core::Fence, ClaimSeen> claims;
    std::set<core::Fence> maybe_freed;
    std::map<core::AttemptId, std::set<core::Sha256>> sent_results;
    std::optional<core::Completed> completed;
    std::vector<core::Digest> replayed_to;  // digests of Begins that were answered with the receipt
    size_t log_rows = 0;
    bool maybe_forgotten = false;
    std::vector<std::string> violations;
  };

  void SeeClaim(KeySeen& seen, const core::ClaimInfo& claim, std::optional<core::Digest> digest)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SeeCompleted(KeySeen& seen, const core::Completed& completed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void See(KeySeen& seen, const store::BeginCommand& command, const core::BeginOutcome& outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void See(KeySeen& seen, const store::CompleteCommand& command,
           const core::CompleteOutcome& outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void See(KeySeen& seen, const store::AbandonCommand& command, const core::AbandonOutcome& outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void See(KeySeen& seen, const store::RenewCommand& command, const core::RenewOutcome& outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  static void CheckClaims(const KeySeen& seen, std::vector<std::string>& violations);
  static void CheckReceipt(const KeySeen& seen, std::vector<std::string>& violations);

  mutable absl::Mutex mutex_;
  std::map<core::OperationKey, KeySeen> keys_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> outcomes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace once::conformance

#endif  // ONCE_TESTS_CONFORMANCE_HISTORY_H_
