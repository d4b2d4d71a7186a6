#include "once/admin.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "connection_impl.h"
#include "convert.h"
#include "grpc_stub.h"
#include "policy_convert.h"
#include "retry_loop.h"

namespace once {
namespace client_internal {
namespace {

template <typename Response>
absl::StatusOr<IssuedCredential> IssuedFrom(const Response& response) {
  auto credential = FromProto(response.credential());
  if (!credential.ok()) return credential.status();
  return IssuedCredential{*std::move(credential), response.token()};
}

template <typename Response>
VersionedPolicies PoliciesFrom(const Response& response) {
  VersionedPolicies policies;
  policies.policies = HandlerPoliciesPeer::FromProto(response.policy_set());
  if (response.has_version()) policies.version = FromProto(response.version());
  return policies;
}

class RetryingAdminConnection final : public AdminConnection {
 public:
  RetryingAdminConnection(std::shared_ptr<AdminStub> stub, ConnectionOptions options)
      : stub_(std::move(stub)), options_(std::move(options)) {}

  absl::StatusOr<Tenant> CreateTenant(const std::string& name,
                                      const CallOptions& options) override {
    v1::CreateTenantRequest request;
    request.set_name(name);
    request.set_reason(options.reason);
    auto response =
        Send(options, Repeatable::kOnlyWhereNotStarted, request, &AdminStub::CreateTenant);
    if (!response.ok()) return response.status();
    return FromProto(response->tenant());
  }

  absl::StatusOr<Page<Tenant>> ListTenants(const PageRequest& page,
                                           const CallOptions& options) override {
    v1::ListTenantsRequest request;
    request.set_page_size(page.page_size);
    request.set_page_token(page.page_token);
    auto response = Send(options, Repeatable::kYes, request, &AdminStub::ListTenants);
    if (!response.ok()) return response.status();
    Page<Tenant> tenants;
    for (const auto& tenant : response->tenants()) tenants.items.push_back(FromProto(tenant));
    tenants.next_page_token = response->next_page_token();
    return tenants;
  }

  absl::StatusOr<IssuedCredential> CreateCredential(const NewCredential& credential,
                                                    const CallOptions& options) override {
    v1::CreateCredentialRequest request = ToProto(credential);
    request.set_reason(options.reason);
    auto response =
        Send(options, Repeatable::kOnlyWhereNotStarted, request, &AdminStub::CreateCredential);
    if (!response.ok()) return response.status();
    return IssuedFrom(*response);
  }

  absl::StatusOr<Page<Credential>> ListCredentials(const std::string& tenant,
                                                   const PageRequest& page,
                                                   const CallOptions& options) override {
    v1::ListCredentialsRequest request;
    request.set_tenant(tenant);
    request.set_page_size(page.page_size);
    request.set_page_token(page.page_token);
    auto response = Send(options, Repeatable::kYes, request, &AdminStub::ListCredentials);
    if (!response.ok()) return response.status();
    Page<Credential> credentials;
    for (const auto& proto : response->credentials()) {
      auto credential = FromProto(proto);
      if (!credential.ok()) return credential.status();
      credentials.items.push_back(*std::move(credential));
    }
    credentials.next_page_token = response->next_page_token();
    return credentials;
  }

  absl::StatusOr<RotatedCredential> RotateCredential(const std::string& credential_id,
                                                     std::optional<absl::Duration> overlap,
                                                     const CallOptions& options) override {
    v1::RotateCredentialRequest request;
    request.set_credential_id(credential_id);
    if (overlap.has_value()) *request.mutable_overlap() = ToProto(*overlap);
    request.set_reason(options.reason);
    auto response =
        Send(options, Repeatable::kOnlyWhereNotStarted, request, &AdminStub::RotateCredential);
    if (!response.ok()) return response.status();
    auto issued = IssuedFrom(*response);
    if (!issued.ok()) return issued.status();
    auto replaced = FromProto(response->replaced());
    if (!replaced.ok()) return replaced.status();
    return RotatedCredential{*std::move(issued), *std::move(replaced)};
  }

  absl::StatusOr<Credential> RevokeCredential(const std::string& credential_id,
                                              const CallOptions& options) override {
    v1::RevokeCredentialRequest request;
    request.set_credential_id(credential_id);
    request.set_reason(options.reason);
    auto response = Send(options, Repeatable::kYes, request, &AdminStub::RevokeCredential);
    if (!response.ok()) return response.status();
    return FromProto(response->credential());
  }

  absl::StatusOr<VersionedPolicies> GetPolicies(const std::string& tenant, int32_t version,
                                                const CallOptions& options) override {
    v1::GetHandlerPoliciesRequest request;
    request.set_tenant(tenant);
    request.set_version(version);
    auto response = Send(options, Repeatable::kYes, request, &AdminStub::GetHandlerPolicies);
    if (!response.ok()) return response.status();
    return PoliciesFrom(*response);
  }

