#include "policy/policies.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/strip.h"
#include "policy/document.h"

namespace once::policy {
namespace {

// A policy was checked against the limits of the server that took it; this one may have others.
core::LeaseRange LeaseOf(const core::LeasePolicy& policy, const core::LeaseRange& server) {
  core::LeaseRange range;
  range.least = std::clamp(policy.least.value_or(server.least), server.least, server.greatest);
  range.greatest =
      std::clamp(policy.greatest.value_or(server.greatest), range.least, server.greatest);
  range.normal = std::clamp(policy.normal.value_or(server.normal), range.least, range.greatest);
  return range;
}

Rules RulesOf(const core::HandlerPolicy& policy, const core::Limits& limits) {
  return Rules{.pattern = policy.handler,
               .admission = policy.admission,
               .lease = LeaseOf(policy.lease, core::LeaseRangeOf(limits)),
               .on_lapse = policy.on_lapse,
               .digest = policy.digest,
               .order = policy.order,
               .readable_versions = policy.readable_versions,
               .attempt_log = policy.attempt_log,
               .dedupe_retention = policy.retention.dedupe};
}

}  // namespace

Policies::Policies(const core::Limits& limits)
    : limits_(limits), default_(RulesOf(core::HandlerPolicy{}, limits)) {}

const Rules& Policies::For(core::TenantId tenant, absl::string_view handler) const {
  const auto found = tenants_.find(tenant.value);
  if (found == tenants_.end()) return default_;
  const OfTenant& policies = *found->second;
  if (const auto name = policies.names.find(handler); name != policies.names.end()) {
    return name->second;
  }
  for (const size_t size : policies.prefix_sizes) {
    if (size > handler.size()) continue;
    const auto prefix = policies.prefixes.find(handler.substr(0, size));
    if (prefix != policies.prefixes.end()) return prefix->second;
  }
  return default_;
}

std::shared_ptr<const Policies::OfTenant> Policies::MakeTenant(
    absl::Span<const core::HandlerPolicy> policies) const {
  auto made = std::make_shared<OfTenant>();
  for (const core::HandlerPolicy& policy : policies) {
    absl::string_view prefix = policy.handler;
    if (absl::ConsumeSuffix(&prefix, "*")) {
      made->prefixes.emplace(prefix, RulesOf(policy, limits_));
      made->prefix_sizes.push_back(prefix.size());
    } else {
      made->names.emplace(policy.handler, RulesOf(policy, limits_));
    }
  }
  std::vector<size_t>& sizes = made->prefix_sizes;
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return made;
}

absl::StatusOr<std::shared_ptr<const Policies>> Policies::With(
    absl::Span<const store::PolicyVersionRow> changes) const {
  auto next = std::make_shared<Policies>(*this);
  for (const store::PolicyVersionRow& row : changes) {
    const auto policies = ReadDocument(row.document);
    if (!policies.ok()) return policies.status();
    next->tenants_[row.tenant.value] = MakeTenant(*policies);
    next->change_id_ = std::max(next->change_id_, row.change_id);
  }
  return next;
}

}  // namespace once::policy
