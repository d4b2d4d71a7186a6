#include "core/decide.h"

#include <algorithm>
#include <utility>

#include "core/handler_policy.h"

namespace once::core {
namespace {

bool Lapsed(const OperationRow& row, DbTime now) {
  return row.state == RowState::kClaimed && row.claim.lease_expires <= now;
}

bool Holds(const OperationRow& row, AttemptId attempt, Fence fence) {
  return row.claim.attempt == attempt && row.claim.fence == fence;
}

absl::Duration LeaseRemaining(const OperationRow& row, DbTime now) {
  return std::max(absl::ZeroDuration(), row.claim.lease_expires - now);
}

Completed CompletedOf(const OperationRow& row, bool replayed) {
  return Completed{.receipt = *row.receipt,
                   .handler_version = row.claim.handler_version,
                   .fence = row.claim.fence,
                   .replayed = replayed};
}

Expired ExpiredOf(const OperationRow& row) {
  return Expired{.status = row.receipt->status,
                 .completed = row.receipt->completed,
                 .handler_version = row.claim.handler_version};
}

bool IsReadable(const OperationRow& row, const std::vector<std::string>& versions) {
  return versions.empty() ||
         std::any_of(versions.begin(), versions.end(), [&row](const std::string& pattern) {
           return MatchesPattern(pattern, row.claim.handler_version);
         });
}

// What a Begin or a Lookup is told of a completed operation.
template <typename Outcome>
Outcome ReplayOf(const OperationRow& row, const std::vector<std::string>& readable_versions) {
  if (!IsReadable(row, readable_versions)) return ExpiredOf(row);
  return CompletedOf(row, /*replayed=*/true);
}

InProgress InProgressOf(const OperationRow& row, InProgress::Reason reason, DbTime now) {
  return InProgress{.reason = reason,
                    .consumer = row.claim.consumer,
                    .handler_version = row.claim.handler_version,
                    .lease_remaining = LeaseRemaining(row, now),
                    .begun = row.claim.begun,
                    .attempt_number = row.claims,
                    .first_digest = row.digest,
                    .blocking_event_id = {}};
}

// The attempts whose outcome nobody knows: the lapsed holder, then the one it had taken over from.
InDoubt InDoubtOf(const OperationRow& row, LapsePolicy on_lapse, DbTime now) {
  InDoubt doubt{.earlier_attempts = {},
                .earlier_attempt_count = row.unknown_attempts,
                .probe_allowed = on_lapse == LapsePolicy::kProbe};
  if (Lapsed(row, now)) {
    doubt.earlier_attempts.push_back(row.claim);
    ++doubt.earlier_attempt_count;
  }
  if (row.unknown.has_value()) {
    doubt.earlier_attempts.push_back(*row.unknown);
  }
  return doubt;
}

std::optional<Conflict> ConflictOf(const OperationRow& row, const Digest& digest,
                                   LapsePolicy on_lapse, DbTime now) {
  if (row.digest == digest) {
    return std::nullopt;
  }
  const OperationState state = StateOf(row, on_lapse, now);
  return Conflict{.difference = row.digest.scheme == digest.scheme ? Conflict::Difference::kDigest
                                                                   : Conflict::Difference::kScheme,
                  .first_digest = row.digest,
                  .request_digest = digest,
                  .state = state,
                  .consumer = row.claim.consumer,
                  .lease_remaining = state == OperationState::kClaimed ? LeaseRemaining(row, now)
                                                                       : absl::ZeroDuration(),
                  .first_seen = row.first_seen};
}

ClaimLost ClaimLostOf(const OperationRow& row, AttemptId attempt, Fence fence, DbTime now) {
  ClaimLost lost{.state = StateOf(row, LapsePolicy::kRetry, now),
                 .consumer = {},
                 .fence = row.claim.fence,
                 .begun = {}};
  if (!Holds(row, attempt, fence)) {
    lost.consumer = row.claim.consumer;
    lost.begun = row.claim.begun;
  }
  return lost;
}

// The mark of a recovery follows from the row and the request alone, so that a repeat is answered
// as the first was, whatever the policy says by then.
Granted GrantedOf(const OperationRow& row, const BeginRequest& request, DbTime now) {
  return Granted{.claim = row.claim,
                 .lease_remaining = LeaseRemaining(row, now),
                 .attempt_number = row.claims,
                 .earlier_attempt = row.unknown,
                 .recovery = row.unknown.has_value() && request.can_probe};
}

// Whether `request` may run although an earlier attempt's outcome is unknown.
bool MayRunAgain(const BeginRequest& request) {
  switch (request.on_lapse) {
    case LapsePolicy::kRetry:
      return true;
    case LapsePolicy::kInDoubt:
      return false;
    case LapsePolicy::kProbe:
      return request.can_probe;
  }
  return false;
}

Decision<BeginOutcome> GrantNewClaim(OperationRow row, const BeginRequest& request, DbTime now) {
  row.state = RowState::kClaimed;
  row.claim = ClaimInfo{.attempt = request.attempt,
                        .fence = {std::max(row.claim.fence.value + 1, now.micros)},
                        .consumer = request.consumer,
                        .handler_version = request.handler_version,
                        .begun = now,
                        .lease_expires = now + request.lease};
  ++row.claims;
  Granted granted = GrantedOf(row, request, now);
  return {.outcome = std::move(granted), .row_after = std::move(row)};
}

Decision<BeginOutcome> GrantAgain(const OperationRow& row, const BeginRequest& request,
                                  DbTime now) {
  if (row.claim.lease_expires - now >= request.lease / 2) {
    return {.outcome = GrantedOf(row, request, now), .row_after = std::nullopt};
  }
  OperationRow after = row;
  after.claim.lease_expires = now + request.lease;
  Granted granted = GrantedOf(after, request, now);
  return {.outcome = std::move(granted), .row_after = std::move(after)};
}

Decision<BeginOutcome> TakeOver(OperationRow row, const BeginRequest& request, DbTime now) {
  row.unknown = row.claim;
  ++row.unknown_attempts;
  return GrantNewClaim(std::move(row), request, now);
}

Decision<BeginOutcome> BeginOnReleased(const OperationRow& row, const BeginRequest& request,
                                       DbTime now) {
  if (now < row.claim.lease_expires) {
    return {.outcome = InProgressOf(row, InProgress::Reason::kDelayed, now),
            .row_after = std::nullopt};
  }
  // The release says nothing about the attempt that the releasing one had taken over from.
  if (row.unknown.has_value() && !MayRunAgain(request)) {
    return {.outcome = InDoubtOf(row, request.on_lapse, now), .row_after = std::nullopt};
  }
  return GrantNewClaim(row, request, now);
}

Decision<BeginOutcome> BeginOnClaimed(const OperationRow& row, const BeginRequest& request,
                                      DbTime now) {
  if (row.claim.attempt == request.attempt) {
    return GrantAgain(row, request, now);
  }
  if (!Lapsed(row, now)) {
    return {.outcome = InProgressOf(row, InProgress::Reason::kHeld, now),
            .row_after = std::nullopt};
  }
  if (!MayRunAgain(request)) {
    return {.outcome = InDoubtOf(row, request.on_lapse, now), .row_after = std::nullopt};
  }
  return TakeOver(row, request, now);
}

}  // namespace

OperationState StateOf(const OperationRow& row, LapsePolicy on_lapse, DbTime now) {
  switch (row.state) {
    case RowState::kClaimed:
      if (!Lapsed(row, now)) {
        return OperationState::kClaimed;
      }
      return on_lapse == LapsePolicy::kRetry ? OperationState::kLapsed : OperationState::kInDoubt;
    case RowState::kReleased:
      return row.unknown.has_value() && on_lapse != LapsePolicy::kRetry ? OperationState::kInDoubt
                                                                        : OperationState::kReleased;
    case RowState::kCompleted:
      return OperationState::kCompleted;
    case RowState::kTombstone:
      return OperationState::kTombstone;
  }
  return OperationState::kTombstone;
}

OperationRow NewRow(const BeginRequest& request, DbTime now) {
  OperationRow row;
  row.digest = request.digest;
  row.claim = ClaimInfo{.attempt = request.attempt,
                        .fence = {now.micros},
                        .consumer = request.consumer,
                        .handler_version = request.handler_version,
                        .begun = now,
                        .lease_expires = now + request.lease};
  row.first_seen = now;
  return row;
}

Decision<BeginOutcome> DecideBegin(const OperationRow& row, const BeginRequest& request,
                                   DbTime now) {
  if (auto conflict = ConflictOf(row, request.digest, request.on_lapse, now)) {
    return {.outcome = *std::move(conflict), .row_after = std::nullopt};
  }
  switch (row.state) {
    case RowState::kCompleted:
      return {.outcome = ReplayOf<BeginOutcome>(row, request.readable_versions),
              .row_after = std::nullopt};
    case RowState::kTombstone:
      return {.outcome = ExpiredOf(row), .row_after = std::nullopt};
    case RowState::kReleased:
      return BeginOnReleased(row, request, now);
    case RowState::kClaimed:
      break;
  }
  return BeginOnClaimed(row, request, now);
}

Decision<CompleteOutcome> DecideComplete(const OperationRow* row, const CompleteRequest& request,
                                         DbTime now) {
  if (row == nullptr) {
    return {.outcome = NotFound{}, .row_after = std::nullopt};
  }
  if (!Holds(*row, request.attempt, request.fence) || row->state == RowState::kReleased) {
    return {.outcome = ClaimLostOf(*row, request.attempt, request.fence, now),
            .row_after = std::nullopt};
  }
  if (row->receipt.has_value()) {
    Completed stored = CompletedOf(*row, /*replayed=*/true);
    if (stored.receipt.fingerprint != request.fingerprint) {
      return {.outcome = CompletionConflict{std::move(stored)}, .row_after = std::nullopt};
    }
    stored.receipt.result = request.result;  // the same bytes, also where only a tombstone is left
    return {.outcome = std::move(stored), .row_after = std::nullopt};
  }
  OperationRow after = *row;
  after.state = RowState::kCompleted;
  after.receipt = Receipt{.status = request.status,
                          .content_type = request.content_type,
                          .result_size = static_cast<int64_t>(request.result.size()),
                          .fingerprint = request.fingerprint,
                          .completed = now,
                          .result = request.result};
  Completed completed = CompletedOf(after, /*replayed=*/false);
  return {.outcome = std::move(completed), .row_after = std::move(after)};
}

Decision<AbandonOutcome> DecideAbandon(const OperationRow* row, const AbandonRequest& request,
                                       DbTime now) {
  if (row == nullptr) {
    // A forgotten operation leaves no row: a repeated forget has nothing left to do.
    if (request.forget) {
      return {.outcome = Abandoned{.forgotten = true}, .row_after = std::nullopt};
    }
    return {.outcome = NotFound{}, .row_after = std::nullopt};
  }
  if (!Holds(*row, request.attempt, request.fence) || row->receipt.has_value()) {
    return {.outcome = ClaimLostOf(*row, request.attempt, request.fence, now),
            .row_after = std::nullopt};
  }
  if (row->state == RowState::kReleased) {
    return {.outcome = Abandoned{.forgotten = false}, .row_after = std::nullopt};
  }
  // Forgetting would hide an earlier attempt whose outcome is unknown.
  if (request.forget && !row->unknown.has_value()) {
    return {.outcome = Abandoned{.forgotten = true}, .row_after = std::nullopt, .delete_row = true};
  }
  OperationRow after = *row;
  after.state = RowState::kReleased;
  after.claim.lease_expires = now + request.retry_delay;
  return {.outcome = Abandoned{.forgotten = false}, .row_after = std::move(after)};
}

Decision<RenewOutcome> DecideRenew(const OperationRow* row, const RenewRequest& request,
                                   DbTime now) {
  if (row == nullptr) {
    return {.outcome = NotFound{}, .row_after = std::nullopt};
  }
  if (!Holds(*row, request.attempt, request.fence) || row->state != RowState::kClaimed) {
    return {.outcome = ClaimLostOf(*row, request.attempt, request.fence, now),
            .row_after = std::nullopt};
  }
  OperationRow after = *row;
  after.claim.lease_expires = std::max(row->claim.lease_expires, now + request.lease);
  Renewed renewed{.claim = after.claim, .lease_remaining = LeaseRemaining(after, now)};
  return {.outcome = std::move(renewed), .row_after = std::move(after)};
}

Decision<ResolveOutcome> DecideResolve(const OperationRow* row, const ResolveRequest& request,
                                       DbTime now) {
  if (row == nullptr) {
    return {.outcome = NotFound{}, .row_after = std::nullopt};
  }
  if (!Holds(*row, request.attempt, request.fence)) {
    return {.outcome = ClaimLostOf(*row, request.attempt, request.fence, now),
            .row_after = std::nullopt};
  }
  if (row->receipt.has_value()) {
    Completed stored = CompletedOf(*row, /*replayed=*/true);
    if (request.verdict == Verdict::kNotDone || stored.receipt.fingerprint != request.fingerprint) {
      return {.outcome = CompletionConflict{std::move(stored)}, .row_after = std::nullopt};
    }
    stored.receipt.result = request.result;
    return {.outcome = std::move(stored), .row_after = std::nullopt};
  }
  if (row->state == RowState::kClaimed && !Lapsed(*row, now)) {
    return {.outcome = InProgressOf(*row, InProgress::Reason::kHeld, now),
            .row_after = std::nullopt};
  }
  if (request.verdict == Verdict::kNotDone) {
    if (row->state == RowState::kReleased && !row->unknown.has_value()) {
      return {.outcome = Released{}, .row_after = std::nullopt};
    }
    OperationRow after = *row;
    after.state = RowState::kReleased;
    after.claim.lease_expires = std::min(row->claim.lease_expires, now);
    after.unknown.reset();
    after.unknown_attempts = 0;
    return {.outcome = Released{}, .row_after = std::move(after)};
  }
  OperationRow after = *row;
  after.state = RowState::kCompleted;
  after.receipt = Receipt{.status = request.verdict == Verdict::kDone ? ReceiptStatus::kSucceeded
                                                                      : ReceiptStatus::kRejected,
                          .content_type = request.content_type,
                          .result_size = static_cast<int64_t>(request.result.size()),
                          .fingerprint = request.fingerprint,
                          .completed = now,
                          .result = request.result};
  Completed completed = CompletedOf(after, /*replayed=*/false);
  return {.outcome = std::move(completed), .row_after = std::move(after)};
}

Decision<ResetOutcome> DecideReset(const OperationRow* row, const ResetRequest& request,
                                   DbTime now) {
  if (row == nullptr) {
    return {.outcome = NotFound{}, .row_after = std::nullopt};
  }
  if (row->claim.fence != request.fence) {
    return {.outcome = ClaimLostOf(*row, AttemptId{}, request.fence, now),
            .row_after = std::nullopt};
  }
  if (row->state == RowState::kClaimed) {
    return {.outcome = InProgressOf(*row, InProgress::Reason::kHeld, now),
            .row_after = std::nullopt};
  }
  if (!row->receipt.has_value()) {
    return {.outcome = Released{}, .row_after = std::nullopt};  // it was reset, or given back
  }
  OperationRow after = *row;
  after.state = RowState::kReleased;
  after.receipt.reset();
  after.unknown.reset();
  after.unknown_attempts = 0;
  after.claim.lease_expires = std::min(row->claim.lease_expires, now);
  return {.outcome = Released{}, .row_after = std::move(after)};
}

LookupOutcome DecideLookup(const OperationRow* row, const LookupRequest& request, DbTime now) {
  if (row == nullptr) {
    return NotFound{};
  }
  if (request.digest.has_value()) {
    if (auto conflict = ConflictOf(*row, *request.digest, request.on_lapse, now)) {
      return *std::move(conflict);
    }
  }
  const OperationState state = StateOf(*row, request.on_lapse, now);
  switch (state) {
    case OperationState::kCompleted:
      return ReplayOf<LookupOutcome>(*row, request.readable_versions);
    case OperationState::kTombstone:
      return ExpiredOf(*row);
    case OperationState::kInDoubt:
      return InDoubtOf(*row, request.on_lapse, now);
    case OperationState::kClaimed:
      return InProgressOf(*row, InProgress::Reason::kHeld, now);
    case OperationState::kReleased:
      if (now < row->claim.lease_expires) {
        return InProgressOf(*row, InProgress::Reason::kDelayed, now);
      }
      return Unclaimed{.state = state, .earlier_attempt = row->unknown};
    case OperationState::kLapsed:
      break;
  }
  return Unclaimed{.state = state, .earlier_attempt = row->claim};
}

}  // namespace once::core
