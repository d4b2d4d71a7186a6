#include "execution.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "once/error.h"
#include "outcome_error.h"

namespace once::client_internal {
namespace {

// One sending of Begin waits at most this long, so that a proxy's idle limit does not cut it.
constexpr absl::Duration kMaxServerWait = absl::Seconds(20);
constexpr absl::Duration kMinPause = absl::Milliseconds(10);
constexpr absl::Duration kMaxPause = absl::Seconds(1);
constexpr size_t kMaxReasonBytes = 255;
constexpr absl::Duration kMaxRetryDelay = absl::Hours(24);

// What a handler says about its failure is for the attempt log, and may be anything: shortened, and
// kept to what a protobuf string may hold.
std::string Printable(absl::string_view reason) {
  std::string text(reason.substr(0, kMaxReasonBytes));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

class Context final : public ExecutionContext {
 public:
  Context(const OperationId& operation, const Granted& granted, std::shared_ptr<Lease> lease)
      : operation_(operation), granted_(granted), lease_(std::move(lease)) {}

  const OperationId& operation() const override { return operation_; }
  const AttemptId& attempt_id() const override { return granted_.claim.attempt_id; }
  Fence fence() const override { return granted_.claim.fence; }
  int32_t attempt_number() const override { return granted_.attempt_number; }
  const std::optional<EarlierAttempt>& earlier_attempt() const override {
    return granted_.earlier_attempt;
  }
  bool claim_lost() const override { return lease_->Lost(); }
  absl::Duration lease_remaining() const override { return lease_->Remaining(); }
  void OnClaimLost(std::function<void()> callback) override { lease_->OnLost(std::move(callback)); }

 private:
  const OperationId& operation_;
  const Granted& granted_;
  const std::shared_ptr<Lease> lease_;
};

// Renews from construction on. `Finish` may be called early; no callback runs after it.
class RenewedLease {
 public:
  RenewedLease(LeaseRenewer& renewer, std::shared_ptr<Lease> lease)
      : renewer_(renewer), lease_(std::move(lease)) {}
  ~RenewedLease() {
    lease_->StopNotifying();
    renewer_.Remove(lease_);
  }
  RenewedLease(const RenewedLease&) = delete;
  RenewedLease& operator=(const RenewedLease&) = delete;

  const std::shared_ptr<Lease>& get() const { return lease_; }

 private:
  LeaseRenewer& renewer_;
  const std::shared_ptr<Lease> lease_;
};

}  // namespace

Execution::Execution(Connection& connection, Clock& clock, LeaseRenewer& renewer,
                     const OperationId& operation, const Payload& payload,
                     const ExecuteOptions& options)
    : connection_(connection),
      clock_(clock),
      renewer_(renewer),
      operation_(operation),
      options_(options),
      wait_until_(clock.Elapsed() + options.wait) {
  begin_.operation = operation;
  begin_.payload = payload;
  begin_.attempt_id = options.attempt_id.has_value() ? *options.attempt_id : AttemptId::Generate();
  begin_.lease = options.lease;
  begin_.consumer = options.consumer;
  begin_.handler_version = options.handler_version;
  begin_.can_probe = options.can_probe;
  begin_.delivery = options.delivery;
  begin_.causation = options.causation;
  begin_.aggregate = options.aggregate;
}

absl::StatusOr<Executed> Execution::Run(Handler handler) {
  auto begun = BeginUntilGranted();
  if (!begun.ok()) return begun.status();
  if (auto* executed = std::get_if<Executed>(&*begun)) return std::move(*executed);
  return RunOwned(std::get<Owned>(*begun), handler);
}

absl::StatusOr<Execution::BeginResult> Execution::BeginUntilGranted() {
  while (true) {
    const absl::Duration now = clock_.Elapsed();
    begin_.wait = std::clamp(wait_until_ - now, absl::ZeroDuration(), kMaxServerWait);
    auto outcome = connection_.Begin(begin_, options_.call);
    if (!outcome.ok()) return outcome.status();
    if (auto* granted = std::get_if<Granted>(&*outcome)) {
      Owned owned{std::move(*granted), now};
      auto kept = Refresh(owned);
      if (!kept.ok()) return kept.status();
      if (!*kept) continue;
      return BeginResult(std::move(owned));
    }
    if (auto* completed = std::get_if<Completed>(&*outcome)) {
      return BeginResult(
          Executed{std::move(completed->receipt), true, completed->dedupe_guaranteed_until_time});
    }
    if (const auto* in_progress = std::get_if<InProgress>(&*outcome)) {
      if (auto status = WaitForHolder(*in_progress, now, begin_.wait); !status.ok()) return status;
      continue;
    }
    if (const auto* conflict = std::get_if<Conflict>(&*outcome)) return ErrorFor(*conflict);
    if (const auto* in_doubt = std::get_if<InDoubt>(&*outcome)) return ErrorFor(*in_doubt);
    if (const auto* stale = std::get_if<Stale>(&*outcome)) return ErrorFor(*stale);
    return ErrorFor(std::get<Expired>(*outcome));
  }
}

// OK: ask again now. An error: the wait is over.
absl::Status Execution::WaitForHolder(const InProgress& in_progress, absl::Duration began,
                                      absl::Duration asked) {
  const absl::Duration now = clock_.Elapsed();
  const absl::Duration left = wait_until_ - now;
  if (left <= absl::ZeroDuration()) return ErrorFor(in_progress);
  const absl::Duration suggested = std::max(in_progress.suggested_wait, kMinPause);
  if (in_progress.reason == InProgress::Reason::kDelayed) {
    if (suggested > left) return ErrorFor(in_progress);
    clock_.Sleep(suggested);
    return absl::OkStatus();
  }
  // The server has held the call as long as it was asked to: it does the waiting, go on.
  if (now - began >= asked / 2) return absl::OkStatus();
  clock_.Sleep(std::min({suggested, kMaxPause, left}));
  return absl::OkStatus();
}

// A Begin that waited, or was sent several times, says little about how much of the lease is left:
// its answer is as old as the call is long. Where that is a good part of the lease, a renewal
// gives a fresh measure. False: the claim is gone before anything was done with it; begin again.
absl::StatusOr<bool> Execution::Refresh(Owned& owned) {
  Claim& claim = owned.granted.claim;
  const absl::Duration sent = clock_.Elapsed();
  if (sent - owned.measured_at <= claim.lease_remaining / 3) return true;
  const RenewRequest renew{operation_, claim.attempt_id, claim.fence, options_.lease};
  auto outcome = connection_.Renew(renew, options_.call);
  if (!outcome.ok()) {
    Abandon(claim, {}, "the claim could not be renewed before the handler ran");
    return outcome.status();
  }
  if (!std::holds_alternative<Claim>(*outcome)) return false;
  claim.lease_remaining = std::get<Claim>(*outcome).lease_remaining;
  claim.lease_expire_time = std::get<Claim>(*outcome).lease_expire_time;
  owned.measured_at = sent;
  return true;
}

absl::StatusOr<Executed> Execution::RunOwned(const Owned& owned, Handler handler) {
  const Claim& claim = owned.granted.claim;
  const RenewedLease lease(renewer_,
                           renewer_.Add({operation_, claim.attempt_id, claim.fence, options_.lease},
                                        owned.measured_at, claim.lease_remaining));
  Context context(operation_, owned.granted, lease.get());
  absl::StatusOr<HandlerResult> result = absl::UnknownError("");
  try {
    result = handler(context);
  } catch (const std::exception& e) {
    lease.get()->StopNotifying();
    if (!lease.get()->LostByServer()) Abandon(claim, {}, e.what());
    throw;
  } catch (...) {
    lease.get()->StopNotifying();
    if (!lease.get()->LostByServer()) Abandon(claim, {}, "the handler threw");
    throw;
  }
  lease.get()->StopNotifying();
  // Completed even where the claim seems lost: the server decides, and keeps a refusal in its log.
  if (result.ok()) return Complete(claim, *std::move(result));
  if (!lease.get()->LostByServer()) {
    Abandon(claim, VerdictOf(result.status()), std::string(result.status().message()));
  }
  return result.status();
}

absl::StatusOr<Executed> Execution::Complete(const Claim& claim, HandlerResult result) {
  CompleteRequest request;
  request.operation = operation_;
  request.attempt_id = claim.attempt_id;
  request.fence = claim.fence;
  request.status = result.status;
  request.result = std::move(result.result);
  request.content_type = std::move(result.content_type);
  auto outcome = connection_.Complete(request, options_.call);
  if (!outcome.ok()) return outcome.status();
  if (auto* completed = std::get_if<Completed>(&*outcome)) {
    return Executed{std::move(completed->receipt), false, completed->dedupe_guaranteed_until_time};
  }
  if (const auto* lost = std::get_if<ClaimLost>(&*outcome)) return ErrorFor(*lost);
  return ErrorFor(std::get<CompletionConflict>(*outcome));
}

// Best effort: what the handler said is returned anyway, and an unanswered Abandon ends with the
// lease.
void Execution::Abandon(const Claim& claim, const HandlerVerdict& verdict,
                        const std::string& reason) {
  if (verdict.kind == HandlerVerdict::Kind::kUnknown) return;
  AbandonRequest request;
  request.operation = operation_;
  request.attempt_id = claim.attempt_id;
  request.fence = claim.fence;
  if (verdict.kind == HandlerVerdict::Kind::kForget) {
    request.mode = AbandonMode::kForget;
  } else {
    request.mode = AbandonMode::kRelease;
    request.retry_delay = std::clamp(verdict.delay, absl::ZeroDuration(), kMaxRetryDelay);
  }
  request.reason = Printable(reason);
  connection_.Abandon(request, options_.call).IgnoreError();
}

}  // namespace once::client_internal
