// What the methods of AdminService about policies and the audit do. As admin_operations.h.
#ifndef ONCE_RPC_POLICY_OPERATIONS_H_
#define ONCE_RPC_POLICY_OPERATIONS_H_

#include "absl/status/statusor.h"
#include "once/v1/admin_service.pb.h"
#include "rpc/admin_operations.h"

namespace once::rpc {

absl::StatusOr<AdminWork<v1::GetHandlerPoliciesResponse>> Prepare(
    const v1::GetHandlerPoliciesRequest& request, const AdminContext& context);
absl::StatusOr<AdminWork<v1::ListHandlerPolicyVersionsResponse>> Prepare(
    const v1::ListHandlerPolicyVersionsRequest& request, const AdminContext& context);
absl::StatusOr<AdminWork<v1::ApplyHandlerPoliciesResponse>> Prepare(
    const v1::ApplyHandlerPoliciesRequest& request, const AdminContext& context);
absl::StatusOr<AdminWork<v1::ListAuditRecordsResponse>> Prepare(
    const v1::ListAuditRecordsRequest& request, const AdminContext& context);

}  // namespace once::rpc

#endif  // ONCE_RPC_POLICY_OPERATIONS_H_
