// Handler policies between the wire and core. Pure functions; thread-safe.
#ifndef ONCE_RPC_POLICY_MESSAGES_H_
#define ONCE_RPC_POLICY_MESSAGES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/handler_policy.h"
#include "core/limits.h"
#include "once/v1/policy.pb.h"

namespace once::rpc {

// A set that a server with `limits` can go by; INVALID_FIELD with the first fault otherwise.
absl::StatusOr<std::vector<core::HandlerPolicy>> ToPolicies(const v1::HandlerPolicySet& set,
                                                            const core::Limits& limits);

void FillPolicies(absl::Span<const core::HandlerPolicy> policies, v1::HandlerPolicySet* out);

}  // namespace once::rpc

#endif  // ONCE_RPC_POLICY_MESSAGES_H_
