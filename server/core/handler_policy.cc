#include "core/handler_policy.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "core/json_pointer.h"

namespace once::core {
namespace {

// "168h" reads worse than "7d" where windows are added up.
std::string DaysText(absl::Duration duration) {
  constexpr absl::Duration kDay = absl::Hours(24);
  const absl::Duration rest = duration % kDay;
  const int64_t days = (duration - rest) / kDay;
  if (days == 0) return absl::FormatDuration(duration);
  return absl::StrCat(days, "d", rest == absl::ZeroDuration() ? "" : absl::FormatDuration(rest));
}

// Checks of one record; the first fault stays.
class PolicyCheck {
 public:
  PolicyCheck(size_t index, const HandlerPolicy& policy, const Limits& limits)
      : index_(index), policy_(policy), limits_(limits) {}

  absl::Status Run() {
    CheckLease();
    CheckDigest();
    CheckRetention();
    CheckReadableVersions();
    return std::move(fault_);
  }

 private:
  void Fault(absl::string_view field, const std::string& what,
             std::map<std::string, std::string> metadata = {}) {
    if (!fault_.ok()) return;
    metadata.emplace("handler", policy_.handler);
    fault_ = base::InvalidField(absl::StrCat("policies[", index_, "].", field),
                                absl::StrCat(what, " (handler ", policy_.handler, ")"), metadata);
  }

  void CheckRange(absl::string_view field, absl::Duration value, absl::Duration least,
                  absl::Duration most) {
    if (value >= least && value <= most) return;
    const bool low = value < least;
    const std::string limit = DaysText(low ? least : most);
    Fault(field,
          absl::StrCat("is ", DaysText(value), "; the ", low ? "minimum" : "limit", " is ", limit),
          {{"value", DaysText(value)}, {"limit", limit}});
  }

  void CheckLease() {
    const LeasePolicy& lease = policy_.lease;
    const absl::Duration least = lease.least.value_or(limits_.min_lease);
    const absl::Duration greatest = lease.greatest.value_or(limits_.max_lease);
    CheckRange("lease.least", least, limits_.min_lease, limits_.max_lease);
    CheckRange("lease.greatest", greatest, least, limits_.max_lease);
    if (lease.normal.has_value()) CheckRange("lease.normal", *lease.normal, least, greatest);
  }

  void CheckDigest() {
    const DigestPolicy& digest = policy_.digest;
    if (digest.scheme != DigestScheme::kJsonJcsSha256 && !digest.ignored_members.empty()) {
      Fault("digest.ignored_members",
            "needs digest.scheme JSON_JCS_SHA256: only members of JSON can be left out");
    }
    for (size_t i = 0; i < digest.ignored_members.size(); ++i) {
      const size_t size = digest.ignored_members[i].size();
      if (size <= kMaxIgnoredMemberBytes) continue;
      Fault(absl::StrCat("digest.ignored_members[", i, "]"),
            absl::StrCat("is ", size, " bytes; the limit is ", kMaxIgnoredMemberBytes),
            {{"size", absl::StrCat(size)}, {"limit", absl::StrCat(kMaxIgnoredMemberBytes)}});
    }
    const size_t count = digest.ignored_members.size();
    if (count > kMaxExcludedPointers) {
      Fault("digest.ignored_members",
            absl::StrCat("has ", count, " items; the limit is ", kMaxExcludedPointers),
            {{"size", absl::StrCat(count)}, {"limit", absl::StrCat(kMaxExcludedPointers)}});
      return;
    }
    const auto parsed = ParseMemberPointers(digest.ignored_members);
    if (!parsed.ok()) {
      Fault("digest.ignored_members", std::string(parsed.status().message()));
    }
  }

  void CheckRetention() {
    const RetentionPolicy& retention = policy_.retention;
    const std::pair<absl::string_view, absl::Duration> windows[] = {
        {"manual_replay_window", retention.manual_replay},
        {"broker_window", retention.broker},
        {"dead_letter_window", retention.dead_letter},
        {"backup_window", retention.backup}};
    for (const auto& [name, window] : windows) {
      CheckRange(absl::StrCat("retention.", name), window, absl::ZeroDuration(), kMaxRetention);
    }
    if (retention.dedupe.has_value()) {
      CheckRange("retention.dedupe", *retention.dedupe, kMinRetention, kMaxRetention);
    }
    if (retention.receipt.has_value()) {
      CheckRange("retention.receipt", *retention.receipt, kMinRetention,
                 retention.dedupe.value_or(kMaxRetention));
    }
    if (!retention.dedupe.has_value()) return;
    const absl::Duration longest = LongestReturn(retention);
    if (longest == absl::ZeroDuration()) {
      Fault("retention.dedupe",
            "is set, but no window says for how long messages can come back; declare at least "
            "broker_window, or leave dedupe out: without end");
    }
    if (*retention.dedupe >= longest) return;
    std::vector<std::string> terms;
    for (const auto& [name, window] : windows) {
      if (window > absl::ZeroDuration()) terms.push_back(absl::StrCat(name, " ", DaysText(window)));
    }
    Fault("retention.dedupe",
          absl::StrCat("is ", DaysText(*retention.dedupe), ", but messages can come back for ",
                       DaysText(longest), ": ", absl::StrJoin(terms, " + "), " = ",
                       DaysText(longest), ". It must be at least that, or left out: without end"),
          {{"value", DaysText(*retention.dedupe)}, {"limit", DaysText(longest)}});
  }

