// Random histories of one operation, decided by core/decide.h and followed by a model that keeps
// every claim there ever was and knows only the promises.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/decide.h"
#include "core/fingerprint.h"

namespace once::core {
namespace {

// One command of a history. Small ranges, so that commands meet.
struct Step {
  int kind = 0;     // 0–3 Begin, 4 Complete, 5 release, 6 forget, 7 Renew, 8 retention's end
  int attempt = 0;  // of Begin
  int content = 0;  // of Begin
  int claim = 0;    // which of the claims so far an owner's command names, counted from the last
  int result = 0;
  LapsePolicy on_lapse = LapsePolicy::kRetry;
  bool can_probe = false;
  int64_t lease_us = 1;
  int64_t passes_us = 0;  // before the command; below zero where the database's clock is set back
};

std::ostream& operator<<(std::ostream& out, const Step& step) {
  return out << "{kind " << step.kind << ", attempt " << step.attempt << ", content "
             << step.content << ", claim " << step.claim << ", result " << step.result
             << ", on lapse " << static_cast<int>(step.on_lapse)
             << (step.can_probe ? ", can probe" : "") << ", lease " << step.lease_us << ", passes "
             << step.passes_us << "}";
}

rc::Gen<Step> AnyStep() {
  return rc::gen::build<Step>(
      rc::gen::set(&Step::kind, rc::gen::weightedElement<int>(
                                    {{10, 0}, {10, 1}, {6, 4}, {5, 5}, {5, 6}, {4, 7}, {1, 8}})),
      rc::gen::set(&Step::attempt, rc::gen::inRange(0, 4)),
      rc::gen::set(&Step::content, rc::gen::weightedElement<int>({{9, 0}, {1, 1}, {1, 2}})),
      rc::gen::set(&Step::claim, rc::gen::weightedElement<int>({{8, 0}, {2, 1}, {1, 2}})),
      rc::gen::set(&Step::result, rc::gen::inRange(0, 2)),
      rc::gen::set(
          &Step::on_lapse,
          rc::gen::weightedElement<LapsePolicy>(
              {{3, LapsePolicy::kRetry}, {1, LapsePolicy::kInDoubt}, {2, LapsePolicy::kProbe}})),
      rc::gen::set(&Step::can_probe, rc::gen::arbitrary<bool>()),
      rc::gen::set(&Step::lease_us, rc::gen::inRange<int64_t>(1, 200)),
      rc::gen::set(&Step::passes_us,
                   rc::gen::weightedOneOf<int64_t>({{6, rc::gen::inRange<int64_t>(0, 50)},
                                                    {3, rc::gen::inRange<int64_t>(50, 400)},
                                                    {1, rc::gen::inRange<int64_t>(-100, 0)}})));
}

AttemptId AttemptOf(int number) {
  AttemptId attempt;
  attempt.bytes.fill(static_cast<uint8_t>(number + 1));
  return attempt;
}

// 2 has the bytes of 0 in another scheme.
Digest DigestOf(int content) {
  Digest digest;
  digest.scheme = content == 2 ? DigestScheme::kJsonJcsSha256 : DigestScheme::kRawSha256;
  digest.sha256.fill(static_cast<uint8_t>(content % 2 + 1));
  return digest;
}

// ---- the model ----

struct ModelClaim {
  enum class End { kHeld, kReleased, kForgotten, kTakenOver, kCompleted };
  AttemptId attempt;
  Fence fence;
  DbTime lease_end;
  End end = End::kHeld;
};

// The operation from its first Begin to its forgetting, told by its claims.
struct ModelOperation {
  Digest digest;
  std::vector<ModelClaim> claims;
  DbTime not_before;  // after a release
  std::optional<Receipt> receipt;
  bool body_gone = false;

  std::vector<Fence> UnknownFences() const {
    std::vector<Fence> fences;
    for (const ModelClaim& claim : claims) {
      if (claim.end == ModelClaim::End::kTakenOver) fences.push_back(claim.fence);
    }
    return fences;
  }
};

class Simulation {
 public:
  void Run(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      now_ = now_ + absl::Microseconds(step.passes_us);
      Do(step);
      CheckLookups();
    }
  }

 private:
  void Do(const Step& step) {
    switch (step.kind) {
      case 4:
        return Complete(step);
      case 5:
        return Abandon(step, /*forget=*/false);
      case 6:
        return Abandon(step, /*forget=*/true);
      case 7:
        return Renew(step);
      case 8:
        return EndRetention();
      default:
        return Begin(step);
    }
  }

  // ---- Begin ----

