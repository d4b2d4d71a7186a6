#include "rpc/policy_messages.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "core/json_pointer.h"
#include "rpc/field_path.h"
#include "rpc/status_macros.h"
#include "rpc/validate.h"
#include "rpc/wire_time.h"

namespace once::rpc {
namespace {

using core::HandlerPolicy;

// Conversions of one record; `Path` names a field of it.
class PolicyReader {
 public:
  PolicyReader(int index, const v1::HandlerPolicy& wire)
      : path_(absl::StrCat("policies[", index, "].")), wire_(wire) {}

  absl::StatusOr<HandlerPolicy> Read() {
    HandlerPolicy policy;
    ONCE_RETURN_IF_ERROR(CheckHandlerPattern(Field(Path("handler")), wire_.handler()));
    policy.handler = wire_.handler();
    ONCE_RETURN_IF_ERROR(ReadChoices(policy));
    ONCE_RETURN_IF_ERROR(ReadLease(policy.lease));
    ONCE_RETURN_IF_ERROR(ReadRetention(policy.retention));
    policy.digest.ignored_members =
        ReadSet(wire_.digest().ignored_members(), core::kMaxExcludedPointers);
    policy.readable_versions = ReadSet(wire_.readable_versions(), core::kMaxReadableVersions);
    policy.order = {.guards_versions = wire_.order().guard_versions(),
                    .one_at_a_time = wire_.order().one_at_a_time()};
    return policy;
  }

 private:
  std::string Path(absl::string_view field) const { return absl::StrCat(path_, field); }

  absl::Status Unknown(absl::string_view field, int value) const {
    return base::InvalidField(Path(field),
                              absl::StrCat("is ", value, ", which this server does not know"),
                              {{"value", absl::StrCat(value)}});
  }

  absl::Status ReadChoices(HandlerPolicy& policy) const {
    switch (static_cast<int>(wire_.admission())) {
      case v1::ADMISSION_UNSPECIFIED:
      case v1::ADMISSION_ALLOWED:
        break;
      case v1::ADMISSION_REFUSED:
        policy.admission = core::Admission::kRefused;
        break;
      default:  // an open enum of the wire: any number may come; so below
        return Unknown("admission", wire_.admission());
    }
    switch (static_cast<int>(wire_.expired_lease())) {
      case v1::EXPIRED_LEASE_UNSPECIFIED:
      case v1::EXPIRED_LEASE_RETRY:
        break;
      case v1::EXPIRED_LEASE_IN_DOUBT:
        policy.on_lapse = core::LapsePolicy::kInDoubt;
        break;
      case v1::EXPIRED_LEASE_PROBE:
        policy.on_lapse = core::LapsePolicy::kProbe;
        break;
      default:
        return Unknown("expired_lease", wire_.expired_lease());
    }
    switch (static_cast<int>(wire_.digest().scheme())) {
      case v1::DIGEST_SCHEME_UNSPECIFIED:
      case v1::DIGEST_SCHEME_RAW_SHA256:
        break;
      case v1::DIGEST_SCHEME_JSON_JCS_SHA256:
        policy.digest.scheme = core::DigestScheme::kJsonJcsSha256;
        break;
      default:
        return Unknown("digest.scheme", wire_.digest().scheme());
    }
    switch (static_cast<int>(wire_.attempt_log())) {
      case v1::ATTEMPT_LOG_MODE_UNSPECIFIED:
        break;
      case v1::ATTEMPT_LOG_MODE_DURABLE:
        policy.attempt_log = core::AttemptLog::kDurable;
        break;
      case v1::ATTEMPT_LOG_MODE_BUFFERED:
        policy.attempt_log = core::AttemptLog::kBuffered;
        break;
      default:
        return Unknown("attempt_log", wire_.attempt_log());
    }
    return absl::OkStatus();
  }

  // Order and repeats mean nothing, and so do not make a difference. More than `most` are not worth
  // sorting: core refuses them.
  static std::vector<std::string> ReadSet(
      const google::protobuf::RepeatedPtrField<std::string>& wire, size_t most) {
    std::vector<std::string> items(wire.begin(), wire.end());
    if (items.size() > most) return items;
    std::sort(items.begin(), items.end());
    items.erase(std::unique(items.begin(), items.end()), items.end());
    return items;
  }

  // Whatever a Duration can say; core knows the limits. A part of a microsecond is dropped.
  absl::StatusOr<absl::Duration> ReadTime(absl::string_view field,
                                          const google::protobuf::Duration& wire) const {
    ONCE_ASSIGN_OR_RETURN(const absl::Duration time,
                          ParseDuration(Field(Path(field)), wire, -absl::InfiniteDuration(),
                                        absl::InfiniteDuration()));
    return absl::Trunc(time, absl::Microseconds(1));
  }

  absl::Status ReadLease(core::LeasePolicy& lease) const {
    const v1::LeasePolicy& wire = wire_.lease();
    if (wire.has_normal()) {
      ONCE_ASSIGN_OR_RETURN(lease.normal, ReadTime("lease.normal", wire.normal()));
    }
    if (wire.has_least()) {
      ONCE_ASSIGN_OR_RETURN(lease.least, ReadTime("lease.least", wire.least()));
    }
    if (wire.has_greatest()) {
      ONCE_ASSIGN_OR_RETURN(lease.greatest, ReadTime("lease.greatest", wire.greatest()));
    }
    return absl::OkStatus();
  }

