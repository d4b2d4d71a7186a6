// What differs between two sets of policies, for people. Pure.
#ifndef ONCE_CLIENT_CLI_POLICY_DIFF_H_
#define ONCE_CLIENT_CLI_POLICY_DIFF_H_

#include <string>

#include "absl/strings/string_view.h"
#include "once/policy.h"

namespace once::cli {

// Lines as diff(1) writes them, in full for each record that differs; empty where both mean the
// same. `from` and `to` name the two.
std::string DiffPolicies(absl::string_view from, const HandlerPolicies& before,
                         absl::string_view to, const HandlerPolicies& after);

}  // namespace once::cli

#endif  // ONCE_CLIENT_CLI_POLICY_DIFF_H_
