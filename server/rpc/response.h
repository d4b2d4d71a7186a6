// From outcomes of the pipeline to responses on the wire.
//
// Pure functions; thread-safe. Each fills `response` and returns the outcome's name for logs and
// metrics (static storage), or returns OPERATION_NOT_FOUND. They take outcomes by rvalue: results
// are moved, not copied.
#ifndef ONCE_RPC_RESPONSE_H_
#define ONCE_RPC_RESPONSE_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/decide.h"
#include "once/v1/idempotency_service.pb.h"
#include "once/v1/operator_service.pb.h"
#include "store/store.h"

namespace once::rpc {

// What a response says beside the outcome.
struct OperationFacts {
  absl::string_view handler;
  // How long after its completion an operation is recognised; unset: without end.
  std::optional<absl::Duration> dedupe_retention;
};

absl::StatusOr<absl::string_view> FillResponse(core::BeginOutcome&& outcome,
                                               const OperationFacts& facts,
                                               v1::BeginResponse* response);
absl::StatusOr<absl::string_view> FillResponse(core::CompleteOutcome&& outcome,
                                               const OperationFacts& facts,
                                               v1::CompleteResponse* response);
absl::StatusOr<absl::string_view> FillResponse(core::AbandonOutcome&& outcome,
                                               const OperationFacts& facts,
                                               v1::AbandonResponse* response);
absl::StatusOr<absl::string_view> FillResponse(core::RenewOutcome&& outcome,
                                               const OperationFacts& facts,
                                               v1::RenewResponse* response);
absl::StatusOr<absl::string_view> FillResponse(core::ResolveOutcome&& outcome,
                                               const OperationFacts& facts,
                                               v1::ResolveResponse* response);
absl::StatusOr<absl::string_view> FillResponse(core::ResetOutcome&& outcome,
                                               const OperationFacts& facts,
                                               v1::ResetResponse* response);
absl::StatusOr<absl::string_view> FillResponse(core::LookupOutcome&& outcome,
                                               const OperationFacts& facts,
                                               v1::LookupResponse* response);

// An operation as it is shown, without the result.
struct ShownOperation {
  absl::string_view handler;
  absl::string_view event_id;
  core::LapsePolicy on_lapse = core::LapsePolicy::kRetry;
};
void FillOperation(const ShownOperation& shown, core::OperationRow&& row, core::DbTime now,
                   v1::Operation* out);
void FillPastReceipts(std::vector<store::PastReceipt>&& past, v1::Operation* out);
void FillAttempt(store::LoggedAttempt&& logged, v1::LoggedAttempt* out);

// The receipt in a response; null where there is none.
v1::Receipt* ReceiptOf(v1::BeginResponse* response);
v1::Receipt* ReceiptOf(v1::CompleteResponse* response);
v1::Receipt* ReceiptOf(v1::RenewResponse* response);

}  // namespace once::rpc

#endif  // ONCE_RPC_RESPONSE_H_
