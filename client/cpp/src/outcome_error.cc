#include "outcome_error.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "once/error.h"
#include "status_details.h"

namespace once::client_internal {
namespace {

using Metadata = std::map<std::string, std::string>;

std::string Text(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1)));
}

std::string Text(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone());
}

void Put(Metadata& metadata, const std::string& name, const std::optional<Digest>& digest) {
  if (!digest.has_value()) return;
  metadata[name] = digest->ToHex();
  metadata[name + "_scheme"] = std::string(ToString(digest->scheme));
}

absl::Status Error(absl::StatusCode code, ErrorReason reason, const std::string& message,
                   Metadata metadata, std::optional<absl::Duration> retry_delay = std::nullopt) {
  ErrorInfo info;
  info.reason = reason;
  info.metadata = std::move(metadata);
  info.retry_delay = retry_delay;
  return MakeError(code, message, info);
}

std::string MessageFor(const InProgress& outcome) {
  switch (outcome.reason) {
    case InProgress::Reason::kHeld:
      break;
    case InProgress::Reason::kDelayed:
      return absl::StrCat("the last attempt (consumer '", outcome.consumer,
                          "') asked that nobody tries for another ", Text(outcome.lease_remaining));
    case InProgress::Reason::kAggregateBusy:
      return absl::StrCat("operation '", absl::CHexEscape(outcome.blocking_event_id),
                          "' of the same aggregate has to end first: consumer '", outcome.consumer,
                          "', lease left ", Text(outcome.lease_remaining));
  }
  return absl::StrCat("another attempt holds the claim: consumer '", outcome.consumer,
                      "', lease left ", Text(outcome.lease_remaining));
}

}  // namespace

absl::Status ErrorFor(const InProgress& outcome) {
  Metadata metadata = {{"why", std::string(ToString(outcome.reason))},
                       {"consumer", outcome.consumer},
                       {"handler_version", outcome.handler_version},
                       {"lease_remaining", Text(outcome.lease_remaining)},
                       {"begin_time", Text(outcome.begin_time)},
                       {"attempt_number", absl::StrCat(outcome.attempt_number)}};
  Put(metadata, "first_digest", outcome.first_digest);
  if (!outcome.blocking_event_id.empty()) {
    metadata.emplace("blocking_event_id", absl::CHexEscape(outcome.blocking_event_id));
  }
  return Error(absl::StatusCode::kAborted, ErrorReason::kInProgress, MessageFor(outcome),
               std::move(metadata), outcome.suggested_wait);
}

absl::Status ErrorFor(const Conflict& outcome) {
  const bool scheme = outcome.difference == Conflict::Difference::kDigestScheme;
  Metadata metadata = {{"difference", scheme ? "DIGEST_SCHEME" : "DIGEST"},
                       {"state", std::string(ToString(outcome.state))},
                       {"consumer", outcome.consumer},
                       {"lease_remaining", Text(outcome.lease_remaining)},
                       {"first_begin_time", Text(outcome.first_begin_time)}};
  Put(metadata, "first_digest", outcome.first_digest);
  Put(metadata, "request_digest", outcome.request_digest);
  return Error(absl::StatusCode::kAlreadyExists, ErrorReason::kConflict,
               absl::StrCat("this identity was first used at ", Text(outcome.first_begin_time),
                            scheme ? " with another digest scheme" : " for other content",
                            "; the operation is ", ToString(outcome.state)),
               std::move(metadata));
}

absl::Status ErrorFor(const InDoubt& outcome) {
  Metadata metadata = {{"earlier_attempt_count", absl::StrCat(outcome.earlier_attempt_count)},
                       {"resolution", outcome.resolution}};
  if (!outcome.earlier_attempts.empty()) {
    const EarlierAttempt& latest = outcome.earlier_attempts.front();
    metadata["attempt_id"] = latest.attempt_id.ToString();
    metadata["fence"] = absl::StrCat(latest.fence.value);
    metadata["consumer"] = latest.consumer;
    metadata["lease_expire_time"] = Text(latest.lease_expire_time);
  }
  return Error(absl::StatusCode::kFailedPrecondition, ErrorReason::kInDoubt,
               absl::StrCat("the outcome of ", outcome.earlier_attempt_count,
                            " earlier attempt(s) is unknown: ", outcome.resolution),
               std::move(metadata));
}

absl::Status ErrorFor(const Stale& outcome) {
  return Error(absl::StatusCode::kFailedPrecondition, ErrorReason::kStale,
               absl::StrCat("version ", outcome.current.version, " of aggregate '",
                            outcome.current.id, "' is already done"),
               {{"aggregate", outcome.current.id},
                {"current_version", absl::StrCat(outcome.current.version)}});
}

absl::Status ErrorFor(const Expired& outcome) {
  return Error(
      absl::StatusCode::kFailedPrecondition, ErrorReason::kExpired,
      absl::StrCat("completed at ", Text(outcome.complete_time), " with ", ToString(outcome.status),
                   outcome.handler_version.empty()
                       ? ""
                       : absl::StrCat(" by version ", outcome.handler_version),
                   "; its receipt is no longer shown"),
      {{"status", std::string(ToString(outcome.status))},
       {"complete_time", Text(outcome.complete_time)},
       {"handler_version", outcome.handler_version}});
}

absl::Status ErrorFor(const ClaimLost& outcome) {
  Metadata metadata = {{"state", std::string(ToString(outcome.state))},
                       {"consumer", outcome.consumer},
                       {"fence", absl::StrCat(outcome.fence.value)}};
  std::string who = "nobody else has it";
  if (outcome.take_over_time.has_value()) {
    metadata["take_over_time"] = Text(*outcome.take_over_time);
    who = absl::StrCat("consumer '", outcome.consumer, "' took over at ",
                       Text(*outcome.take_over_time));
  }
  return Error(absl::StatusCode::kAborted, ErrorReason::kClaimLost,
               absl::StrCat("the handler ran, but the claim was lost (", who, "; the operation is ",
                            ToString(outcome.state), "): nothing was stored"),
               std::move(metadata));
}

absl::Status ErrorFor(const CompletionConflict& outcome) {
  return Error(absl::StatusCode::kAlreadyExists, ErrorReason::kCompletionConflict,
               absl::StrCat("this attempt completed at ", Text(outcome.receipt.complete_time),
                            " with another result, which stands"),
               {{"status", std::string(ToString(outcome.receipt.status))},
                {"complete_time", Text(outcome.receipt.complete_time)},
                {"fence", absl::StrCat(outcome.receipt.fence.value)}});
}

}  // namespace once::client_internal
