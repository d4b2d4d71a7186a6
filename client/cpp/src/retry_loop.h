// The one layer of retry: what is sent again, when, and when to give up. gRPC's own retries are
// off.
//
// Thread-safety: a RetryState belongs to one call.
#ifndef ONCE_CLIENT_SRC_RETRY_LOOP_H_
#define ONCE_CLIENT_SRC_RETRY_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "once/options.h"
#include "stub.h"

namespace once::client_internal {

enum class Repeatable {
  kYes,                  // a repeat gives the same answer: the whole data plane, and reads
  kOnlyWhereNotStarted,  // a repeat would do it twice: calls that create
};

// True where sending the same request again can cure `status` and cannot harm.
bool MayRetry(const absl::Status& status, Repeatable repeatable);

struct RetryContext {
  RetryPolicy retry;
  BackoffPolicy backoff;
  std::shared_ptr<Clock> clock;
  std::function<uint64_t()> random;
  std::string traceparent;
};

class RetryState {
 public:
  // `wait`: how long the server may hold the call by request; it is added to every limit.
  RetryState(const RetryContext& context, Repeatable repeatable, absl::Duration wait);

  // How long the next sending may take.
  absl::Duration NextTimeout() const;
  // What is left of the wait.
  absl::Duration RemainingWait() const;
  // Sleeps and returns nothing where the call shall be sent again; otherwise the error to return.
  std::optional<absl::Status> OnFailure(const absl::Status& status);

 private:
  absl::Duration NextDelay(const absl::Status& status);
  absl::Status GaveUp(const absl::Status& status) const;

  const RetryContext& context_;
  const Repeatable repeatable_;
  const absl::Duration wait_;
  const absl::Duration start_;
  absl::Duration step_;
  int attempts_ = 0;
};

// Sends until there is an answer. `send` gets the remaining wait, so that a request that asks for
// one does not start it afresh.
template <typename Response>
absl::StatusOr<Response> RetryLoop(
    const RetryContext& context, Repeatable repeatable, absl::Duration wait,
    absl::FunctionRef<absl::StatusOr<Response>(const RpcCall&, absl::Duration)> send) {
  RetryState state(context, repeatable, wait);
  while (true) {
    const RpcCall call{state.NextTimeout(), context.traceparent};
    auto response = send(call, state.RemainingWait());
    if (response.ok()) return response;
    if (auto error = state.OnFailure(response.status())) return *std::move(error);
  }
}

}  // namespace once::client_internal

#endif  // ONCE_CLIENT_SRC_RETRY_LOOP_H_
