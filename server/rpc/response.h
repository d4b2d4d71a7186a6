// From outcomes of the pipeline to responses on the wire.
//
// Pure functions; thread-safe. Each fills `response` and returns the outcome's name for logs and
// metrics (static storage), or returns OPERATION_NOT_FOUND. They take outcomes by rvalue: results
// are moved, not copied.
#ifndef ONCE_RPC_RESPONSE_H_
#define ONCE_RPC_RESPONSE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/decide.h"
#include "once/v1/idempotency_service.pb.h"

namespace once::rpc {

absl::StatusOr<absl::string_view> FillResponse(core::BeginOutcome&& outcome,
                                               absl::string_view handler,
                                               v1::BeginResponse* response);
absl::StatusOr<absl::string_view> FillResponse(core::CompleteOutcome&& outcome,
                                               absl::string_view handler,
                                               v1::CompleteResponse* response);
absl::StatusOr<absl::string_view> FillResponse(core::AbandonOutcome&& outcome,
                                               absl::string_view handler,
                                               v1::AbandonResponse* response);
absl::StatusOr<absl::string_view> FillResponse(core::RenewOutcome&& outcome,
                                               absl::string_view handler,
                                               v1::RenewResponse* response);
absl::StatusOr<absl::string_view> FillResponse(core::LookupOutcome&& outcome,
                                               absl::string_view handler,
                                               v1::LookupResponse* response);

// The receipt in a response; null where there is none.
v1::Receipt* ReceiptOf(v1::BeginResponse* response);
v1::Receipt* ReceiptOf(v1::CompleteResponse* response);
v1::Receipt* ReceiptOf(v1::RenewResponse* response);

}  // namespace once::rpc

#endif  // ONCE_RPC_RESPONSE_H_