  void Begin(const Step& step) {
    const BeginRequest request{.digest = DigestOf(step.content),
                               .attempt = AttemptOf(step.attempt),
                               .lease = absl::Microseconds(step.lease_us),
                               .consumer = "c",
                               .handler_version = "v",
                               .on_lapse = step.on_lapse,
                               .can_probe = step.can_probe};
    const bool fresh = !row_.has_value();
    if (fresh) {
      row_ = NewRow(request, now_);
      // What a store does: deleted rows' fences are never given again.
      row_->claim.fence.value = std::max(row_->claim.fence.value, deleted_fence_.value + 1);
    }
    const BeginOutcome outcome = Apply(DecideBegin(*row_, request, now_));
    if (fresh) {
      RC_ASSERT(!operation_.has_value());
      operation_.emplace().digest = request.digest;
      ExpectNewClaim(outcome, request);
    } else {
      ExpectBegin(outcome, request);
    }
    ExpectRepeatable(outcome, DecideBegin(*row_, request, now_));
  }

  void ExpectBegin(const BeginOutcome& outcome, const BeginRequest& request) {
    ModelOperation& operation = *operation_;
    if (request.digest != operation.digest) {
      RC_ASSERT(std::get<Conflict>(outcome).first_digest == operation.digest);
      return;
    }
    if (operation.receipt.has_value()) {
      if (operation.body_gone) {
        RC_ASSERT(std::get<Expired>(outcome).completed == operation.receipt->completed);
      } else {
        RC_ASSERT(std::get<Completed>(outcome).receipt == *operation.receipt);
      }
      return;
    }
    ModelClaim& last = operation.claims.back();
    const bool forbids = request.on_lapse == LapsePolicy::kInDoubt ||
                         (request.on_lapse == LapsePolicy::kProbe && !request.can_probe);
    if (last.end == ModelClaim::End::kReleased) {
      if (now_ < operation.not_before) {
        RC_ASSERT(std::get<InProgress>(outcome).reason == InProgress::Reason::kDelayed);
      } else if (forbids && !operation.UnknownFences().empty()) {
        ExpectInDoubt(outcome, request);
      } else {
        ExpectNewClaim(outcome, request);
      }
      return;
    }
    RC_ASSERT(last.end == ModelClaim::End::kHeld);
    if (last.attempt == request.attempt) {
      ExpectSameClaim(outcome, request);
    } else if (now_ < last.lease_end) {
      RC_ASSERT(std::get<InProgress>(outcome).reason == InProgress::Reason::kHeld);
      RC_ASSERT(std::get<InProgress>(outcome).lease_remaining == last.lease_end - now_);
    } else if (forbids) {
      ExpectInDoubt(outcome, request);
    } else {
      last.end = ModelClaim::End::kTakenOver;
      ExpectNewClaim(outcome, request);
    }
  }

  void ExpectNewClaim(const BeginOutcome& outcome, const BeginRequest& request) {
    const auto& granted = std::get<Granted>(outcome);
    RC_ASSERT(granted.claim.attempt == request.attempt);
    RC_ASSERT(granted.claim.fence > highest_fence_);  // strictly, over forget and a clock set back
    highest_fence_ = granted.claim.fence;
    for (const ModelClaim& claim : operation_->claims) {
      RC_ASSERT(claim.end != ModelClaim::End::kHeld);  // one live claim
    }
    operation_->claims.push_back({.attempt = request.attempt,
                                  .fence = granted.claim.fence,
                                  .lease_end = granted.claim.lease_expires});
    RC_ASSERT(granted.claim.lease_expires == now_ + request.lease);
    ExpectToldOfUnknown(granted, request);
  }

  void ExpectSameClaim(const BeginOutcome& outcome, const BeginRequest& request) {
    const auto& granted = std::get<Granted>(outcome);
    ModelClaim& last = operation_->claims.back();
    RC_ASSERT(granted.claim.attempt == last.attempt);
    RC_ASSERT(granted.claim.fence == last.fence);
    RC_ASSERT(granted.claim.lease_expires >= last.lease_end);
    RC_ASSERT(granted.claim.lease_expires > now_);
    last.lease_end = granted.claim.lease_expires;
    ExpectToldOfUnknown(granted, request);
  }

  void ExpectToldOfUnknown(const Granted& granted, const BeginRequest& request) {
    RC_ASSERT(granted.attempt_number == static_cast<int32_t>(operation_->claims.size()));
    const std::vector<Fence> unknown = operation_->UnknownFences();
    RC_ASSERT(granted.earlier_attempt.has_value() == !unknown.empty());
    // Whatever the policy: a repeat under another one is answered the same.
    RC_ASSERT(granted.recovery == (!unknown.empty() && request.can_probe));
    if (!unknown.empty()) RC_ASSERT(granted.earlier_attempt->fence == unknown.back());
    RC_ASSERT(row_->unknown_attempts == static_cast<int32_t>(unknown.size()));
  }

