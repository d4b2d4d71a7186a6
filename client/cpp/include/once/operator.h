// What became of operations, and how those end that nobody finished: for operators of a tenant
// (role OPERATOR).
#ifndef ONCE_OPERATOR_H_
#define ONCE_OPERATOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "once/admin.h"
#include "once/options.h"
#include "once/outcomes.h"
#include "once/types.h"

namespace once {

// A receipt that the operation had before it was reset.
struct PastReceipt {
  Receipt receipt;
  AttemptId attempt_id;
  absl::Time reset_time;
  std::string credential_id;  // of whoever reset it
  std::string reason;
};

// An operation as it is. `latest_claim` is what Resolve has to name; its lease may be live.
struct Operation {
  OperationId id;
  OperationState state = OperationState::kClaimed;
  std::optional<Digest> digest;
  EarlierAttempt latest_claim;
  std::optional<absl::Duration> lease_remaining;  // of a claim that is held
  int32_t attempt_number = 0;
  std::optional<EarlierAttempt> earlier_attempt;  // of unknown outcome
  int32_t earlier_attempt_count = 0;
  int64_t delivery_count = 0;  // Begins that arrived, without those that were answered from memory
  absl::Time first_begin_time;
  std::optional<Receipt> receipt;          // without its result, which Client::Lookup shows
  std::vector<PastReceipt> past_receipts;  // newest first, at most 10
};

// One entry of the attempt log. `kind` and `outcome` are the protocol's names without their
// prefixes: BEGIN, GRANTED (once.v1.LoggedAttempt).
struct LoggedAttempt {
  absl::Time log_time;
  std::string kind;
  std::string outcome;
  AttemptId attempt_id;
  Fence fence;
  int32_t attempt_number = 0;
  std::optional<Digest> digest;
  std::string consumer;
  std::string handler_version;
  std::string note;  // the reason of Abandon, the evidence of Resolve
  std::optional<Delivery> delivery;
  std::optional<Causation> causation;
  std::optional<Aggregate> aggregate;
};

enum class Verdict {
  kDone,     // it happened: the result becomes a receipt, SUCCEEDED
  kRefused,  // it was refused for good: the result becomes a receipt, REJECTED
  kNotDone,  // it did not happen: the next Begin is granted
};

struct Resolution {
  OperationId operation;
  AttemptId attempt_id;  // of the operation's latest claim
  Fence fence;
  Verdict verdict = Verdict::kNotDone;
  std::string result;        // not with kNotDone
  std::string content_type;  // likewise
  std::string evidence;      // 1–255 bytes, for the attempt log and the audit
};

// The next Begin is granted.
struct Released {};

// All but Completed and Released mean that nothing was changed.
using ResolveOutcome = std::variant<Completed, Released, InProgress, ClaimLost, CompletionConflict>;

using ResetOutcome = std::variant<Released, InProgress, ClaimLost>;

// Thread-safe; every method blocks. Applications replace it in their tests
// (once/mocks/mock_operator_connection.h).
class OperatorConnection {
 public:
  virtual ~OperatorConnection();
  OperatorConnection(const OperatorConnection&) = delete;
  OperatorConnection& operator=(const OperatorConnection&) = delete;

  virtual absl::StatusOr<Operation> GetOperation(const OperationId& operation,
                                                 const CallOptions& options);
  virtual absl::StatusOr<Page<LoggedAttempt>> ListAttempts(const OperationId& operation,
                                                           const PageRequest& page,
                                                           const CallOptions& options);
  virtual absl::StatusOr<ResolveOutcome> Resolve(const Resolution& resolution,
                                                 const CallOptions& options);
  virtual absl::StatusOr<ResetOutcome> Reset(const OperationId& operation, Fence fence,
                                             const CallOptions& options);

 protected:
  OperatorConnection() = default;
};

// As MakeConnection. All calls are safe to repeat, and are.
absl::StatusOr<std::shared_ptr<OperatorConnection>> MakeOperatorConnection(
    ConnectionOptions options);

// Thin and cheap to copy, like Client. Errors are explained by `ErrorInfoOf`: kOperationNotFound.
class OperatorClient {
 public:
  explicit OperatorClient(std::shared_ptr<OperatorConnection> connection);

  absl::StatusOr<Operation> GetOperation(const OperationId& operation,
                                         const CallOptions& options = {}) const;
  // In the order of their arrival, where one server wrote them. ListAll… follows the page tokens.
  absl::StatusOr<Page<LoggedAttempt>> ListAttempts(const OperationId& operation,
                                                   const PageRequest& page,
                                                   const CallOptions& options = {}) const;
  absl::StatusOr<std::vector<LoggedAttempt>> ListAllAttempts(const OperationId& operation,
                                                             const CallOptions& options = {}) const;
  // Ends an operation whose lease is over, or which was given back, with what was found out.
  absl::StatusOr<ResolveOutcome> Resolve(const Resolution& resolution,
                                         const CallOptions& options = {}) const;
  // Lets a completed operation run again. `fence`: of the receipt, so that a later one is not
  // reset. `options.reason` says why, and is required.
  absl::StatusOr<ResetOutcome> Reset(const OperationId& operation, Fence fence,
                                     const CallOptions& options) const;

 private:
  std::shared_ptr<OperatorConnection> connection_;
};

}  // namespace once

#endif  // ONCE_OPERATOR_H_