  absl::StatusOr<Page<PolicyVersion>> ListPolicyVersions(const std::string& tenant,
                                                         const PageRequest& page,
                                                         const CallOptions& options) override {
    v1::ListHandlerPolicyVersionsRequest request;
    request.set_tenant(tenant);
    request.set_page_size(page.page_size);
    request.set_page_token(page.page_token);
    auto response = Send(options, Repeatable::kYes, request, &AdminStub::ListHandlerPolicyVersions);
    if (!response.ok()) return response.status();
    Page<PolicyVersion> versions;
    for (const auto& version : response->versions()) versions.items.push_back(FromProto(version));
    versions.next_page_token = response->next_page_token();
    return versions;
  }

  absl::StatusOr<VersionedPolicies> ApplyPolicies(const PolicyChange& change,
                                                  const CallOptions& options) override {
    auto response =
        Send(options, Repeatable::kYes, ToProto(change), &AdminStub::ApplyHandlerPolicies);
    if (!response.ok()) return response.status();
    return PoliciesFrom(*response);
  }

  absl::StatusOr<Page<AuditRecord>> ListAuditRecords(const std::string& tenant,
                                                     const PageRequest& page,
                                                     const CallOptions& options) override {
    v1::ListAuditRecordsRequest request;
    request.set_tenant(tenant);
    request.set_page_size(page.page_size);
    request.set_page_token(page.page_token);
    auto response = Send(options, Repeatable::kYes, request, &AdminStub::ListAuditRecords);
    if (!response.ok()) return response.status();
    Page<AuditRecord> records;
    for (const auto& proto : response->records()) {
      auto record = FromProto(proto);
      if (!record.ok()) return record.status();
      records.items.push_back(*std::move(record));
    }
    records.next_page_token = response->next_page_token();
    return records;
  }

 private:
  template <typename Request, typename Response>
  absl::StatusOr<Response> Send(const CallOptions& options, Repeatable repeatable,
                                const Request& request,
                                absl::StatusOr<Response> (AdminStub::*method)(const RpcCall&,
                                                                              const Request&)) {
    return RetryLoop<Response>(
        ContextFor(options_, options), repeatable, absl::ZeroDuration(),
        [&](const RpcCall& call, absl::Duration) { return ((*stub_).*method)(call, request); });
  }

