// What a server does for each handler: the policies of all tenants as they were at one moment, with
// the server's own defaults filled in.
//
// Immutable; thread-safe. Finding a handler's rules takes a hash lookup for its name and one for
// each length that prefixes of its tenant have, and allocates nothing.
#ifndef ONCE_POLICY_POLICIES_H_
#define ONCE_POLICY_POLICIES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/handler_policy.h"
#include "core/limits.h"
#include "core/types.h"
#include "store/store.h"

namespace once::policy {

struct Rules {
  std::string pattern;  // that decided; empty for the built-in default
  core::Admission admission = core::Admission::kAllowed;
  core::LeaseRange lease;
  core::LapsePolicy on_lapse = core::LapsePolicy::kRetry;
  core::DigestPolicy digest;
  core::OrderPolicy order;
  std::vector<std::string> readable_versions;
  std::optional<core::AttemptLog> attempt_log;     // unset: the server's
  std::optional<absl::Duration> dedupe_retention;  // unset: without end
};

class Policies {
 public:
  // Of tenants without policies.
  explicit Policies(const core::Limits& limits);

  const Rules& For(core::TenantId tenant, absl::string_view handler) const;

  // These, with the current versions of tenants that have changed since. FAILED_PRECONDITION where
  // one cannot be understood.
  absl::StatusOr<std::shared_ptr<const Policies>> With(
      absl::Span<const store::PolicyVersionRow> changes) const;

  // The last change that is in here.
  int64_t change_id() const { return change_id_; }

 private:
  struct OfTenant {
    absl::flat_hash_map<std::string, Rules> names;
    absl::flat_hash_map<std::string, Rules> prefixes;
    std::vector<size_t> prefix_sizes;  // greatest first, each once
  };

  std::shared_ptr<const OfTenant> MakeTenant(absl::Span<const core::HandlerPolicy> policies) const;

  core::Limits limits_;
  Rules default_;
  absl::flat_hash_map<uint32_t, std::shared_ptr<const OfTenant>> tenants_;
  int64_t change_id_ = 0;
};

}  // namespace once::policy

#endif  // ONCE_POLICY_POLICIES_H_
