// Handler policies as tools handle them: files in text format (the message HandlerPolicySet of
// proto/once/v1/policy.proto), which people write, review and comment.
#ifndef ONCE_POLICY_H_
#define ONCE_POLICY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace once {

// All policies of a tenant. A value; thread-compatible. Two are equal where they mean the same:
// what is said explicitly and is the default anyway, order and comments make no difference.
class HandlerPolicies {
 public:
  // No policies: all handlers have the built-in defaults.
  HandlerPolicies() = default;

  // INVALID_ARGUMENT with "line:column: what" for each fault in `text`. What the values may be is
  // checked by the server.
  static absl::StatusOr<HandlerPolicies> Parse(absl::string_view text);

  // A file that reads back equal: a record per pattern, in their order, with a comment where
  // seconds are hard to read.
  std::string ToText() const;

  // The text of each record by its pattern.
  const std::map<std::string, std::string>& records() const { return records_; }

  friend bool operator==(const HandlerPolicies& a, const HandlerPolicies& b) {
    return a.wire_ == b.wire_;
  }
  friend bool operator!=(const HandlerPolicies& a, const HandlerPolicies& b) { return !(a == b); }

 private:
  friend class HandlerPoliciesPeer;

  std::string wire_;
  std::map<std::string, std::string> records_;
};

// Who made a version of a tenant's policies, when and why.
struct PolicyVersion {
  int32_t version = 0;
  std::string credential_id;
  std::string reason;
  absl::Time create_time;
};

struct VersionedPolicies {
  HandlerPolicies policies;
  std::optional<PolicyVersion> version;  // unset: there is none yet
};

struct PolicyChange {
  std::string tenant;
  HandlerPolicies policies;
  // The version that this one follows, 0 where there is none. Where another one is current, nothing
  // is changed: reason kPolicyVersionMismatch.
  int32_t expected_version = 0;
  std::string reason;  // required, at most 255 bytes
  // Operations begun before the change have digests of the old form, and repeats of them are
  // answered with conflict. Without it: reason kDigestChangeNotAccepted.
  bool accept_digest_change = false;
};

enum class AuditAction {
  kCreateTenant = 1,
  kCreateCredential = 2,
  kExpireCredential = 3,
  kRevokeCredential = 4,
  kApplyHandlerPolicies = 5,
  kResolve = 6,
  kReset = 7,
};
absl::string_view ToString(AuditAction action);

// One change of tenants, credentials or policies. Never changed, never removed.
struct AuditRecord {
  int64_t record_id = 0;
  std::string tenant;  // empty where the change belongs to none
  AuditAction action = AuditAction::kCreateTenant;
  std::string subject;  // the tenant's name, the credential's id, "version 3"
  std::string before;   // JSON for people; empty where there was nothing
  std::string after;
  std::string credential_id;  // who; empty: onced itself
  std::string reason;
  absl::Time create_time;
};

}  // namespace once

#endif  // ONCE_POLICY_H_
