// Logs and counts what becomes of the handler policies on this server: when others come into force,
// when they cannot be read any more, and when they can again.
//
// Used by one thread at a time.
#ifndef ONCE_APP_POLICY_LOG_H_
#define ONCE_APP_POLICY_LOG_H_

#include "absl/status/status.h"
#include "app/logging.h"
#include "app/metrics.h"
#include "policy/policy_cache.h"

namespace once::app {

class PolicyLog final : public policy::PolicyObserver {
 public:
  // Both must outlive it.
  PolicyLog(Log* log, Metrics* metrics) : log_(log), metrics_(metrics) {}

  void OnPoliciesRead(const absl::Status& status, bool changed) override;

 private:
  Log* const log_;
  Metrics* const metrics_;
  absl::Status last_;
};

}  // namespace once::app

#endif  // ONCE_APP_POLICY_LOG_H_
