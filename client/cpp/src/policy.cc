#include "once/policy.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "convert.h"
#include "policy_convert.h"

namespace once {
namespace {

using google::protobuf::Duration;
using google::protobuf::Message;
using google::protobuf::TextFormat;

class FaultCollector final : public google::protobuf::io::ErrorCollector {
 public:
  // Counts from 0, as parsers do; people count from 1.
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    faults_.push_back(line < 0 ? message : absl::StrCat(line + 1, ":", column + 1, ": ", message));
  }
  std::string Text() const { return absl::StrJoin(faults_, "\n"); }

 private:
  std::vector<std::string> faults_;
};

// "seconds: 604800  # 7d"
class DurationPrinter final : public TextFormat::MessagePrinter {
 public:
  void Print(const Message& message, bool single_line,
             TextFormat::BaseTextGenerator* generator) const override {
    Duration duration;
    duration.CopyFrom(message);
    const absl::Duration time =
        absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
    std::string text = absl::StrCat("seconds: ", duration.seconds());
    if (duration.nanos() != 0) absl::StrAppend(&text, " nanos: ", duration.nanos());
    if (!single_line) {
      if (time >= absl::Minutes(1)) absl::StrAppend(&text, "  # ", InDays(time));
      text += "\n";
    }
    generator->PrintString(text);
  }

 private:
  static std::string InDays(absl::Duration time) {
    const absl::Duration rest = time % absl::Hours(24);
    const int64_t days = (time - rest) / absl::Hours(24);
    if (days == 0) return absl::FormatDuration(time);
    return absl::StrCat(days, "d", rest == absl::ZeroDuration() ? "" : absl::FormatDuration(rest));
  }
};

std::string TextOf(const v1::HandlerPolicy& policy) {
  v1::HandlerPolicySet set;
  *set.add_policies() = policy;
  TextFormat::Printer printer;
  printer.RegisterMessagePrinter(Duration::descriptor(), new DurationPrinter);  // takes it
  std::string text;
  printer.PrintToString(set, &text);
  return text;
}

bool IsZero(const Duration& duration) { return duration.seconds() == 0 && duration.nanos() == 0; }

// The one form of all records that mean the same: nothing that is the default anyway.
void MakeCanonical(v1::HandlerPolicy& policy) {
  if (policy.admission() == v1::ADMISSION_ALLOWED) policy.clear_admission();
  if (policy.expired_lease() == v1::EXPIRED_LEASE_RETRY) policy.clear_expired_lease();
  if (policy.digest().scheme() == v1::DIGEST_SCHEME_RAW_SHA256) {
    policy.mutable_digest()->clear_scheme();
  }
  if (policy.has_digest()) {
    auto& members = *policy.mutable_digest()->mutable_ignored_members();
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
  }
  if (policy.has_retention()) {
    v1::RetentionPolicy& retention = *policy.mutable_retention();
    if (IsZero(retention.broker_window())) retention.clear_broker_window();
    if (IsZero(retention.dead_letter_window())) retention.clear_dead_letter_window();
    if (IsZero(retention.backup_window())) retention.clear_backup_window();
    if (IsZero(retention.manual_replay_window())) retention.clear_manual_replay_window();
  }
  if (policy.lease().ByteSizeLong() == 0) policy.clear_lease();
  if (policy.digest().ByteSizeLong() == 0) policy.clear_digest();
  if (policy.retention().ByteSizeLong() == 0) policy.clear_retention();
  if (policy.order().ByteSizeLong() == 0) policy.clear_order();
}

}  // namespace

HandlerPolicies HandlerPoliciesPeer::FromProto(v1::HandlerPolicySet set) {
  std::stable_sort(set.mutable_policies()->begin(), set.mutable_policies()->end(),
                   [](const auto& a, const auto& b) { return a.handler() < b.handler(); });
  HandlerPolicies policies;
  for (v1::HandlerPolicy& policy : *set.mutable_policies()) {
    MakeCanonical(policy);
    policies.records_[policy.handler()] += TextOf(policy);
  }
  policies.wire_ = set.SerializeAsString();
  return policies;
}

v1::HandlerPolicySet HandlerPoliciesPeer::ToProto(const HandlerPolicies& policies) {
  v1::HandlerPolicySet set;
  set.ParseFromString(policies.wire_);
  return set;
}

absl::StatusOr<HandlerPolicies> HandlerPolicies::Parse(absl::string_view text) {
  FaultCollector faults;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&faults);
  v1::HandlerPolicySet set;
  if (!parser.ParseFromString(std::string(text), &set)) {
    return absl::InvalidArgumentError(faults.Text());
  }
  return HandlerPoliciesPeer::FromProto(std::move(set));
}

std::string HandlerPolicies::ToText() const {
  std::string text;
  for (const auto& [handler, record] : records_) absl::StrAppend(&text, record);
  return text;
}

absl::string_view ToString(AuditAction action) {
  switch (action) {
    case AuditAction::kCreateTenant:
      return "CREATE_TENANT";
    case AuditAction::kCreateCredential:
      return "CREATE_CREDENTIAL";
    case AuditAction::kExpireCredential:
      return "EXPIRE_CREDENTIAL";
    case AuditAction::kRevokeCredential:
      return "REVOKE_CREDENTIAL";
    case AuditAction::kApplyHandlerPolicies:
      return "APPLY_HANDLER_POLICIES";
    case AuditAction::kResolve:
      return "RESOLVE";
    case AuditAction::kReset:
      return "RESET";
  }
  return "";
}

namespace client_internal {

PolicyVersion FromProto(const v1::HandlerPolicyVersion& version) {
  return {version.version(), version.credential_id(), version.reason(),
          FromProto(version.create_time())};
}

absl::StatusOr<AuditRecord> FromProto(const v1::AuditRecord& proto) {
  if (proto.action() < v1::AUDIT_ACTION_CREATE_TENANT || proto.action() > v1::AUDIT_ACTION_RESET) {
    return absl::InternalError(
        "the audit has an action that this client does not know; it may be older than the server");
  }
  AuditRecord record;
  record.record_id = proto.record_id();
  record.tenant = proto.tenant();
  record.action = static_cast<AuditAction>(proto.action());  // the same numbers
  record.subject = proto.subject();
  record.before = proto.before();
  record.after = proto.after();
  record.credential_id = proto.credential_id();
  record.reason = proto.reason();
  record.create_time = FromProto(proto.create_time());
  return record;
}

v1::ApplyHandlerPoliciesRequest ToProto(const PolicyChange& change) {
  v1::ApplyHandlerPoliciesRequest request;
  request.set_tenant(change.tenant);
  *request.mutable_policy_set() = HandlerPoliciesPeer::ToProto(change.policies);
  request.set_expected_version(change.expected_version);
  request.set_reason(change.reason);
  request.set_accept_digest_change(change.accept_digest_change);
  return request;
}

}  // namespace client_internal
}  // namespace once
