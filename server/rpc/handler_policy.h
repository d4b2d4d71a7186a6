// What the operator said about handlers, by name. Immutable after construction; thread-safe.
#ifndef ONCE_RPC_HANDLER_POLICY_H_
#define ONCE_RPC_HANDLER_POLICY_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "auth/credential.h"
#include "core/types.h"

namespace once::rpc {

class HandlerPolicies {
 public:
  // Patterns of the handlers whose lapsed claims nobody may take over.
  explicit HandlerPolicies(std::vector<std::string> in_doubt_patterns = {})
      : in_doubt_patterns_(std::move(in_doubt_patterns)) {}

  core::LapsePolicy OnLapse(absl::string_view handler) const {
    return std::any_of(in_doubt_patterns_.begin(), in_doubt_patterns_.end(),
                       [handler](const std::string& p) { return auth::MatchesPattern(p, handler); })
               ? core::LapsePolicy::kInDoubt
               : core::LapsePolicy::kRetry;
  }

  // Where a request names no scheme. The same for all handlers in this version.
  core::DigestScheme DefaultScheme() const { return core::DigestScheme::kRawSha256; }

 private:
  std::vector<std::string> in_doubt_patterns_;
};

}  // namespace once::rpc

#endif  // ONCE_RPC_HANDLER_POLICY_H_
