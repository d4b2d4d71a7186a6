#include "rpc/admin_operations.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "auth/credential.h"
#include "base/error.h"
#include "rpc/page_token.h"
#include "rpc/status_macros.h"
#include "rpc/validate.h"
#include "rpc/wire_time.h"

namespace once::rpc {
namespace {

using base::ErrorReason;
using base::InvalidField;
using base::MakeError;

constexpr absl::Duration kMinTtl = absl::Seconds(1);
constexpr absl::Duration kMaxTtl = absl::Hours(24 * 3653);  // 10 years
constexpr absl::Duration kDefaultOverlap = absl::Hours(24);
constexpr absl::Duration kMaxOverlap = absl::Hours(24 * 30);

absl::Status TenantNotFound(absl::string_view name) {
  return MakeError(ErrorReason::kTenantNotFound, absl::StrCat("there is no tenant ", name),
                   {{"tenant", std::string(name)}});
}

absl::Status CredentialNotFound(absl::string_view id) {
  return MakeError(ErrorReason::kCredentialNotFound, absl::StrCat("there is no credential ", id),
                   {{"credential_id", std::string(id)}});
}

v1::Role ToWire(store::Role role) {
  switch (role) {
    case store::Role::kConsumer:
      return v1::ROLE_CONSUMER;
    case store::Role::kOperator:
      return v1::ROLE_OPERATOR;
    case store::Role::kAdmin:
      return v1::ROLE_ADMIN;
  }
  return v1::ROLE_UNSPECIFIED;
}

absl::StatusOr<store::Role> ToRole(v1::Role role) {
  switch (static_cast<int>(role)) {
    case v1::ROLE_CONSUMER:
      return store::Role::kConsumer;
    case v1::ROLE_OPERATOR:
      return store::Role::kOperator;
    case v1::ROLE_ADMIN:
      return store::Role::kAdmin;
    default:  // an open enum of the wire: any number may come
      return InvalidField("role", "must be CONSUMER, OPERATOR or ADMIN",
                          {{"value", absl::StrCat(static_cast<int>(role))}});
  }
}

void Fill(const store::TenantRow& row, v1::Tenant* out) {
  out->set_name(row.name);
  FillTimestamp(row.created, out->mutable_create_time());
}

void Fill(const store::CredentialRow& row, v1::Credential* out) {
  out->set_credential_id(row.credential_id);
  out->set_tenant(row.tenant_name);
  out->set_role(ToWire(row.role));
  for (const std::string& pattern : row.handler_patterns) {
    out->add_handler_patterns(pattern);
  }
  out->set_description(row.description);
  FillTimestamp(row.created, out->mutable_create_time());
  if (row.expires.has_value()) {
    FillTimestamp(*row.expires, out->mutable_expire_time());
  }
  if (row.revoked.has_value()) {
    FillTimestamp(*row.revoked, out->mutable_revoke_time());
  }
}

absl::Status CheckCredentialId(const std::string& id) {
  if (auth::IsCredentialId(id)) {
    return absl::OkStatus();
  }
  return InvalidField("credential_id", "must be 16 lower-case hexadecimal digits");
}

// Admins belong to no tenant and have no handlers; everybody else needs the one and gets all of the
// other unless told otherwise.
absl::StatusOr<std::vector<std::string>> ToPatterns(const v1::CreateCredentialRequest& request,
                                                    store::Role role) {
  std::vector<std::string> patterns(request.handler_patterns().begin(),
                                    request.handler_patterns().end());
  if (role == store::Role::kAdmin) {
    if (!request.tenant().empty()) {
      return InvalidField("tenant", "must be empty for the role ADMIN");
    }
    if (!patterns.empty()) {
      return InvalidField("handler_patterns", "must be empty for the role ADMIN");
    }
    return patterns;
  }
  ONCE_RETURN_IF_ERROR(CheckName(Field("tenant"), request.tenant(), core::kMaxTenantNameBytes));
  if (patterns.size() > core::kMaxHandlerPatterns) {
    return InvalidField(
        "handler_patterns",
        absl::StrCat("has ", patterns.size(), " items; the limit is ", core::kMaxHandlerPatterns),
        {{"size", absl::StrCat(patterns.size())},
         {"limit", absl::StrCat(core::kMaxHandlerPatterns)}});
  }
  for (size_t i = 0; i < patterns.size(); ++i) {
    const std::string field = absl::StrCat("handler_patterns[", i, "]");
    ONCE_RETURN_IF_ERROR(CheckHandlerPattern(Field(field), patterns[i]));
  }
  if (patterns.empty()) {
    patterns.emplace_back("*");
  }
  return patterns;
}

absl::StatusOr<std::optional<absl::Duration>> ToTtl(const google::protobuf::Duration& ttl) {
  if (ttl.seconds() == 0 && ttl.nanos() == 0) {
    return std::nullopt;
  }
  return ParseDuration(Field("ttl"), ttl, kMinTtl, kMaxTtl);
}

struct Shown {
  store::CredentialRow row;
  std::string token;
};

// Each run makes a secret of its own: one that may have been stored by a run of unknown outcome was
// never shown.
absl::StatusOr<Shown> StoreNewCredential(store::ControlSession& session, store::CredentialRow row,
                                         std::optional<absl::Duration> ttl,
                                         const store::Author& author) {
  const auth::NewCredential made = auth::MakeCredential();
  row.credential_id = made.credential_id;
  row.secret_sha256 = made.secret_sha256;
  ONCE_ASSIGN_OR_RETURN(store::CredentialRow stored, session.CreateCredential(row, ttl, author));
  stored.tenant_name = row.tenant_name;
  return Shown{.row = std::move(stored), .token = made.token.Reveal()};
}

absl::StatusOr<v1::CreateCredentialResponse> CreateCredential(store::ControlSession& session,
                                                              store::CredentialRow row,
                                                              std::optional<absl::Duration> ttl,
                                                              const store::Author& author) {
  if (row.role != store::Role::kAdmin) {
    ONCE_ASSIGN_OR_RETURN(const store::TenantRow tenant, FindTenant(session, row.tenant_name));
    row.tenant = tenant.id;
  }
  ONCE_ASSIGN_OR_RETURN(Shown made, StoreNewCredential(session, std::move(row), ttl, author));
  v1::CreateCredentialResponse response;
  Fill(made.row, response.mutable_credential());
  response.set_token(std::move(made.token));
  return response;
}

// The new one first: a failure between the two steps leaves the old one good.
absl::StatusOr<v1::RotateCredentialResponse> RotateCredential(store::ControlSession& session,
                                                              const std::string& id,
                                                              absl::Duration overlap,
                                                              const store::Author& author) {
  auto old = session.GetCredential(id);
  if (absl::IsNotFound(old.status())) {
    return CredentialNotFound(id);
  }
  ONCE_RETURN_IF_ERROR(old.status());
  if (!old->active) {
    return InvalidField("credential_id", "names a credential that is revoked or expired");
  }
  std::optional<absl::Duration> ttl;
  if (old->expires.has_value()) {
    ttl = *old->expires - old->created;
  }
  store::CredentialRow row;
  row.tenant = old->tenant;
  row.tenant_name = old->tenant_name;
  row.role = old->role;
  row.handler_patterns = old->handler_patterns;
  row.description = old->description;
  ONCE_ASSIGN_OR_RETURN(Shown made, StoreNewCredential(session, std::move(row), ttl, author));
  auto replaced = session.ExpireCredential(id, overlap, author);
  if (!replaced.ok()) {
    // Its secret will not be shown. Best effort: it is known to nobody.
    (void)session.RevokeCredential(made.row.credential_id, author);
    return replaced.status();
  }
  if (replaced->tenant_name.empty()) {
    replaced->tenant_name = made.row.tenant_name;
  }
  v1::RotateCredentialResponse response;
  Fill(made.row, response.mutable_credential());
  response.set_token(std::move(made.token));
  Fill(*replaced, response.mutable_replaced());
  return response;
}

absl::StatusOr<v1::ListCredentialsResponse> ListCredentials(store::ControlSession& session,
                                                            const std::string& tenant,
                                                            const std::string& query,
                                                            const std::string& after, int size) {
  std::optional<core::TenantId> tenant_id;
  if (!tenant.empty()) {
    ONCE_ASSIGN_OR_RETURN(const store::TenantRow row, FindTenant(session, tenant));
    tenant_id = row.id;
  }
  // One more than the page, to know whether there is another one.
  ONCE_ASSIGN_OR_RETURN(const std::vector<store::CredentialRow> rows,
                        session.ListCredentials(tenant_id, after, size + 1));
  v1::ListCredentialsResponse response;
  for (const store::CredentialRow& row : rows) {
    if (response.credentials_size() == size) {
      response.set_next_page_token(
          MakePageToken(query, response.credentials(size - 1).credential_id()));
      break;
    }
    Fill(row, response.add_credentials());
  }
  return response;
}

absl::StatusOr<v1::ListTenantsResponse> ListTenants(store::ControlSession& session,
                                                    const std::string& query,
                                                    const std::string& after, int size) {
  ONCE_ASSIGN_OR_RETURN(const std::vector<store::TenantRow> rows,
                        session.ListTenants(after, size + 1));
  v1::ListTenantsResponse response;
  for (const store::TenantRow& row : rows) {
    if (response.tenants_size() == size) {
      response.set_next_page_token(MakePageToken(query, response.tenants(size - 1).name()));
      break;
    }
    Fill(row, response.add_tenants());
  }
  return response;
}

absl::Status CheckReason(const std::string& reason) {
  return CheckSize(Field("reason"), reason, core::kMaxReasonBytes);
}

}  // namespace

absl::StatusOr<store::TenantRow> FindTenant(store::ControlSession& session,
                                            const std::string& name) {
  auto tenant = session.GetTenant(name);
  return absl::IsNotFound(tenant.status()) ? TenantNotFound(name) : std::move(tenant);
}

absl::StatusOr<AdminWork<v1::CreateTenantResponse>> Prepare(const v1::CreateTenantRequest& request,
                                                            const AdminContext& context) {
  ONCE_RETURN_IF_ERROR(CheckName(Field("name"), request.name(), core::kMaxTenantNameBytes));
  ONCE_RETURN_IF_ERROR(CheckReason(request.reason()));
  return [name = request.name(), author = AuthorOf(request, context)](
             store::ControlSession& session) -> absl::StatusOr<v1::CreateTenantResponse> {
    const auto row = session.CreateTenant(name, author);
    if (absl::IsAlreadyExists(row.status())) {
      return MakeError(ErrorReason::kTenantAlreadyExists,
                       absl::StrCat("there is a tenant ", name, " already"), {{"tenant", name}});
    }
    ONCE_RETURN_IF_ERROR(row.status());
    v1::CreateTenantResponse response;
    Fill(*row, response.mutable_tenant());
    return response;
  };
}

absl::StatusOr<AdminWork<v1::ListTenantsResponse>> Prepare(const v1::ListTenantsRequest& request,
                                                           const AdminContext& context) {
  const std::string query = "tenants";
  ONCE_ASSIGN_OR_RETURN(const int size,
                        ParsePageSize(Field("page_size"), request.page_size(), context.limits));
  ONCE_ASSIGN_OR_RETURN(const std::string after, ParsePageToken(query, request.page_token()));
  return [=](store::ControlSession& session) { return ListTenants(session, query, after, size); };
}

absl::StatusOr<AdminWork<v1::CreateCredentialResponse>> Prepare(
    const v1::CreateCredentialRequest& request, const AdminContext& context) {
  store::CredentialRow row;
  ONCE_ASSIGN_OR_RETURN(row.role, ToRole(request.role()));
  ONCE_ASSIGN_OR_RETURN(row.handler_patterns, ToPatterns(request, row.role));
  ONCE_RETURN_IF_ERROR(
      CheckSize(Field("description"), request.description(), core::kMaxDescriptionBytes));
  ONCE_ASSIGN_OR_RETURN(const std::optional<absl::Duration> ttl, ToTtl(request.ttl()));
  row.tenant_name = request.tenant();
  row.description = request.description();
  ONCE_RETURN_IF_ERROR(CheckReason(request.reason()));
  return [row, ttl, author = AuthorOf(request, context)](store::ControlSession& session) {
    return CreateCredential(session, row, ttl, author);
  };
}

absl::StatusOr<AdminWork<v1::ListCredentialsResponse>> Prepare(
    const v1::ListCredentialsRequest& request, const AdminContext& context) {
  if (!request.tenant().empty()) {
    ONCE_RETURN_IF_ERROR(CheckName(Field("tenant"), request.tenant(), core::kMaxTenantNameBytes));
  }
  const std::string tenant = request.tenant();
  const std::string query = absl::StrCat("credentials ", tenant);
  ONCE_ASSIGN_OR_RETURN(const int size,
                        ParsePageSize(Field("page_size"), request.page_size(), context.limits));
  ONCE_ASSIGN_OR_RETURN(const std::string after, ParsePageToken(query, request.page_token()));
  return [=](store::ControlSession& session) {
    return ListCredentials(session, tenant, query, after, size);
  };
}

absl::StatusOr<AdminWork<v1::RotateCredentialResponse>> Prepare(
    const v1::RotateCredentialRequest& request, const AdminContext& context) {
  ONCE_RETURN_IF_ERROR(CheckCredentialId(request.credential_id()));
  absl::Duration overlap = kDefaultOverlap;
  if (request.has_overlap()) {
    ONCE_ASSIGN_OR_RETURN(overlap, ParseDuration(Field("overlap"), request.overlap(),
                                                 absl::ZeroDuration(), kMaxOverlap));
  }
  ONCE_RETURN_IF_ERROR(CheckReason(request.reason()));
  return [id = request.credential_id(), overlap,
          author = AuthorOf(request, context)](store::ControlSession& session) {
    return RotateCredential(session, id, overlap, author);
  };
}

absl::StatusOr<AdminWork<v1::RevokeCredentialResponse>> Prepare(
    const v1::RevokeCredentialRequest& request, const AdminContext& context) {
  ONCE_RETURN_IF_ERROR(CheckCredentialId(request.credential_id()));
  ONCE_RETURN_IF_ERROR(CheckReason(request.reason()));
  return [id = request.credential_id(), author = AuthorOf(request, context)](
             store::ControlSession& session) -> absl::StatusOr<v1::RevokeCredentialResponse> {
    const auto row = session.RevokeCredential(id, author);
    if (absl::IsNotFound(row.status())) {
      return CredentialNotFound(id);
    }
    ONCE_RETURN_IF_ERROR(row.status());
    v1::RevokeCredentialResponse response;
    Fill(*row, response.mutable_credential());
    return response;
  };
}

}  // namespace once::rpc
