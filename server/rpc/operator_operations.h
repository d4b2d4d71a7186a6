// What the reading methods of OperatorService do. As admin_operations.h.
#ifndef ONCE_RPC_OPERATOR_OPERATIONS_H_
#define ONCE_RPC_OPERATOR_OPERATIONS_H_

#include "absl/status/statusor.h"
#include "once/v1/operator_service.pb.h"
#include "rpc/admin_operations.h"
#include "rpc/request.h"

namespace once::rpc {

absl::StatusOr<AdminWork<v1::GetOperationResponse>> Prepare(const v1::GetOperationRequest& request,
                                                            const RequestContext& context);
absl::StatusOr<AdminWork<v1::ListAttemptsResponse>> Prepare(const v1::ListAttemptsRequest& request,
                                                            const RequestContext& context);

}  // namespace once::rpc

#endif  // ONCE_RPC_OPERATOR_OPERATIONS_H_