  void ExpectInDoubt(const BeginOutcome& outcome, const BeginRequest& request) {
    const auto& doubt = std::get<InDoubt>(outcome);
    RC_ASSERT(doubt.probe_allowed == (request.on_lapse == LapsePolicy::kProbe));
    std::vector<Fence> unknown = operation_->UnknownFences();
    const ModelClaim& last = operation_->claims.back();
    if (last.end == ModelClaim::End::kHeld) unknown.push_back(last.fence);
    RC_ASSERT(doubt.earlier_attempt_count == static_cast<int32_t>(unknown.size()));
    RC_ASSERT(!doubt.earlier_attempts.empty());
    RC_ASSERT(doubt.earlier_attempts.front().fence == unknown.back());
  }

  // ---- the owner's commands ----

  // A claim that was granted at some time, not always of this operation's life.
  std::optional<ModelClaim> Named(const Step& step) const {
    std::vector<ModelClaim> all = past_claims_;
    if (operation_.has_value()) {
      all.insert(all.end(), operation_->claims.begin(), operation_->claims.end());
    }
    if (step.claim >= static_cast<int>(all.size())) return std::nullopt;
    return all[all.size() - 1 - static_cast<size_t>(step.claim)];
  }

  ModelClaim* Holder(const ModelClaim& named) {
    if (!operation_.has_value() || operation_->claims.back().fence != named.fence) return nullptr;
    return &operation_->claims.back();
  }

  const OperationRow* Row() const { return row_.has_value() ? &*row_ : nullptr; }

  void Complete(const Step& step) {
    const auto named = Named(step);
    if (!named.has_value()) return;
    CompleteRequest request{.attempt = named->attempt,
                            .fence = named->fence,
                            .status = ReceiptStatus::kSucceeded,
                            .result = std::to_string(step.result),
                            .content_type = "t",
                            .fingerprint = {}};
    request.fingerprint = FingerprintOf(request.status, request.content_type, request.result);
    const CompleteOutcome outcome = Apply(DecideComplete(Row(), request, now_));
    ModelClaim* holder = Holder(*named);
    if (!operation_.has_value()) {
      RC_ASSERT(std::holds_alternative<NotFound>(outcome));
    } else if (holder == nullptr || holder->end == ModelClaim::End::kReleased) {
      RC_ASSERT(std::holds_alternative<ClaimLost>(outcome));
    } else if (operation_->receipt.has_value()) {
      if (operation_->receipt->fingerprint == request.fingerprint) {
        RC_ASSERT(std::get<Completed>(outcome).receipt == *operation_->receipt);
      } else {
        RC_ASSERT(std::holds_alternative<CompletionConflict>(outcome));
      }
    } else {
      holder->end = ModelClaim::End::kCompleted;
      operation_->receipt = std::get<Completed>(outcome).receipt;
      RC_ASSERT(operation_->receipt->result == request.result);
    }
    ExpectRepeatable(outcome, DecideComplete(Row(), request, now_));
  }

  void Abandon(const Step& step, bool forget) {
    const auto named = Named(step);
    if (!named.has_value()) return;
    const AbandonRequest request{.attempt = named->attempt,
                                 .fence = named->fence,
                                 .forget = forget,
                                 .retry_delay = absl::Microseconds(step.lease_us / 2)};
    const AbandonOutcome outcome = Apply(DecideAbandon(Row(), request, now_));
    ModelClaim* holder = Holder(*named);
    if (!operation_.has_value()) {
      RC_ASSERT(std::holds_alternative<NotFound>(outcome) == !forget);
    } else if (holder == nullptr || operation_->receipt.has_value()) {
      RC_ASSERT(std::holds_alternative<ClaimLost>(outcome));
    } else {
      ExpectGivenBack(std::get<Abandoned>(outcome), *holder, request);
    }
    ExpectRepeatable(outcome, DecideAbandon(Row(), request, now_));
  }

  void ExpectGivenBack(const Abandoned& abandoned, ModelClaim& holder,
                       const AbandonRequest& request) {
    const bool already = holder.end == ModelClaim::End::kReleased;
    // An attempt whose outcome is unknown is never hidden.
    const bool forgets = request.forget && !already && operation_->UnknownFences().empty();
    RC_ASSERT(abandoned.forgotten == forgets);
    if (forgets) {
      RC_ASSERT(!row_.has_value());
      past_claims_.insert(past_claims_.end(), operation_->claims.begin(), operation_->claims.end());
      operation_.reset();
    } else if (!already) {
      holder.end = ModelClaim::End::kReleased;
      operation_->not_before = now_ + request.retry_delay;
    }
  }

