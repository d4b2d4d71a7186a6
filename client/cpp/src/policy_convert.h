// Policies and the audit between the library's own types and protobuf. As convert.h.
#ifndef ONCE_CLIENT_SRC_POLICY_CONVERT_H_
#define ONCE_CLIENT_SRC_POLICY_CONVERT_H_

#include "absl/status/statusor.h"
#include "once/policy.h"
#include "once/v1/admin_service.pb.h"
#include "once/v1/policy.pb.h"

namespace once {

// What HandlerPolicies keeps to itself.
class HandlerPoliciesPeer {
 public:
  static HandlerPolicies FromProto(v1::HandlerPolicySet set);
  static v1::HandlerPolicySet ToProto(const HandlerPolicies& policies);
};

namespace client_internal {

PolicyVersion FromProto(const v1::HandlerPolicyVersion& version);
absl::StatusOr<AuditRecord> FromProto(const v1::AuditRecord& record);
v1::ApplyHandlerPoliciesRequest ToProto(const PolicyChange& change);

}  // namespace client_internal
}  // namespace once

#endif  // ONCE_CLIENT_SRC_POLICY_CONVERT_H_
