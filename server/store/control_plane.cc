#include "store/control_plane.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace once::store {
namespace {

std::string TimeText(core::DbTime time) {
  return absl::FormatTime(absl::RFC3339_full, absl::FromUnixMicros(time.micros),
                          absl::UTCTimeZone());
}

// Names and descriptions may be any bytes of a caller's.
std::string TextOf(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string RoleText(Role role) {
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

std::string TextOf(const CredentialRow& row) {
  nlohmann::ordered_json json = {{"credential_id", row.credential_id},
                                 {"role", RoleText(row.role)},
                                 {"handler_patterns", row.handler_patterns},
                                 {"description", row.description},
                                 {"create_time", TimeText(row.created)}};
  if (row.expires.has_value()) json["expire_time"] = TimeText(*row.expires);
  if (row.revoked.has_value()) json["revoke_time"] = TimeText(*row.revoked);
  return TextOf(json);
}

}  // namespace

absl::StatusOr<bool> IsAppliedAlready(const PolicyVersionRow& current, int32_t expected_version,
                                      absl::string_view document) {
  const bool expected = current.version == expected_version;
  if (current.version > 0 && current.document == document &&
      (expected || current.version - 1 == expected_version)) {
    return true;
  }
  if (!expected) {
    return absl::FailedPreconditionError(absl::StrCat(
        "version ", current.version, " of the policies is current, not ", expected_version));
  }
  return false;
}

AuditRow AuditOf(const TenantRow& after, const Author& author) {
  AuditRow row;
  row.tenant = after.id;
  row.action = AuditAction::kCreateTenant;
  row.subject = after.name;
  row.after = TextOf({{"name", after.name}});
  row.author = author;
  return row;
}

AuditRow AuditOf(AuditAction action, const CredentialRow* before, const CredentialRow& after,
                 const Author& author) {
  AuditRow row;
  row.tenant = after.tenant;
  row.action = action;
  row.subject = after.credential_id;
  if (before != nullptr) row.before = TextOf(*before);
  row.after = TextOf(after);
  row.author = author;
  return row;
}

AuditRow AuditOf(const std::string& before, const PolicyVersionRow& after) {
  AuditRow row;
  row.tenant = after.tenant;
  row.action = AuditAction::kApplyPolicies;
  row.subject = absl::StrCat("version ", after.version);
  row.before = before;
  row.after = after.document;
  row.author = after.author;
  return row;
}

}  // namespace once::store
