#include "rpc/policy_operations.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "core/handler_policy.h"
#include "policy/document.h"
#include "rpc/page_token.h"
#include "rpc/policy_messages.h"
#include "rpc/status_macros.h"
#include "rpc/validate.h"
#include "rpc/wire_time.h"
#include "store/control_plane.h"

namespace once::rpc {
namespace {

using base::ErrorReason;
using base::InvalidField;
using base::MakeError;

// A page of the audit, before it ends early: clients refuse messages above 4 MiB. So it is read in
// portions, and never lies in memory as a whole many times.
constexpr size_t kAuditPageBytes = size_t{2} << 20;
constexpr int kAuditPortion = 16;

// Lists that go backwards by number continue below the last one.
template <typename Number>
absl::StatusOr<Number> ParseBefore(const std::string& query, const std::string& token) {
  ONCE_ASSIGN_OR_RETURN(const std::string last, ParsePageToken(query, token));
  Number before = std::numeric_limits<Number>::max();
  if (!last.empty() && !absl::SimpleAtoi(last, &before)) {
    return InvalidField("page_token",
                        "is not the next_page_token of an earlier page of the same query");
  }
  return before;
}

void Fill(const store::PolicyVersionRow& row, v1::HandlerPolicyVersion* out) {
  out->set_version(row.version);
  out->set_credential_id(row.author.credential_id);
  out->set_reason(row.author.reason);
  FillTimestamp(row.created, out->mutable_create_time());
}

template <typename Response>
absl::StatusOr<Response> ShowPolicies(const store::PolicyVersionRow& row) {
  ONCE_ASSIGN_OR_RETURN(const std::vector<core::HandlerPolicy> policies,
                        policy::ReadDocument(row.document));
  Response response;
  FillPolicies(policies, response.mutable_policy_set());
  Fill(row, response.mutable_version());
  return response;
}

absl::StatusOr<v1::GetHandlerPoliciesResponse> GetPolicies(store::ControlSession& session,
                                                           const std::string& tenant,
                                                           int32_t version) {
  ONCE_ASSIGN_OR_RETURN(const store::TenantRow owner, FindTenant(session, tenant));
  const auto row = session.GetPolicies(owner.id, version);
  if (absl::IsNotFound(row.status())) {
    if (version == 0) return v1::GetHandlerPoliciesResponse();
    return MakeError(ErrorReason::kPoliciesNotFound,
                     absl::StrCat("the policies of ", tenant, " have no version ", version),
                     {{"tenant", tenant}, {"version", absl::StrCat(version)}});
  }
  ONCE_RETURN_IF_ERROR(row.status());
  return ShowPolicies<v1::GetHandlerPoliciesResponse>(*row);
}

absl::StatusOr<v1::ListHandlerPolicyVersionsResponse> ListVersions(store::ControlSession& session,
                                                                   const std::string& tenant,
                                                                   const std::string& query,
                                                                   int32_t before, int size) {
  ONCE_ASSIGN_OR_RETURN(const store::TenantRow owner, FindTenant(session, tenant));
  // One more than the page, to know whether there is another one.
  ONCE_ASSIGN_OR_RETURN(const std::vector<store::PolicyVersionRow> rows,
                        session.ListPolicyVersions(owner.id, before, size + 1));
  v1::ListHandlerPolicyVersionsResponse response;
  for (const store::PolicyVersionRow& row : rows) {
    if (response.versions_size() == size) {
      response.set_next_page_token(
          MakePageToken(query, absl::StrCat(response.versions(size - 1).version())));
      break;
    }
    Fill(row, response.add_versions());
  }
  return response;
}

// ---- apply ----

struct Change {
  std::string tenant;
  int32_t expected_version = 0;
  std::vector<core::HandlerPolicy> policies;
  std::string document;
  bool accept_digest_change = false;
  store::Author author;
};

// Version 0, which nobody made, where there is none yet: all handlers have the built-in defaults.
absl::StatusOr<store::PolicyVersionRow> CurrentVersion(store::ControlSession& session,
                                                       core::TenantId tenant) {
  auto row = session.GetPolicies(tenant, 0);
  if (!absl::IsNotFound(row.status())) return row;
  store::PolicyVersionRow none;
  none.tenant = tenant;
  none.document = policy::WriteDocument({});
  return none;
}

// This may be the repeat of a change that was made, whose answer was lost, and after which somebody
// else made another one.
absl::StatusOr<bool> WasReplaced(store::ControlSession& session, core::TenantId tenant,
                                 const Change& change, int32_t current) {
  if (current <= change.expected_version) return false;
  const auto next = session.GetPolicies(tenant, change.expected_version + 1);
  if (absl::IsNotFound(next.status())) return false;
  ONCE_RETURN_IF_ERROR(next.status());
  return next->document == change.document;
}

absl::Status VersionMismatch(store::ControlSession& session, core::TenantId tenant,
                             const Change& change) {
  ONCE_ASSIGN_OR_RETURN(const store::PolicyVersionRow current, CurrentVersion(session, tenant));
  ONCE_ASSIGN_OR_RETURN(const bool replaced, WasReplaced(session, tenant, change, current.version));
  const std::string so = replaced ? absl::StrCat("version ", change.expected_version + 1,
                                                 " is what this change asks for, and was replaced "
                                                 "since. Look at the current one")
                                  : "nothing was changed. Look at what the other change did, and "
                                    "apply again";
  return MakeError(
      ErrorReason::kPolicyVersionMismatch,
      absl::StrCat("version ", current.version, " of the policies of ", change.tenant,
                   " is current, this change follows version ", change.expected_version, "; ", so),
      {{"tenant", change.tenant},
       {"expected_version", absl::StrCat(change.expected_version)},
       {"current_version", absl::StrCat(current.version)}});
}

absl::Status DigestChangeNotAccepted(const Change& change,
                                     const std::vector<core::DigestChange>& digests) {
  const std::string handlers = absl::StrJoin(
      digests, ",", [](std::string* out, const auto& one) { out->append(one.handler); });
  return MakeError(
      ErrorReason::kDigestChangeNotAccepted,
      absl::StrCat("the digests of these handlers change: ", handlers,
                   ". Operations begun before have digests of the old form, so a repeat of the "
                   "same content is answered with conflict and will not be recognised as the "
                   "duplicate that it is; while servers take the change over, also between them. "
                   "Let the handlers' messages run out first, then set accept_digest_change"),
      {{"tenant", change.tenant}, {"handlers", handlers}});
}

absl::StatusOr<v1::ApplyHandlerPoliciesResponse> ApplyPolicies(store::ControlSession& session,
                                                               const Change& change) {
  ONCE_ASSIGN_OR_RETURN(const store::TenantRow owner, FindTenant(session, change.tenant));
  ONCE_ASSIGN_OR_RETURN(const store::PolicyVersionRow current, CurrentVersion(session, owner.id));
  // Only what follows the version whose digests are compared goes on, so that none slips in
  // between.
  const auto there = store::IsAppliedAlready(current, change.expected_version, change.document);
  if (!there.ok()) return VersionMismatch(session, owner.id, change);
  ONCE_ASSIGN_OR_RETURN(const std::vector<core::HandlerPolicy> before,
                        policy::ReadDocument(current.document));
  const auto digests = core::DigestChanges(before, change.policies);
  if (!digests.empty() && !change.accept_digest_change) {
    return DigestChangeNotAccepted(change, digests);
  }
  const auto row =
      session.ApplyPolicies(owner.id, change.expected_version, change.document, change.author);
  if (absl::IsFailedPrecondition(row.status())) return VersionMismatch(session, owner.id, change);
  ONCE_RETURN_IF_ERROR(row.status());
  return ShowPolicies<v1::ApplyHandlerPoliciesResponse>(*row);
}

// ---- audit ----

v1::AuditAction ToWire(store::AuditAction action) {
  switch (action) {
    case store::AuditAction::kCreateTenant:
      return v1::AUDIT_ACTION_CREATE_TENANT;
    case store::AuditAction::kCreateCredential:
      return v1::AUDIT_ACTION_CREATE_CREDENTIAL;
    case store::AuditAction::kExpireCredential:
      return v1::AUDIT_ACTION_EXPIRE_CREDENTIAL;
    case store::AuditAction::kRevokeCredential:
      return v1::AUDIT_ACTION_REVOKE_CREDENTIAL;
    case store::AuditAction::kApplyPolicies:
      return v1::AUDIT_ACTION_APPLY_HANDLER_POLICIES;
    case store::AuditAction::kResolve:
      return v1::AUDIT_ACTION_RESOLVE;
    case store::AuditAction::kReset:
      return v1::AUDIT_ACTION_RESET;
  }
  return v1::AUDIT_ACTION_UNSPECIFIED;
}

void Fill(const store::AuditRow& row, v1::AuditRecord* out) {
  out->set_record_id(row.audit_id);
  out->set_tenant(row.tenant_name);
  out->set_action(ToWire(row.action));
  out->set_subject(row.subject);
  out->set_before(row.before);
  out->set_after(row.after);
  out->set_credential_id(row.author.credential_id);
  out->set_reason(row.author.reason);
  FillTimestamp(row.created, out->mutable_create_time());
}

absl::StatusOr<v1::ListAuditRecordsResponse> ListAudit(store::ControlSession& session,
                                                       const std::string& tenant,
                                                       const std::string& query, int64_t before,
                                                       int size) {
  std::optional<core::TenantId> tenant_id;
  if (!tenant.empty()) {
    ONCE_ASSIGN_OR_RETURN(const store::TenantRow owner, FindTenant(session, tenant));
    tenant_id = owner.id;
  }
  v1::ListAuditRecordsResponse response;
  size_t bytes = 0;
  while (true) {
    ONCE_ASSIGN_OR_RETURN(const std::vector<store::AuditRow> rows,
                          session.ListAudit(tenant_id, before, kAuditPortion));
    for (const store::AuditRow& row : rows) {
      bytes += row.before.size() + row.after.size();
      const int shown = response.records_size();
      if (shown == size || (shown > 0 && bytes > kAuditPageBytes)) {
        response.set_next_page_token(MakePageToken(query, absl::StrCat(before)));
        return response;
      }
      Fill(row, response.add_records());
      before = row.audit_id;
    }
    if (rows.size() < kAuditPortion) return response;
  }
}

absl::Status CheckTenant(const std::string& tenant) {
  return CheckName(Field("tenant"), tenant, core::kMaxTenantNameBytes);
}

absl::Status CheckVersion(const char* field, int32_t version) {
  if (version >= 0) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("is ", version, "; the minimum is 0"),
                      {{"value", absl::StrCat(version)}, {"limit", "0"}});
}

}  // namespace

