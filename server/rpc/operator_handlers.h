// OperatorService's methods as handlers of a guarded service. Thread-safe.
#ifndef ONCE_RPC_OPERATOR_HANDLERS_H_
#define ONCE_RPC_OPERATOR_HANDLERS_H_

#include "core/limits.h"
#include "pipeline/pipeline.h"
#include "policy/policy_cache.h"
#include "rpc/admin_executor.h"
#include "rpc/guarded_service.h"

namespace once::rpc {

// All must outlive the handlers. Reads run on `executor`, decisions in `pipeline`, where they keep
// their order among the other calls on the operation.
Handlers OperatorHandlers(pipeline::Pipeline* pipeline, AdminExecutor* executor,
                          const core::Limits* limits, const policy::PolicyCache* policies);

}  // namespace once::rpc

#endif  // ONCE_RPC_OPERATOR_HANDLERS_H_
