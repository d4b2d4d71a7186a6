// The methods of IdempotencyService, for callers that the guard let through: validate, hand to the
// pipeline, answer.
#ifndef ONCE_RPC_IDEMPOTENCY_HANDLERS_H_
#define ONCE_RPC_IDEMPOTENCY_HANDLERS_H_

#include "core/limits.h"
#include "pipeline/pipeline.h"
#include "policy/policy_cache.h"
#include "rpc/guarded_service.h"

namespace once::rpc {

// All must outlive the handlers.
Handlers IdempotencyHandlers(pipeline::Pipeline* pipeline, const core::Limits* limits,
                             const policy::PolicyCache* policies);

}  // namespace once::rpc

#endif  // ONCE_RPC_IDEMPOTENCY_HANDLERS_H_
