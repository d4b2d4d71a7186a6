// The methods of AdminService, for callers that the guard let through: check, hand to the executor,
// answer.
#ifndef ONCE_RPC_ADMIN_HANDLERS_H_
#define ONCE_RPC_ADMIN_HANDLERS_H_

#include "core/limits.h"
#include "rpc/admin_executor.h"
#include "rpc/guarded_service.h"

namespace once::rpc {

// Both must outlive the handlers.
Handlers AdminHandlers(AdminExecutor* executor, const core::Limits* limits);

}  // namespace once::rpc

#endif  // ONCE_RPC_ADMIN_HANDLERS_H_
