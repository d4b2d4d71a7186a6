// From requests on the wire to calls of the pipeline: permission for the handler, limits of every
// field, digest of the content.
//
// Pure functions; thread-safe. They take their request by rvalue and move large fields out of it.
// The first fault found is returned: INVALID_FIELD, PERMISSION_DENIED, HANDLER_NOT_ALLOWED,
// CONTENT_NOT_CANONICAL or RESULT_TOO_LARGE. Digesting a large document takes milliseconds.
#ifndef ONCE_RPC_REQUEST_H_
#define ONCE_RPC_REQUEST_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "auth/credential.h"
#include "core/limits.h"
#include "once/v1/idempotency_service.pb.h"
#include "once/v1/operator_service.pb.h"
#include "pipeline/pipeline.h"
#include "policy/policies.h"
#include "rpc/field_path.h"

namespace once::rpc {

// Who asks, until when, and by which rules. Everything outlives the conversion.
struct RequestContext {
  const auth::Principal& principal;
  const core::Limits& limits;
  const policy::Policies& policies;
  absl::Time deadline;
  std::shared_ptr<pipeline::Cancellation> cancellation;
};

absl::StatusOr<pipeline::BeginCall> ToCall(v1::BeginRequest&& request,
                                           const RequestContext& context, const FieldPath& path);
absl::StatusOr<pipeline::CompleteCall> ToCall(v1::CompleteRequest&& request,
                                              const RequestContext& context, const FieldPath& path);
absl::StatusOr<pipeline::AbandonCall> ToCall(v1::AbandonRequest&& request,
                                             const RequestContext& context, const FieldPath& path);
absl::StatusOr<pipeline::ResolveCall> ToCall(v1::ResolveRequest&& request,
                                             const RequestContext& context, const FieldPath& path);
absl::StatusOr<pipeline::ResetCall> ToCall(v1::ResetRequest&& request,
                                           const RequestContext& context, const FieldPath& path);
absl::StatusOr<pipeline::RenewCall> ToCall(v1::RenewRequest&& request,
                                           const RequestContext& context, const FieldPath& path);
absl::StatusOr<pipeline::LookupCall> ToCall(v1::LookupRequest&& request,
                                            const RequestContext& context, const FieldPath& path);

// PERMISSION_DENIED unless the credential covers `handler`.
absl::Status CheckCovered(const auth::Principal& principal, absl::string_view handler);

// Of a whole batch: 1 to the limit.
absl::Status CheckItemCount(int items, const core::Limits& limits);
absl::Status CheckMessageSize(size_t bytes, const core::Limits& limits);

}  // namespace once::rpc

#endif  // ONCE_RPC_REQUEST_H_