  void Renew(const Step& step) {
    const auto named = Named(step);
    if (!named.has_value()) return;
    const RenewRequest request{.attempt = named->attempt,
                               .fence = named->fence,
                               .lease = absl::Microseconds(step.lease_us)};
    const RenewOutcome outcome = Apply(DecideRenew(Row(), request, now_));
    ModelClaim* holder = Holder(*named);
    if (!operation_.has_value()) {
      RC_ASSERT(std::holds_alternative<NotFound>(outcome));
    } else if (holder == nullptr || holder->end != ModelClaim::End::kHeld) {
      RC_ASSERT(std::holds_alternative<ClaimLost>(outcome));
    } else {
      const auto& renewed = std::get<Renewed>(outcome);
      RC_ASSERT(renewed.claim.fence == holder->fence);
      RC_ASSERT(renewed.claim.lease_expires == std::max(holder->lease_end, now_ + request.lease));
      holder->lease_end = renewed.claim.lease_expires;
    }
    ExpectRepeatable(outcome, DecideRenew(Row(), request, now_));
  }

  void EndRetention() {
    if (!operation_.has_value() || !operation_->receipt.has_value()) return;
    row_->state = RowState::kTombstone;
    row_->receipt->result.reset();
    operation_->body_gone = true;
  }

  // ---- always ----

  template <typename Outcome>
  Outcome Apply(Decision<Outcome> decision) {
    if (decision.delete_row) {
      deleted_fence_ = std::max(deleted_fence_, row_->claim.fence);
      row_.reset();
    } else if (decision.row_after.has_value()) {
      row_ = std::move(decision.row_after);
    }
    return std::move(decision.outcome);
  }

  // P5: the same request again gets the same answer and changes nothing.
  template <typename Outcome>
  void ExpectRepeatable(const Outcome& first, const Decision<Outcome>& again) {
    RC_ASSERT(first.index() == again.outcome.index());
    RC_ASSERT(!again.delete_row);
    if (again.row_after.has_value()) RC_ASSERT(*again.row_after == *row_);
    if constexpr (std::is_same_v<Outcome, BeginOutcome>) {
      if (const auto* granted = std::get_if<Granted>(&first)) {
        RC_ASSERT(std::get<Granted>(again.outcome).claim == granted->claim);
      }
    }
    if constexpr (std::is_same_v<Outcome, CompleteOutcome>) {
      if (const auto* completed = std::get_if<Completed>(&first)) {
        RC_ASSERT(std::get<Completed>(again.outcome).receipt == completed->receipt);
      }
    }
    if constexpr (std::is_same_v<Outcome, AbandonOutcome>) {
      if (const auto* abandoned = std::get_if<Abandoned>(&first)) {
        RC_ASSERT(std::get<Abandoned>(again.outcome).forgotten == abandoned->forgotten);
      }
    }
  }

  void CheckLookups() {
    if (operation_.has_value() && operation_->receipt.has_value()) {
      RC_ASSERT(row_->receipt->fingerprint == operation_->receipt->fingerprint);
      RC_ASSERT(row_->receipt->completed == operation_->receipt->completed);
    }
    for (const LapsePolicy policy :
         {LapsePolicy::kRetry, LapsePolicy::kInDoubt, LapsePolicy::kProbe}) {
      const LookupOutcome plain = DecideLookup(Row(), {.digest = {}, .on_lapse = policy}, now_);
      RC_ASSERT(std::holds_alternative<NotFound>(plain) == !operation_.has_value());
      RC_ASSERT(!std::holds_alternative<Conflict>(plain));
      for (int content = 0; content < 3; ++content) {
        const LookupOutcome told =
            DecideLookup(Row(), {.digest = DigestOf(content), .on_lapse = policy}, now_);
        const bool differs = operation_.has_value() && operation_->digest != DigestOf(content);
        RC_ASSERT(std::holds_alternative<Conflict>(told) == differs);
      }
    }
  }

  std::optional<OperationRow> row_;
  std::optional<ModelOperation> operation_;
  std::vector<ModelClaim> past_claims_;  // of forgotten operations
  Fence deleted_fence_;
  Fence highest_fence_;
  DbTime now_{1'000'000};
};

TEST(DecidePropertyTest, PromisesHoldOverAllHistories) {
  EXPECT_TRUE(rc::check("promises hold over all histories", [] {
    const auto histories = *rc::gen::container<std::vector<std::vector<Step>>>(
        20, rc::gen::container<std::vector<Step>>(AnyStep()));
    for (const std::vector<Step>& steps : histories) {
      Simulation().Run(steps);
    }
  }));
}

}  // namespace
}  // namespace once::core
