#include "retry_loop.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "once/error.h"
#include "status_details.h"

namespace once::client_internal {
namespace {

// [0, 1)
double Uniform(const std::function<uint64_t()>& random) {
  return static_cast<double>(random() >> 11) * 0x1.0p-53;
}

bool ServerSaysNotStarted(ErrorReason reason) {
  return reason == ErrorReason::kDraining || reason == ErrorReason::kStoreUnavailable ||
         reason == ErrorReason::kOverloaded || reason == ErrorReason::kQuotaExceeded;
}

}  // namespace

bool MayRetry(const absl::Status& status, Repeatable repeatable) {
  const ErrorInfo info = ErrorInfoOf(status);
  // Without a delay it is gRPC's own word for a message that is too large.
  const bool exhausted =
      status.code() == absl::StatusCode::kResourceExhausted && info.retry_delay.has_value();
  const bool transient = exhausted || status.code() == absl::StatusCode::kUnavailable ||
                         status.code() == absl::StatusCode::kDeadlineExceeded;
  if (!transient) return false;
  return repeatable == Repeatable::kYes || ServerSaysNotStarted(info.reason);
}

RetryState::RetryState(const RetryContext& context, Repeatable repeatable, absl::Duration wait)
    : context_(context),
      repeatable_(repeatable),
      wait_(std::max(wait, absl::ZeroDuration())),
      start_(context.clock->Elapsed()),
      step_(context.backoff.initial) {}

absl::Duration RetryState::NextTimeout() const {
  const absl::Duration left =
      start_ + context_.retry.max_elapsed + wait_ - context_.clock->Elapsed();
  return std::min(left, context_.retry.attempt_timeout + RemainingWait());
}

absl::Duration RetryState::RemainingWait() const {
  return std::max(wait_ - (context_.clock->Elapsed() - start_), absl::ZeroDuration());
}

std::optional<absl::Status> RetryState::OnFailure(const absl::Status& status) {
  ++attempts_;
  if (!MayRetry(status, repeatable_)) return status;
  if (attempts_ >= context_.retry.max_attempts) return GaveUp(status);
  const absl::Duration delay = NextDelay(status);
  const absl::Duration end = start_ + context_.retry.max_elapsed + wait_;
  if (context_.clock->Elapsed() + delay >= end) return GaveUp(status);
  context_.clock->Sleep(delay);
  return std::nullopt;
}

absl::Duration RetryState::NextDelay(const absl::Status& status) {
  const absl::Duration backoff = step_ * (0.5 + 0.5 * Uniform(context_.random));
  step_ = std::min(step_ * context_.backoff.multiplier, context_.backoff.max);
  const auto asked = ErrorInfoOf(status).retry_delay;
  if (!asked.has_value()) return backoff;
  // Spread, so that all who were sent away together do not come back together.
  return std::max(backoff, *asked * (1.0 + 0.25 * Uniform(context_.random)));
}

absl::Status RetryState::GaveUp(const absl::Status& status) const {
  if (attempts_ == 1) return status;
  return Annotate(status,
                  absl::StrCat(" [gave up after ", attempts_, " attempts in ",
                               absl::FormatDuration(absl::Trunc(context_.clock->Elapsed() - start_,
                                                                absl::Milliseconds(1))),
                               "]"));
}

}  // namespace once::client_internal
