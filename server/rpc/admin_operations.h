// What the methods of AdminService do: each checks its request, without the database, and gives the
// work that then runs on a control session.
//
// Thread-safe: functions of values and sessions. Checking never blocks; the work does. Work may run
// more than once (see AdminTask); it returns errors of the store as they are and its own by
// base::MakeError.
#ifndef ONCE_RPC_ADMIN_OPERATIONS_H_
#define ONCE_RPC_ADMIN_OPERATIONS_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "core/limits.h"
#include "once/v1/admin_service.pb.h"
#include "store/store.h"

namespace once::rpc {

// Who calls, and by which limits.
struct AdminContext {
  const core::Limits& limits;
  std::string credential_id;
};

// Of a change: `request` has a reason.
template <typename Request>
store::Author AuthorOf(const Request& request, const AdminContext& context) {
  return {.credential_id = context.credential_id, .reason = request.reason()};
}

// TENANT_NOT_FOUND where there is none.
absl::StatusOr<store::TenantRow> FindTenant(store::ControlSession& session,
                                            const std::string& name);

template <typename Response>
using AdminWork = std::function<absl::StatusOr<Response>(store::ControlSession&)>;

absl::StatusOr<AdminWork<v1::CreateTenantResponse>> Prepare(const v1::CreateTenantRequest& request,
                                                            const AdminContext& context);
absl::StatusOr<AdminWork<v1::ListTenantsResponse>> Prepare(const v1::ListTenantsRequest& request,
                                                           const AdminContext& context);
absl::StatusOr<AdminWork<v1::CreateCredentialResponse>> Prepare(
    const v1::CreateCredentialRequest& request, const AdminContext& context);
absl::StatusOr<AdminWork<v1::ListCredentialsResponse>> Prepare(
    const v1::ListCredentialsRequest& request, const AdminContext& context);
absl::StatusOr<AdminWork<v1::RotateCredentialResponse>> Prepare(
    const v1::RotateCredentialRequest& request, const AdminContext& context);
absl::StatusOr<AdminWork<v1::RevokeCredentialResponse>> Prepare(
    const v1::RevokeCredentialRequest& request, const AdminContext& context);

}  // namespace once::rpc

#endif  // ONCE_RPC_ADMIN_OPERATIONS_H_