  const std::shared_ptr<AdminStub> stub_;
  const ConnectionOptions options_;
};

}  // namespace

std::shared_ptr<AdminConnection> MakeAdminConnectionOver(std::shared_ptr<AdminStub> stub,
                                                         ConnectionOptions options) {
  return std::make_shared<RetryingAdminConnection>(std::move(stub), std::move(options));
}

}  // namespace client_internal

namespace {

absl::Status Unimplemented(absl::string_view method) {
  return absl::UnimplementedError(absl::StrCat("this AdminConnection has no ", method));
}

}  // namespace

absl::string_view ToString(Role role) {
  switch (role) {
    case Role::kConsumer:
      return "CONSUMER";
    case Role::kOperator:
      return "OPERATOR";
    case Role::kAdmin:
      return "ADMIN";
  }
  return "";
}

AdminConnection::~AdminConnection() = default;

absl::StatusOr<Tenant> AdminConnection::CreateTenant(const std::string&, const CallOptions&) {
  return Unimplemented("CreateTenant");
}
absl::StatusOr<Page<Tenant>> AdminConnection::ListTenants(const PageRequest&, const CallOptions&) {
  return Unimplemented("ListTenants");
}
absl::StatusOr<IssuedCredential> AdminConnection::CreateCredential(const NewCredential&,
                                                                   const CallOptions&) {
  return Unimplemented("CreateCredential");
}
absl::StatusOr<Page<Credential>> AdminConnection::ListCredentials(const std::string&,
                                                                  const PageRequest&,
                                                                  const CallOptions&) {
  return Unimplemented("ListCredentials");
}
absl::StatusOr<RotatedCredential> AdminConnection::RotateCredential(const std::string&,
                                                                    std::optional<absl::Duration>,
                                                                    const CallOptions&) {
  return Unimplemented("RotateCredential");
}
absl::StatusOr<Credential> AdminConnection::RevokeCredential(const std::string&,
                                                             const CallOptions&) {
  return Unimplemented("RevokeCredential");
}

absl::StatusOr<VersionedPolicies> AdminConnection::GetPolicies(const std::string&, int32_t,
                                                               const CallOptions&) {
  return Unimplemented("GetPolicies");
}
absl::StatusOr<Page<PolicyVersion>> AdminConnection::ListPolicyVersions(const std::string&,
                                                                        const PageRequest&,
                                                                        const CallOptions&) {
  return Unimplemented("ListPolicyVersions");
}
absl::StatusOr<VersionedPolicies> AdminConnection::ApplyPolicies(const PolicyChange&,
                                                                 const CallOptions&) {
  return Unimplemented("ApplyPolicies");
}
absl::StatusOr<Page<AuditRecord>> AdminConnection::ListAuditRecords(const std::string&,
                                                                    const PageRequest&,
                                                                    const CallOptions&) {
  return Unimplemented("ListAuditRecords");
}

absl::StatusOr<std::shared_ptr<AdminConnection>> MakeAdminConnection(ConnectionOptions options) {
  if (auto status = client_internal::CheckOptions(options); !status.ok()) return status;
  options = client_internal::WithDefaults(std::move(options));
  auto stub = client_internal::MakeGrpcAdminStub(options);
  if (!stub.ok()) return stub.status();
  return client_internal::MakeAdminConnectionOver(*std::move(stub), std::move(options));
}

AdminClient::AdminClient(std::shared_ptr<AdminConnection> connection)
    : connection_(std::move(connection)) {}

absl::StatusOr<Tenant> AdminClient::CreateTenant(const std::string& name,
                                                 const CallOptions& options) const {
  return connection_->CreateTenant(name, options);
}

absl::StatusOr<Page<Tenant>> AdminClient::ListTenants(const PageRequest& page,
                                                      const CallOptions& options) const {
  return connection_->ListTenants(page, options);
}

absl::StatusOr<std::vector<Tenant>> AdminClient::ListAllTenants(const CallOptions& options) const {
  std::vector<Tenant> all;
  PageRequest request;
  do {
    auto page = connection_->ListTenants(request, options);
    if (!page.ok()) return page.status();
    for (auto& tenant : page->items) all.push_back(std::move(tenant));
    request.page_token = page->next_page_token;
  } while (!request.page_token.empty());
  return all;
}

absl::StatusOr<IssuedCredential> AdminClient::CreateCredential(const NewCredential& credential,
                                                               const CallOptions& options) const {
  return connection_->CreateCredential(credential, options);
}

absl::StatusOr<Page<Credential>> AdminClient::ListCredentials(const std::string& tenant,
                                                              const PageRequest& page,
                                                              const CallOptions& options) const {
  return connection_->ListCredentials(tenant, page, options);
}

absl::StatusOr<std::vector<Credential>> AdminClient::ListAllCredentials(
    const std::string& tenant, const CallOptions& options) const {
  std::vector<Credential> all;
  PageRequest request;
  do {
    auto page = connection_->ListCredentials(tenant, request, options);
    if (!page.ok()) return page.status();
    for (auto& credential : page->items) all.push_back(std::move(credential));
    request.page_token = page->next_page_token;
  } while (!request.page_token.empty());
  return all;
}

absl::StatusOr<RotatedCredential> AdminClient::RotateCredential(
    const std::string& credential_id, std::optional<absl::Duration> overlap,
    const CallOptions& options) const {
  return connection_->RotateCredential(credential_id, overlap, options);
}

absl::StatusOr<Credential> AdminClient::RevokeCredential(const std::string& credential_id,
                                                         const CallOptions& options) const {
  return connection_->RevokeCredential(credential_id, options);
}

absl::StatusOr<VersionedPolicies> AdminClient::GetPolicies(const std::string& tenant,
                                                           int32_t version,
                                                           const CallOptions& options) const {
  return connection_->GetPolicies(tenant, version, options);
}

absl::StatusOr<Page<PolicyVersion>> AdminClient::ListPolicyVersions(
    const std::string& tenant, const PageRequest& page, const CallOptions& options) const {
  return connection_->ListPolicyVersions(tenant, page, options);
}

absl::StatusOr<std::vector<PolicyVersion>> AdminClient::ListAllPolicyVersions(
    const std::string& tenant, const CallOptions& options) const {
  std::vector<PolicyVersion> all;
  PageRequest request;
  do {
    auto page = connection_->ListPolicyVersions(tenant, request, options);
    if (!page.ok()) return page.status();
    for (auto& version : page->items) all.push_back(std::move(version));
    request.page_token = page->next_page_token;
  } while (!request.page_token.empty());
  return all;
}

absl::StatusOr<VersionedPolicies> AdminClient::ApplyPolicies(const PolicyChange& change,
                                                             const CallOptions& options) const {
  return connection_->ApplyPolicies(change, options);
}

absl::StatusOr<Page<AuditRecord>> AdminClient::ListAuditRecords(const std::string& tenant,
                                                                const PageRequest& page,
                                                                const CallOptions& options) const {
  return connection_->ListAuditRecords(tenant, page, options);
}

}  // namespace once
