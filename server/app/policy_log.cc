#include "app/policy_log.h"

#include <string>

namespace once::app {

void PolicyLog::OnPoliciesRead(const absl::Status& status, bool changed) {
  metrics_->OnPoliciesRead(status.ok());
  // Once for each time that something begins to go wrong, or goes wrong in another way.
  if (!status.ok() && status != last_) {
    log_->Warn("WARNING handler policies cannot be read; the last known ones stay in force",
               {{"error", std::string(status.message())}});
  }
  if (status.ok() && !last_.ok()) log_->Info("handler policies can be read again");
  if (changed) log_->Info("handler policies changed");
  last_ = status;
}

}  // namespace once::app
