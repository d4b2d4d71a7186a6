#include "rpc/admin_handlers.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "once/v1/admin_service.pb.h"
#include "rpc/admin_operations.h"
#include "rpc/admin_task.h"
#include "rpc/policy_operations.h"

namespace once::rpc {
namespace {

// What a call changed, for the log; empty for calls that change nothing.
std::string SubjectOf(const v1::CreateTenantRequest& request, const v1::CreateTenantResponse&) {
  return absl::StrCat("tenant ", request.name());
}
std::string SubjectOf(const v1::ListTenantsRequest&, const v1::ListTenantsResponse&) { return {}; }
std::string SubjectOf(const v1::CreateCredentialRequest&,
                      const v1::CreateCredentialResponse& response) {
  return absl::StrCat("credential ", response.credential().credential_id());
}
std::string SubjectOf(const v1::ListCredentialsRequest&, const v1::ListCredentialsResponse&) {
  return {};
}
std::string SubjectOf(const v1::RotateCredentialRequest& request,
                      const v1::RotateCredentialResponse& response) {
  return absl::StrCat("credential ", request.credential_id(), " replaced by ",
                      response.credential().credential_id());
}
std::string SubjectOf(const v1::RevokeCredentialRequest& request,
                      const v1::RevokeCredentialResponse&) {
  return absl::StrCat("credential ", request.credential_id());
}

std::string SubjectOf(const v1::GetHandlerPoliciesRequest&, const v1::GetHandlerPoliciesResponse&) {
  return {};
}
std::string SubjectOf(const v1::ListHandlerPolicyVersionsRequest&,
                      const v1::ListHandlerPolicyVersionsResponse&) {
  return {};
}
std::string SubjectOf(const v1::ApplyHandlerPoliciesRequest& request,
                      const v1::ApplyHandlerPoliciesResponse& response) {
  return absl::StrCat("policies ", request.tenant(), " version ", response.version().version());
}
std::string SubjectOf(const v1::ListAuditRecordsRequest&, const v1::ListAuditRecordsResponse&) {
  return {};
}

template <typename Request, typename Response>
Handler Method(AdminExecutor* executor, const core::Limits* limits, bool repeatable) {
  return [=](Call call, grpc::ByteBuffer body) {
    Request request;
    if (const absl::Status parsed = Parse(&body, &request); !parsed.ok()) {
      std::move(call).Fail(parsed);
      return;
    }
    absl::StatusOr<AdminWork<Response>> work = Prepare(
        request, AdminContext{.limits = *limits, .credential_id = call.principal()->credential_id});
    if (!work.ok()) {
      std::move(call).Fail(work.status());
      return;
    }
    auto shared = std::make_shared<Request>(std::move(request));
    executor->Submit(MakeTask<Response>(
        std::move(call), *std::move(work), repeatable,
        [shared](const Response& response) { return SubjectOf(*shared, response); }));
  };
}

}  // namespace

Handlers AdminHandlers(AdminExecutor* executor, const core::Limits* limits) {
  constexpr bool kRepeatable = true;
  constexpr bool kOnce = false;
  return {
      {"CreateTenant",
       Method<v1::CreateTenantRequest, v1::CreateTenantResponse>(executor, limits, kOnce)},
      {"ListTenants",
       Method<v1::ListTenantsRequest, v1::ListTenantsResponse>(executor, limits, kRepeatable)},
      // A credential that a lost run may have left behind was shown to nobody.
      {"CreateCredential", Method<v1::CreateCredentialRequest, v1::CreateCredentialResponse>(
                               executor, limits, kRepeatable)},
      {"ListCredentials", Method<v1::ListCredentialsRequest, v1::ListCredentialsResponse>(
                              executor, limits, kRepeatable)},
      // A lost run may have given the old credential its end already: not to be repeated blindly.
      {"RotateCredential",
       Method<v1::RotateCredentialRequest, v1::RotateCredentialResponse>(executor, limits, kOnce)},
      {"RevokeCredential", Method<v1::RevokeCredentialRequest, v1::RevokeCredentialResponse>(
                               executor, limits, kRepeatable)},
      {"GetHandlerPolicies", Method<v1::GetHandlerPoliciesRequest, v1::GetHandlerPoliciesResponse>(
                                 executor, limits, kRepeatable)},
      {"ListHandlerPolicyVersions",
       Method<v1::ListHandlerPolicyVersionsRequest, v1::ListHandlerPolicyVersionsResponse>(
           executor, limits, kRepeatable)},
      // A set that a lost run stored is found to be the current one.
      {"ApplyHandlerPolicies",
       Method<v1::ApplyHandlerPoliciesRequest, v1::ApplyHandlerPoliciesResponse>(executor, limits,
                                                                                 kRepeatable)},
      {"ListAuditRecords", Method<v1::ListAuditRecordsRequest, v1::ListAuditRecordsResponse>(
                               executor, limits, kRepeatable)},
  };
}

}  // namespace once::rpc
