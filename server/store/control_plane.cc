#include "store/control_plane.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/limits.h"

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

absl::string_view StateText(core::RowState state) {
  switch (state) {
    case core::RowState::kClaimed:
      return "CLAIMED";
    case core::RowState::kReleased:
      return "RELEASED";
    case core::RowState::kCompleted:
      return "COMPLETED";
    case core::RowState::kTombstone:
      return "TOMBSTONE";
  }
  return "";
}

template <typename Bytes>
std::string HexText(const Bytes& bytes) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::string TextOf(const core::OperationRow& row) {
  nlohmann::ordered_json json = {
      {"state", StateText(row.state)},  {"attempt_id", HexText(row.claim.attempt.bytes)},
      {"fence", row.claim.fence.value}, {"attempt_number", row.claims},
      {"consumer", row.claim.consumer}, {"lease_expire_time", TimeText(row.claim.lease_expires)}};
  if (row.unknown.has_value()) {
    json["earlier_attempt_id"] = HexText(row.unknown->attempt.bytes);
    json["earlier_attempt_count"] = row.unknown_attempts;
  }
  if (row.receipt.has_value()) {
    json["status"] =
        row.receipt->status == core::ReceiptStatus::kSucceeded ? "SUCCEEDED" : "REJECTED";
    json["result_size"] = row.receipt->result_size;
    json["result_fingerprint"] = HexText(row.receipt->fingerprint);
    json["complete_time"] = TimeText(row.receipt->completed);
  }
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

AuditRow AuditOf(AuditAction action, const core::OperationKey& key, absl::string_view handler,
                 const core::OperationRow& before, const core::OperationRow& after,
                 const Author& author) {
  AuditRow row;
  row.tenant = key.tenant;
  row.action = action;
  // The whole id is in the attempt log beside it, if it does not fit.
  row.subject = absl::StrCat(handler, " ", absl::CHexEscape(key.event_id));
  row.subject.resize(std::min(row.subject.size(), core::kMaxReasonBytes));
  row.before = TextOf(before);
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