  void CheckReadableVersions() {
    const std::vector<std::string>& versions = policy_.readable_versions;
    if (versions.size() > kMaxReadableVersions) {
      Fault(
          "readable_versions",
          absl::StrCat("has ", versions.size(), " items; the limit is ", kMaxReadableVersions),
          {{"size", absl::StrCat(versions.size())}, {"limit", absl::StrCat(kMaxReadableVersions)}});
    }
    for (size_t i = 0; i < versions.size(); ++i) {
      const std::string field = absl::StrCat("readable_versions[", i, "]");
      if (versions[i].empty()) {
        Fault(field, "is empty; \"*\" stands for all versions");
      }
      const size_t size = absl::string_view(absl::StripSuffix(versions[i], "*")).size();
      if (size <= kMaxHandlerVersionBytes) continue;
      Fault(field,
            absl::StrCat("is ", size, " bytes before a \"*\"; the limit is ",
                         kMaxHandlerVersionBytes),
            {{"size", absl::StrCat(size)}, {"limit", absl::StrCat(kMaxHandlerVersionBytes)}});
    }
  }

  const size_t index_;
  const HandlerPolicy& policy_;
  const Limits& limits_;
  absl::Status fault_;
};

DigestPolicy DigestOfHandler(absl::Span<const HandlerPolicy> policies, absl::string_view handler) {
  const HandlerPolicy* const policy = FindPolicy(policies, handler);
  return policy != nullptr ? policy->digest : DigestPolicy{};
}

}  // namespace

absl::Duration LongestReturn(const RetentionPolicy& retention) {
  return retention.manual_replay + retention.broker + retention.dead_letter + retention.backup;
}

bool MatchesPattern(absl::string_view pattern, absl::string_view name) {
  if (absl::ConsumeSuffix(&pattern, "*")) {
    return absl::StartsWith(name, pattern);
  }
  return pattern == name;
}

const HandlerPolicy* FindPolicy(absl::Span<const HandlerPolicy> policies,
                                absl::string_view handler) {
  const HandlerPolicy* longest = nullptr;
  for (const HandlerPolicy& policy : policies) {
    // A pattern matches itself, and a longer one that begins with it, as it does a name.
    if (policy.handler == handler) return &policy;
    if (!MatchesPattern(policy.handler, handler)) continue;
    if (longest == nullptr || policy.handler.size() > longest->handler.size()) longest = &policy;
  }
  return longest;
}

absl::Status CheckPolicyCount(size_t count) {
  if (count <= kMaxPolicies) return absl::OkStatus();
  return base::InvalidField("policies",
                            absl::StrCat("has ", count, " items; the limit is ", kMaxPolicies),
                            {{"size", absl::StrCat(count)}, {"limit", absl::StrCat(kMaxPolicies)}});
}

absl::Status CheckPolicies(absl::Span<const HandlerPolicy> policies, const Limits& limits) {
  if (absl::Status many = CheckPolicyCount(policies.size()); !many.ok()) return many;
  std::set<absl::string_view> patterns;
  for (size_t i = 0; i < policies.size(); ++i) {
    if (!patterns.insert(policies[i].handler).second) {
      return base::InvalidField(absl::StrCat("policies[", i, "].handler"),
                                absl::StrCat("names ", policies[i].handler, " a second time"),
                                {{"handler", policies[i].handler}});
    }
    absl::Status fault = PolicyCheck(i, policies[i], limits).Run();
    if (!fault.ok()) return fault;
  }
  return absl::OkStatus();
}

// A name is decided by the longest pattern of either set that matches it, so comparing the sets at
// their own patterns finds every name whose digest differs.
std::vector<DigestChange> DigestChanges(absl::Span<const HandlerPolicy> before,
                                        absl::Span<const HandlerPolicy> after) {
  std::set<std::string> patterns;
  for (const HandlerPolicy& policy : before) patterns.insert(policy.handler);
  for (const HandlerPolicy& policy : after) patterns.insert(policy.handler);
  std::vector<DigestChange> changes;
  for (const std::string& pattern : patterns) {
    DigestChange change{.handler = pattern,
                        .before = DigestOfHandler(before, pattern),
                        .after = DigestOfHandler(after, pattern)};
    if (change.before != change.after) changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace once::core
