// The exit codes of oncectl: what a script decides on. Documented in docs/reference/oncectl.md;
// never renumber.
#ifndef ONCE_CLIENT_CLI_EXIT_CODE_H_
#define ONCE_CLIENT_CLI_EXIT_CODE_H_

#include "absl/status/status.h"
#include "once/operator.h"
#include "once/outcomes.h"

namespace once::cli {

enum class ExitCode : int {
  kDone = 0,        // what was asked for: granted, stored, given back, renewed, a receipt found
  kError = 1,       // anything not below
  kDiffers = 1,     // policy diff: as diff(1)
  kUsage = 2,       // the command line, or a value that the server refuses: do not repeat unchanged
  kTryAgain = 3,    // no server, no answer in time, too busy: the same call again is safe
  kNotFound = 4,    // no such operation, tenant, credential or version of policies
  kNotAllowed = 5,  // no or a bad credential, or one without the right
  kAlreadyExists = 6,  // such a tenant exists
  kCompleted = 10,     // begin: done before, do not execute
  kInProgress = 11,
  kConflict = 12,
  kInDoubt = 13,
  kStale = 14,
  kExpired = 15,
  kClaimLost = 16,
  kUnclaimed = 17,  // lookup: nobody holds it
};

ExitCode ExitCodeFor(const absl::Status& status);
ExitCode ExitCodeFor(const BeginOutcome& outcome);
ExitCode ExitCodeFor(const CompleteOutcome& outcome);
ExitCode ExitCodeFor(const AbandonOutcome& outcome);
ExitCode ExitCodeFor(const RenewOutcome& outcome);
ExitCode ExitCodeFor(const LookupOutcome& outcome);
ExitCode ExitCodeFor(const ResolveOutcome& outcome);
ExitCode ExitCodeFor(const ResetOutcome& outcome);

}  // namespace once::cli

#endif  // ONCE_CLIENT_CLI_EXIT_CODE_H_
