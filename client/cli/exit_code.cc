#include "exit_code.h"

#include <variant>

namespace once::cli {
namespace {

struct Codes {
  ExitCode completed;  // what a receipt means for this command

  ExitCode operator()(const Granted&) const { return ExitCode::kDone; }
  ExitCode operator()(const Claim&) const { return ExitCode::kDone; }
  ExitCode operator()(const Abandoned&) const { return ExitCode::kDone; }
  ExitCode operator()(const Released&) const { return ExitCode::kDone; }
  ExitCode operator()(const Completed&) const { return completed; }
  ExitCode operator()(const InProgress&) const { return ExitCode::kInProgress; }
  ExitCode operator()(const Conflict&) const { return ExitCode::kConflict; }
  ExitCode operator()(const CompletionConflict&) const { return ExitCode::kConflict; }
  ExitCode operator()(const InDoubt&) const { return ExitCode::kInDoubt; }
  ExitCode operator()(const Stale&) const { return ExitCode::kStale; }
  ExitCode operator()(const Expired&) const { return ExitCode::kExpired; }
  ExitCode operator()(const ClaimLost&) const { return ExitCode::kClaimLost; }
  ExitCode operator()(const Unclaimed&) const { return ExitCode::kUnclaimed; }
};

}  // namespace

ExitCode ExitCodeFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return ExitCode::kUsage;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
      return ExitCode::kTryAgain;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return ExitCode::kNotAllowed;
    case absl::StatusCode::kAlreadyExists:
      return ExitCode::kAlreadyExists;
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kDoNotUseReservedForFutureExpansionUseDefaultInSwitchInstead_:
      return ExitCode::kError;
  }
  return ExitCode::kError;
}

// A script that acts on status 0 of begin must not act on a receipt.
ExitCode ExitCodeFor(const BeginOutcome& outcome) {
  return std::visit(Codes{ExitCode::kCompleted}, outcome);
}
ExitCode ExitCodeFor(const CompleteOutcome& outcome) {
  return std::visit(Codes{ExitCode::kDone}, outcome);
}
ExitCode ExitCodeFor(const AbandonOutcome& outcome) {
  return std::visit(Codes{ExitCode::kDone}, outcome);
}
ExitCode ExitCodeFor(const RenewOutcome& outcome) {
  return std::visit(Codes{ExitCode::kDone}, outcome);
}
ExitCode ExitCodeFor(const LookupOutcome& outcome) {
  return std::visit(Codes{ExitCode::kDone}, outcome);
}

ExitCode ExitCodeFor(const ResolveOutcome& outcome) {
  return std::visit(Codes{ExitCode::kDone}, outcome);
}

ExitCode ExitCodeFor(const ResetOutcome& outcome) {
  return std::visit(Codes{ExitCode::kDone}, outcome);
}

}  // namespace once::cli