  absl::Status ReadRetention(core::RetentionPolicy& retention) const {
    const v1::RetentionPolicy& wire = wire_.retention();
    if (wire.has_receipt()) {
      ONCE_ASSIGN_OR_RETURN(retention.receipt, ReadTime("retention.receipt", wire.receipt()));
    }
    if (wire.has_dedupe()) {
      ONCE_ASSIGN_OR_RETURN(retention.dedupe, ReadTime("retention.dedupe", wire.dedupe()));
    }
    ONCE_ASSIGN_OR_RETURN(retention.broker,
                          ReadTime("retention.broker_window", wire.broker_window()));
    ONCE_ASSIGN_OR_RETURN(retention.dead_letter,
                          ReadTime("retention.dead_letter_window", wire.dead_letter_window()));
    ONCE_ASSIGN_OR_RETURN(retention.backup,
                          ReadTime("retention.backup_window", wire.backup_window()));
    ONCE_ASSIGN_OR_RETURN(retention.manual_replay,
                          ReadTime("retention.manual_replay_window", wire.manual_replay_window()));
    return absl::OkStatus();
  }

  const std::string path_;
  const v1::HandlerPolicy& wire_;
};

// Only what is set, so that what is shown can be applied again and means the same.
void FillLease(const core::LeasePolicy& lease, v1::HandlerPolicy* out) {
  if (lease.normal.has_value()) FillDuration(*lease.normal, out->mutable_lease()->mutable_normal());
  if (lease.least.has_value()) FillDuration(*lease.least, out->mutable_lease()->mutable_least());
  if (lease.greatest.has_value()) {
    FillDuration(*lease.greatest, out->mutable_lease()->mutable_greatest());
  }
}

void FillDigest(const core::DigestPolicy& digest, v1::HandlerPolicy* out) {
  switch (digest.scheme) {
    case core::DigestScheme::kRawSha256:
      return;
    case core::DigestScheme::kJsonJcsSha256:
      break;
  }
  out->mutable_digest()->set_scheme(v1::DIGEST_SCHEME_JSON_JCS_SHA256);
  for (const std::string& member : digest.ignored_members) {
    out->mutable_digest()->add_ignored_members(member);
  }
}

void FillRetention(const core::RetentionPolicy& retention, v1::HandlerPolicy* out) {
  if (retention == core::RetentionPolicy{}) return;
  v1::RetentionPolicy* wire = out->mutable_retention();
  if (retention.receipt.has_value()) FillDuration(*retention.receipt, wire->mutable_receipt());
  if (retention.dedupe.has_value()) FillDuration(*retention.dedupe, wire->mutable_dedupe());
  const auto fill_window = [](absl::Duration window, auto mutable_window) {
    if (window > absl::ZeroDuration()) FillDuration(window, mutable_window());
  };
  fill_window(retention.broker, [&] { return wire->mutable_broker_window(); });
  fill_window(retention.dead_letter, [&] { return wire->mutable_dead_letter_window(); });
  fill_window(retention.backup, [&] { return wire->mutable_backup_window(); });
  fill_window(retention.manual_replay, [&] { return wire->mutable_manual_replay_window(); });
}

void Fill(const HandlerPolicy& policy, v1::HandlerPolicy* out) {
  out->set_handler(policy.handler);
  if (policy.admission == core::Admission::kRefused) out->set_admission(v1::ADMISSION_REFUSED);
  FillLease(policy.lease, out);
  switch (policy.on_lapse) {
    case core::LapsePolicy::kRetry:
      break;
    case core::LapsePolicy::kInDoubt:
      out->set_expired_lease(v1::EXPIRED_LEASE_IN_DOUBT);
      break;
    case core::LapsePolicy::kProbe:
      out->set_expired_lease(v1::EXPIRED_LEASE_PROBE);
      break;
  }
  FillDigest(policy.digest, out);
  if (policy.attempt_log.has_value()) {
    out->set_attempt_log(*policy.attempt_log == core::AttemptLog::kBuffered
                             ? v1::ATTEMPT_LOG_MODE_BUFFERED
                             : v1::ATTEMPT_LOG_MODE_DURABLE);
  }
  FillRetention(policy.retention, out);
  if (policy.order.guards_versions) out->mutable_order()->set_guard_versions(true);
  if (policy.order.one_at_a_time) out->mutable_order()->set_one_at_a_time(true);
  for (const std::string& version : policy.readable_versions) out->add_readable_versions(version);
}

}  // namespace

absl::StatusOr<std::vector<HandlerPolicy>> ToPolicies(const v1::HandlerPolicySet& set,
                                                      const core::Limits& limits) {
  ONCE_RETURN_IF_ERROR(core::CheckPolicyCount(static_cast<size_t>(set.policies_size())));
  std::vector<HandlerPolicy> policies;
  for (int i = 0; i < set.policies_size(); ++i) {
    ONCE_ASSIGN_OR_RETURN(HandlerPolicy policy, PolicyReader(i, set.policies(i)).Read());
    policies.push_back(std::move(policy));
  }
  ONCE_RETURN_IF_ERROR(core::CheckPolicies(policies, limits));
  return policies;
}

void FillPolicies(absl::Span<const HandlerPolicy> policies, v1::HandlerPolicySet* out) {
  for (const HandlerPolicy& policy : policies) Fill(policy, out->add_policies());
}

}  // namespace once::rpc