absl::StatusOr<AdminWork<v1::GetHandlerPoliciesResponse>> Prepare(
    const v1::GetHandlerPoliciesRequest& request, const AdminContext&) {
  ONCE_RETURN_IF_ERROR(CheckTenant(request.tenant()));
  ONCE_RETURN_IF_ERROR(CheckVersion("version", request.version()));
  return [tenant = request.tenant(), version = request.version()](store::ControlSession& session) {
    return GetPolicies(session, tenant, version);
  };
}

absl::StatusOr<AdminWork<v1::ListHandlerPolicyVersionsResponse>> Prepare(
    const v1::ListHandlerPolicyVersionsRequest& request, const AdminContext& context) {
  ONCE_RETURN_IF_ERROR(CheckTenant(request.tenant()));
  const std::string tenant = request.tenant();
  const std::string query = absl::StrCat("policy versions ", tenant);
  ONCE_ASSIGN_OR_RETURN(const int size,
                        ParsePageSize(Field("page_size"), request.page_size(), context.limits));
  ONCE_ASSIGN_OR_RETURN(const int32_t before, ParseBefore<int32_t>(query, request.page_token()));
  return [=](store::ControlSession& session) {
    return ListVersions(session, tenant, query, before, size);
  };
}

absl::StatusOr<AdminWork<v1::ApplyHandlerPoliciesResponse>> Prepare(
    const v1::ApplyHandlerPoliciesRequest& request, const AdminContext& context) {
  ONCE_RETURN_IF_ERROR(CheckTenant(request.tenant()));
  ONCE_RETURN_IF_ERROR(CheckVersion("expected_version", request.expected_version()));
  ONCE_RETURN_IF_ERROR(CheckNotEmpty(Field("reason"), request.reason(), core::kMaxReasonBytes));
  Change change;
  ONCE_ASSIGN_OR_RETURN(change.policies, ToPolicies(request.policy_set(), context.limits));
  change.document = policy::WriteDocument(change.policies);
  if (change.document.size() > core::kMaxPolicyBytes) {
    return TooLong(Field("policy_set"), change.document.size(), core::kMaxPolicyBytes);
  }
  change.tenant = request.tenant();
  change.expected_version = request.expected_version();
  change.accept_digest_change = request.accept_digest_change();
  change.author = AuthorOf(request, context);
  return [change = std::move(change)](store::ControlSession& session) {
    return ApplyPolicies(session, change);
  };
}

absl::StatusOr<AdminWork<v1::ListAuditRecordsResponse>> Prepare(
    const v1::ListAuditRecordsRequest& request, const AdminContext& context) {
  const std::string tenant = request.tenant();
  if (!tenant.empty()) {
    ONCE_RETURN_IF_ERROR(CheckTenant(tenant));
  }
  const std::string query = absl::StrCat("audit ", tenant);
  ONCE_ASSIGN_OR_RETURN(const int size,
                        ParsePageSize(Field("page_size"), request.page_size(), context.limits));
  ONCE_ASSIGN_OR_RETURN(const int64_t before, ParseBefore<int64_t>(query, request.page_token()));
  return [=](store::ControlSession& session) {
    return ListAudit(session, tenant, query, before, size);
  };
}

}  // namespace once::rpc
