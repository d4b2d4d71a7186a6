// Outcomes that Execute reports as errors. Pure functions.
#ifndef ONCE_CLIENT_SRC_OUTCOME_ERROR_H_
#define ONCE_CLIENT_SRC_OUTCOME_ERROR_H_

#include "absl/status/status.h"
#include "once/outcomes.h"
#include "once/types.h"

namespace once::client_internal {

absl::Status ErrorFor(const InProgress& outcome);
absl::Status ErrorFor(const Conflict& outcome);
absl::Status ErrorFor(const InDoubt& outcome);
absl::Status ErrorFor(const Stale& outcome);
absl::Status ErrorFor(const Expired& outcome);
absl::Status ErrorFor(const ClaimLost& outcome);
absl::Status ErrorFor(const CompletionConflict& outcome);

}  // namespace once::client_internal

#endif  // ONCE_CLIENT_SRC_OUTCOME_ERROR_H_
