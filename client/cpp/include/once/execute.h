// Running a handler under a claim: the types of `Client::Execute`.
#ifndef ONCE_EXECUTE_H_
#define ONCE_EXECUTE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "once/options.h"
#include "once/outcomes.h"
#include "once/types.h"

namespace once {

// What a handler returns when it is done for good.
struct HandlerResult {
  ReceiptStatus status = ReceiptStatus::kSucceeded;
  std::string result;
  std::string content_type;

  static HandlerResult Succeeded(std::string result = "", std::string content_type = "") {
    return {ReceiptStatus::kSucceeded, std::move(result), std::move(content_type)};
  }
  // A final refusal for a business reason. A failure that may succeed later is an error instead.
  static HandlerResult Rejected(std::string result = "", std::string content_type = "") {
    return {ReceiptStatus::kRejected, std::move(result), std::move(content_type)};
  }
};

// What a handler is told. Lives while the handler runs; valid until it returns. Thread-safe.
class ExecutionContext {
 public:
  virtual ~ExecutionContext() = default;

  virtual const OperationId& operation() const = 0;
  virtual const AttemptId& attempt_id() const = 0;
  // Write it beside the business effect, so that a late owner can be told from the current one.
  virtual Fence fence() const = 0;
  // 1 for the first claim of the operation.
  virtual int32_t attempt_number() const = 0;

  // Set where an earlier attempt's outcome is unknown: ask the business data what it did before
  // acting.
  virtual const std::optional<EarlierAttempt>& earlier_attempt() const = 0;

  // True once the server said that the claim is lost, or the lease is over by this machine's own
  // clock. Failed renewals alone do not make it true. Check it before an effect that cannot be
  // fenced; it never becomes false again.
  virtual bool claim_lost() const = 0;

  // How long the claim is still live without renewal; zero when it is lost.
  virtual absl::Duration lease_remaining() const = 0;

  // `callback` is called once when the claim is lost, from the renewal thread: it must be quick and
  // must not throw. Called at once, from here, where the claim is lost already. Replaces an earlier
  // callback; never called after the handler returned.
  virtual void OnClaimLost(std::function<void()> callback) = 0;
};

using Handler = absl::FunctionRef<absl::StatusOr<HandlerResult>(ExecutionContext&)>;

struct ExecuteOptions {
  // Set: the attempt id that the caller has stored, to go on after a restart. Unset: a new one.
  std::optional<AttemptId> attempt_id;
  absl::Duration lease;  // 100 ms to 24 h; default: the server's
  std::string consumer;
  std::string handler_version;
  std::optional<Delivery> delivery;
  std::optional<Causation> causation;
  std::optional<Aggregate> aggregate;
  // The handler looks at `ExecutionContext::earlier_attempt` and asks the business data what that
  // one did before it acts. Handlers with the policy PROBE are not run again by anybody else.
  bool can_probe = false;

  // How long to wait while another attempt holds the claim. Zero: return at once with the reason
  // kInProgress. The wait costs the server nothing; choose it as long as the caller can wait.
  absl::Duration wait;

  // For the calls that begin, complete and abandon. Give the retry policy more time than a failover
  // of the database takes: what it ends is the wait for the receipt of an effect that has happened.
  CallOptions call;
};

// The operation is done, now or before.
struct Executed {
  Receipt receipt;
  // True where the receipt is that of an earlier execution: the handler did not run this time.
  bool replayed = false;
  std::optional<absl::Time> dedupe_guaranteed_until_time;
};

}  // namespace once

#endif  // ONCE_EXECUTE_H_
