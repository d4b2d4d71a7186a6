#include "rpc/response.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "rpc/wire_time.h"

namespace once::rpc {
namespace {

constexpr size_t kMaxEarlierAttempts = 10;

// Clients refuse messages above 4 MiB.
constexpr size_t kPastResultBytes = size_t{2} << 20;

constexpr char kResolution[] =
    "Find out from the business data (or the fence table) whether the earlier attempt acted. If it "
    "did, call Complete with its attempt id and fence; if it did not, call Abandon with RELEASE. "
    "An operator can Resolve it with the evidence. The same attempt may also Begin again.";

constexpr char kProbe[] =
    "A consumer that asks its business data before it acts is granted the claim: Begin with "
    "can_probe. Otherwise: ";

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

std::string ToBytes(const core::AttemptId& id) {
  return std::string(reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size());
}

v1::DigestScheme ToWire(core::DigestScheme scheme) {
  switch (scheme) {
    case core::DigestScheme::kRawSha256:
      return v1::DIGEST_SCHEME_RAW_SHA256;
    case core::DigestScheme::kJsonJcsSha256:
      return v1::DIGEST_SCHEME_JSON_JCS_SHA256;
  }
  return v1::DIGEST_SCHEME_UNSPECIFIED;
}

v1::ReceiptStatus ToWire(core::ReceiptStatus status) {
  switch (status) {
    case core::ReceiptStatus::kSucceeded:
      return v1::RECEIPT_STATUS_SUCCEEDED;
    case core::ReceiptStatus::kRejected:
      return v1::RECEIPT_STATUS_REJECTED;
  }
  return v1::RECEIPT_STATUS_UNSPECIFIED;
}

v1::OperationState ToWire(core::OperationState state) {
  switch (state) {
    case core::OperationState::kClaimed:
      return v1::OPERATION_STATE_CLAIMED;
    case core::OperationState::kLapsed:
      return v1::OPERATION_STATE_LAPSED;
    case core::OperationState::kInDoubt:
      return v1::OPERATION_STATE_IN_DOUBT;
    case core::OperationState::kReleased:
      return v1::OPERATION_STATE_RELEASED;
    case core::OperationState::kCompleted:
      return v1::OPERATION_STATE_COMPLETED;
    case core::OperationState::kTombstone:
      return v1::OPERATION_STATE_TOMBSTONE;
  }
  return v1::OPERATION_STATE_UNSPECIFIED;
}

v1::InProgress::Reason ToWire(core::InProgress::Reason reason) {
  switch (reason) {
    case core::InProgress::Reason::kHeld:
      return v1::InProgress::REASON_HELD;
    case core::InProgress::Reason::kDelayed:
      return v1::InProgress::REASON_DELAYED;
    case core::InProgress::Reason::kAggregateBusy:
      return v1::InProgress::REASON_AGGREGATE_BUSY;
  }
  return v1::InProgress::REASON_UNSPECIFIED;
}

v1::Conflict::Difference ToWire(core::Conflict::Difference difference) {
  switch (difference) {
    case core::Conflict::Difference::kDigest:
      return v1::Conflict::DIFFERENCE_DIGEST;
    case core::Conflict::Difference::kScheme:
      return v1::Conflict::DIFFERENCE_DIGEST_SCHEME;
  }
  return v1::Conflict::DIFFERENCE_UNSPECIFIED;
}

void Fill(const core::Digest& digest, v1::ContentDigest* out) {
  out->set_scheme(ToWire(digest.scheme));
  out->set_sha256(digest.sha256.data(), digest.sha256.size());
}

void Fill(const core::ClaimInfo& claim, absl::Duration lease_remaining, v1::Claim* out) {
  out->set_attempt_id(ToBytes(claim.attempt));
  out->set_fence(claim.fence.value);
  FillDuration(lease_remaining, out->mutable_lease_remaining());
  FillTimestamp(claim.lease_expires, out->mutable_lease_expire_time());
}

// v1::EarlierAttempt and v1::AttemptClaim say the same of a claim.
template <typename Message>
void Fill(core::ClaimInfo&& claim, Message* out) {
  out->set_attempt_id(ToBytes(claim.attempt));
  out->set_fence(claim.fence.value);
  out->set_consumer(std::move(claim.consumer));
  out->set_handler_version(std::move(claim.handler_version));
  FillTimestamp(claim.begun, out->mutable_begin_time());
  FillTimestamp(claim.lease_expires, out->mutable_lease_expire_time());
}

void Fill(core::Granted&& granted, v1::Granted* out) {
  Fill(granted.claim, granted.lease_remaining, out->mutable_claim());
  out->set_attempt_number(granted.attempt_number);
  if (granted.earlier_attempt.has_value()) {
    Fill(*std::move(granted.earlier_attempt), out->mutable_earlier_attempt());
  }
  out->set_recovery(granted.recovery);
}

void Fill(core::Completed&& completed, v1::Receipt* out) {
  core::Receipt& receipt = completed.receipt;
  out->set_status(ToWire(receipt.status));
  if (receipt.result.has_value()) {
    out->set_result(*std::move(receipt.result));
  }
  // Never an empty result in place of one that is not here.
  out->set_result_omitted(!receipt.result.has_value() && receipt.result_size > 0);
  out->set_content_type(std::move(receipt.content_type));
  out->set_handler_version(std::move(completed.handler_version));
  FillTimestamp(receipt.completed, out->mutable_complete_time());
  out->set_fence(completed.fence.value);
  out->set_result_size(receipt.result_size);
}

void Fill(core::Completed&& completed, const OperationFacts& facts, v1::Completed* out) {
  out->set_replayed(completed.replayed);
  if (facts.dedupe_retention.has_value()) {
    FillTimestamp(completed.receipt.completed + *facts.dedupe_retention,
                  out->mutable_dedupe_guaranteed_until_time());
  }
  Fill(std::move(completed), out->mutable_receipt());
}

// Who holds a claim may finish at any moment, so asking again at a fraction of the lease is worth
// it; a delay ends when it ends.
absl::Duration SuggestedWait(const core::InProgress& in_progress) {
  switch (in_progress.reason) {
    case core::InProgress::Reason::kDelayed:
      return in_progress.lease_remaining;
    case core::InProgress::Reason::kHeld:
    case core::InProgress::Reason::kAggregateBusy:
      break;
  }
  return std::clamp(in_progress.lease_remaining / 8, absl::Milliseconds(50), absl::Seconds(1));
}

void Fill(core::InProgress&& in_progress, v1::InProgress* out) {
  FillDuration(in_progress.lease_remaining, out->mutable_lease_remaining());
  FillDuration(SuggestedWait(in_progress), out->mutable_suggested_wait());
  out->set_reason(ToWire(in_progress.reason));
  FillTimestamp(in_progress.begun, out->mutable_begin_time());
  out->set_attempt_number(in_progress.attempt_number);
  if (in_progress.first_digest.has_value()) {
    Fill(*in_progress.first_digest, out->mutable_first_digest());
  }
  out->set_blocking_event_id(std::move(in_progress.blocking_event_id));
  out->set_consumer(std::move(in_progress.consumer));
  out->set_handler_version(std::move(in_progress.handler_version));
}

void Fill(core::Conflict&& conflict, v1::Conflict* out) {
  out->set_difference(ToWire(conflict.difference));
  Fill(conflict.first_digest, out->mutable_first_digest());
  Fill(conflict.request_digest, out->mutable_request_digest());
  out->set_state(ToWire(conflict.state));
  out->set_consumer(std::move(conflict.consumer));
  if (conflict.state == core::OperationState::kClaimed) {
    FillDuration(conflict.lease_remaining, out->mutable_lease_remaining());
  }
  FillTimestamp(conflict.first_seen, out->mutable_first_begin_time());
}

void Fill(core::InDoubt&& in_doubt, v1::InDoubt* out) {
  const size_t shown = std::min(in_doubt.earlier_attempts.size(), kMaxEarlierAttempts);
  for (size_t i = 0; i < shown; ++i) {
    Fill(std::move(in_doubt.earlier_attempts[i]), out->add_earlier_attempts());
  }
  out->set_earlier_attempt_count(in_doubt.earlier_attempt_count);
  out->set_probe_allowed(in_doubt.probe_allowed);
  out->set_resolution(in_doubt.probe_allowed ? absl::StrCat(kProbe, kResolution)
                                             : std::string(kResolution));
}

void Fill(core::Stale&& stale, v1::Stale* out) {
  out->mutable_current()->set_id(std::move(stale.aggregate_id));
  out->mutable_current()->set_version(stale.current_version);
  out->set_current_event_id(std::move(stale.current_event_id));
}

void Fill(core::Expired&& expired, v1::Expired* out) {
  out->set_status(ToWire(expired.status));
  FillTimestamp(expired.completed, out->mutable_complete_time());
  out->set_handler_version(std::move(expired.handler_version));
}

void Fill(core::Unclaimed&& unclaimed, v1::Unclaimed* out) {
  out->set_state(ToWire(unclaimed.state));
  if (unclaimed.earlier_attempt.has_value()) {
    Fill(*std::move(unclaimed.earlier_attempt), out->mutable_earlier_attempt());
  }
}

void Fill(core::ClaimLost&& lost, v1::ClaimLost* out) {
  out->set_state(ToWire(lost.state));
  out->set_fence(lost.fence.value);
  out->set_consumer(std::move(lost.consumer));
  if (lost.begun.micros != 0) {
    FillTimestamp(lost.begun, out->mutable_take_over_time());
  }
}

absl::Status OperationNotFound(absl::string_view handler) {
  return base::MakeError(base::ErrorReason::kOperationNotFound,
                         "no such operation: it was never begun, or it was forgotten",
                         {{"handler", std::string(handler)}});
}

using Name = absl::StatusOr<absl::string_view>;

Name NameOf(const core::Completed& completed) {
  return completed.replayed ? "replayed" : "completed";
}

}  // namespace

Name FillResponse(core::BeginOutcome&& outcome, const OperationFacts& facts,
                  v1::BeginResponse* response) {
  return std::visit(Overloaded{
                        [&](core::Granted&& granted) -> Name {
                          Fill(std::move(granted), response->mutable_granted());
                          return "granted";
                        },
                        [&](core::Completed&& completed) -> Name {
                          Name name = NameOf(completed);
                          Fill(std::move(completed), facts, response->mutable_completed());
                          return name;
                        },
                        [&](core::InProgress&& in_progress) -> Name {
                          Fill(std::move(in_progress), response->mutable_in_progress());
                          return "in_progress";
                        },
                        [&](core::Conflict&& conflict) -> Name {
                          Fill(std::move(conflict), response->mutable_conflict());
                          return "conflict";
                        },
                        [&](core::InDoubt&& in_doubt) -> Name {
                          Fill(std::move(in_doubt), response->mutable_in_doubt());
                          return "in_doubt";
                        },
                        [&](core::Stale&& stale) -> Name {
                          Fill(std::move(stale), response->mutable_stale());
                          return "stale";
                        },
                        [&](core::Expired&& expired) -> Name {
                          Fill(std::move(expired), response->mutable_expired());
                          return "expired";
                        },
                    },
                    std::move(outcome));
}

Name FillResponse(core::CompleteOutcome&& outcome, const OperationFacts& facts,
                  v1::CompleteResponse* response) {
  return std::visit(Overloaded{
                        [&](core::Completed&& completed) -> Name {
                          Name name = NameOf(completed);
                          Fill(std::move(completed), facts, response->mutable_completed());
                          return name;
                        },
                        [&](core::ClaimLost&& lost) -> Name {
                          Fill(std::move(lost), response->mutable_claim_lost());
                          return "claim_lost";
                        },
                        [&](core::CompletionConflict&& conflict) -> Name {
                          Fill(std::move(conflict.stored),
                               response->mutable_conflict()->mutable_receipt());
                          return "completion_conflict";
                        },
                        [&](core::NotFound&&) -> Name { return OperationNotFound(facts.handler); },
                    },
                    std::move(outcome));
}

Name FillResponse(core::AbandonOutcome&& outcome, const OperationFacts& facts,
                  v1::AbandonResponse* response) {
  return std::visit(Overloaded{
                        [&](core::Abandoned&& abandoned) -> Name {
                          response->mutable_abandoned()->set_mode(
                              abandoned.forgotten ? v1::AbandonRequest::MODE_FORGET
                                                  : v1::AbandonRequest::MODE_RELEASE);
                          return abandoned.forgotten ? "forgotten" : "released";
                        },
                        [&](core::ClaimLost&& lost) -> Name {
                          Fill(std::move(lost), response->mutable_claim_lost());
                          return "claim_lost";
                        },
                        [&](core::NotFound&&) -> Name { return OperationNotFound(facts.handler); },
                    },
                    std::move(outcome));
}

Name FillResponse(core::RenewOutcome&& outcome, const OperationFacts& facts,
                  v1::RenewResponse* response) {
  return std::visit(Overloaded{
                        [&](core::Renewed&& renewed) -> Name {
                          Fill(renewed.claim, renewed.lease_remaining, response->mutable_claim());
                          return "renewed";
                        },
                        [&](core::ClaimLost&& lost) -> Name {
                          Fill(std::move(lost), response->mutable_claim_lost());
                          return "claim_lost";
                        },
                        [&](core::NotFound&&) -> Name { return OperationNotFound(facts.handler); },
                    },
                    std::move(outcome));
}

Name FillResponse(core::ResolveOutcome&& outcome, const OperationFacts& facts,
                  v1::ResolveResponse* response) {
  return std::visit(Overloaded{
                        [&](core::Completed&& completed) -> Name {
                          Name name = NameOf(completed);
                          Fill(std::move(completed), facts, response->mutable_completed());
                          return name;
                        },
                        [&](core::Released&&) -> Name {
                          response->mutable_released();
                          return "released";
                        },
                        [&](core::InProgress&& in_progress) -> Name {
                          Fill(std::move(in_progress), response->mutable_in_progress());
                          return "in_progress";
                        },
                        [&](core::ClaimLost&& lost) -> Name {
                          Fill(std::move(lost), response->mutable_claim_lost());
                          return "claim_lost";
                        },
                        [&](core::CompletionConflict&& conflict) -> Name {
                          Fill(std::move(conflict.stored),
                               response->mutable_conflict()->mutable_receipt());
                          return "conflict";
                        },
                        [&](core::NotFound&&) -> Name { return OperationNotFound(facts.handler); },
                    },
                    std::move(outcome));
}

Name FillResponse(core::ResetOutcome&& outcome, const OperationFacts& facts,
                  v1::ResetResponse* response) {
  return std::visit(Overloaded{
                        [&](core::Released&&) -> Name {
                          response->mutable_released();
                          return "released";
                        },
                        [&](core::InProgress&& in_progress) -> Name {
                          Fill(std::move(in_progress), response->mutable_in_progress());
                          return "in_progress";
                        },
                        [&](core::ClaimLost&& lost) -> Name {
                          Fill(std::move(lost), response->mutable_claim_lost());
                          return "claim_lost";
                        },
                        [&](core::NotFound&&) -> Name { return OperationNotFound(facts.handler); },
                    },
                    std::move(outcome));
}

void FillPastReceipts(std::vector<store::PastReceipt>&& past, v1::Operation* out) {
  size_t left = kPastResultBytes;
  for (store::PastReceipt& one : past) {
    v1::PastReceipt* const shown = out->add_past_receipts();
    if (one.receipt.result.has_value() && one.receipt.result->size() > left) {
      one.receipt.result.reset();
    }
    if (one.receipt.result.has_value()) left -= one.receipt.result->size();
    Fill(core::Completed{.receipt = std::move(one.receipt),
                         .handler_version = std::move(one.handler_version),
                         .fence = one.fence},
         shown->mutable_receipt());
    shown->set_attempt_id(ToBytes(one.attempt));
    FillTimestamp(one.reset, shown->mutable_reset_time());
    shown->set_credential_id(std::move(one.author.credential_id));
    shown->set_reason(std::move(one.author.reason));
  }
}

void FillOperation(const ShownOperation& shown, core::OperationRow&& row, core::DbTime now,
                   v1::Operation* out) {
  out->set_handler(std::string(shown.handler));
  out->set_event_id(std::string(shown.event_id));
  const core::OperationState state = core::StateOf(row, shown.on_lapse, now);
  out->set_state(ToWire(state));
  Fill(row.digest, out->mutable_digest());
  if (state == core::OperationState::kClaimed) {
    FillDuration(row.claim.lease_expires - now, out->mutable_lease_remaining());
  }
  out->set_attempt_number(row.claims);
  out->set_earlier_attempt_count(row.unknown_attempts);
  out->set_delivery_count(row.deliveries);
  FillTimestamp(row.first_seen, out->mutable_first_begin_time());
  if (row.unknown.has_value()) Fill(*std::move(row.unknown), out->mutable_earlier_attempt());
  if (row.receipt.has_value()) {
    v1::Receipt* const receipt = out->mutable_receipt();
    Fill(core::Completed{.receipt = *std::move(row.receipt),
                         .handler_version = row.claim.handler_version,
                         .fence = row.claim.fence},
         receipt);
    receipt->clear_result();
    receipt->set_result_omitted(receipt->result_size() > 0);
  }
  Fill(std::move(row.claim), out->mutable_latest_claim());
}

void FillAttempt(store::LoggedAttempt&& logged, v1::LoggedAttempt* out) {
  store::AttemptEntry& entry = logged.entry;
  FillTimestamp(logged.logged, out->mutable_log_time());
  // The numbers are the same, and documented as such.
  const int kind = static_cast<int>(entry.kind);
  if (v1::LoggedAttempt::Kind_IsValid(kind)) {
    out->set_kind(static_cast<v1::LoggedAttempt::Kind>(kind));
  }
  const int outcome = static_cast<int>(entry.outcome);
  if (v1::LoggedAttempt::Outcome_IsValid(outcome)) {
    out->set_outcome(static_cast<v1::LoggedAttempt::Outcome>(outcome));
  }
  out->set_attempt_id(ToBytes(entry.attempt));
  out->set_fence(entry.fence.value);
  out->set_attempt_number(entry.attempt_number);
  if (entry.digest.has_value()) Fill(*entry.digest, out->mutable_digest());
  out->set_consumer(std::move(entry.consumer));
  out->set_handler_version(std::move(entry.handler_version));
  out->set_note(std::move(entry.note));
  store::DeliveryInfo& delivery = entry.delivery;
  if (!delivery.reference.empty() || delivery.source != 0) {
    out->mutable_delivery()->set_reference(std::move(delivery.reference));
    out->mutable_delivery()->set_source(static_cast<v1::DeliverySource>(delivery.source));
  }
  if (!delivery.cause_handler.empty()) {
    out->mutable_causation()->set_handler(std::move(delivery.cause_handler));
    out->mutable_causation()->set_event_id(std::move(delivery.cause_event_id));
    out->mutable_causation()->set_reason(std::move(delivery.cause_reason));
  }
  if (!delivery.aggregate_id.empty()) {
    out->mutable_aggregate()->set_id(std::move(delivery.aggregate_id));
    out->mutable_aggregate()->set_version(delivery.aggregate_version);
  }
}

Name FillResponse(core::LookupOutcome&& outcome, const OperationFacts& facts,
                  v1::LookupResponse* response) {
  return std::visit(Overloaded{
                        [&](core::Completed&& completed) -> Name {
                          Name name = NameOf(completed);
                          Fill(std::move(completed), facts, response->mutable_completed());
                          return name;
                        },
                        [&](core::InProgress&& in_progress) -> Name {
                          Fill(std::move(in_progress), response->mutable_in_progress());
                          return "in_progress";
                        },
                        [&](core::Conflict&& conflict) -> Name {
                          Fill(std::move(conflict), response->mutable_conflict());
                          return "conflict";
                        },
                        [&](core::InDoubt&& in_doubt) -> Name {
                          Fill(std::move(in_doubt), response->mutable_in_doubt());
                          return "in_doubt";
                        },
                        [&](core::Expired&& expired) -> Name {
                          Fill(std::move(expired), response->mutable_expired());
                          return "expired";
                        },
                        [&](core::Unclaimed&& unclaimed) -> Name {
                          Fill(std::move(unclaimed), response->mutable_unclaimed());
                          return "unclaimed";
                        },
                        [&](core::NotFound&&) -> Name { return OperationNotFound(facts.handler); },
                    },
                    std::move(outcome));
}

v1::Receipt* ReceiptOf(v1::BeginResponse* response) {
  return response->has_completed() ? response->mutable_completed()->mutable_receipt() : nullptr;
}

v1::Receipt* ReceiptOf(v1::CompleteResponse* response) {
  if (response->has_completed()) {
    return response->mutable_completed()->mutable_receipt();
  }
  return response->has_conflict() ? response->mutable_conflict()->mutable_receipt() : nullptr;
}

v1::Receipt* ReceiptOf(v1::RenewResponse*) { return nullptr; }

}  // namespace once::rpc
