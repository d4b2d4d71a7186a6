// What an operator says about the handlers of a tenant: one record per handler pattern, the longest
// match wins, and what no pattern matches has the built-in default (HandlerPolicy{}).
//
// Records do not inherit from each other: a field that is not set means the built-in default, not
// what a shorter pattern says. Plain values and pure functions; thread-safe.
#ifndef ONCE_CORE_HANDLER_POLICY_H_
#define ONCE_CORE_HANDLER_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/limits.h"
#include "core/types.h"

namespace once::core {

// Whether new work may begin.
enum class Admission : uint8_t { kAllowed, kRefused };

// When duplicates of completed operations are in the attempt log: before their answer, or soon
// after it.
enum class AttemptLog : uint8_t { kDurable, kBuffered };

struct LeasePolicy {
  // Unset: the server's.
  std::optional<absl::Duration> normal = std::nullopt;  // where the caller asks for none
  std::optional<absl::Duration> least = std::nullopt;
  std::optional<absl::Duration> greatest = std::nullopt;
  friend bool operator==(const LeasePolicy&, const LeasePolicy&) = default;
};

struct DigestPolicy {
  DigestScheme scheme = DigestScheme::kRawSha256;  // where the caller names none
  // JSON pointers of members that are left out of canonical JSON, sorted, without repeats.
  std::vector<std::string> ignored_members = {};
  friend bool operator==(const DigestPolicy&, const DigestPolicy&) = default;
};

// How long after its completion an operation is remembered, and by which ways its messages may come
// back.
struct RetentionPolicy {
  std::optional<absl::Duration> receipt = std::nullopt;  // the result's bytes; unset: as long as
                                                         // duplicates are recognised
  std::optional<absl::Duration> dedupe = std::nullopt;   // that it was done; unset: without end
  // The windows. Zero: messages do not come back that way.
  absl::Duration broker = absl::ZeroDuration();  // how long the broker may still deliver a message
  absl::Duration dead_letter = absl::ZeroDuration();  // how long one may lie in a dead-letter queue
  absl::Duration backup = absl::ZeroDuration();  // age of the oldest backup that may be restored
  absl::Duration manual_replay =
      absl::ZeroDuration();  // age of the oldest facts that people send again
  friend bool operator==(const RetentionPolicy&, const RetentionPolicy&) = default;
};

// Order among the operations of one aggregate. With either, Begin has to name the aggregate.
struct OrderPolicy {
  bool guards_versions = false;  // a version at or below the last completed one does not run
  bool one_at_a_time = false;    // the next operation waits for the end of the one before
  bool ordered() const { return guards_versions || one_at_a_time; }
  friend bool operator==(const OrderPolicy&, const OrderPolicy&) = default;
};

struct HandlerPolicy {
  std::string handler;  // a name, or the beginning of names followed by "*"
  Admission admission = Admission::kAllowed;
  LeasePolicy lease = {};
  LapsePolicy on_lapse = LapsePolicy::kRetry;
  DigestPolicy digest = {};
  std::optional<AttemptLog> attempt_log = std::nullopt;  // unset: the server's
  RetentionPolicy retention = {};
  OrderPolicy order = {};
  // Patterns of the handler versions whose receipts callers can read; empty: all.
  std::vector<std::string> readable_versions = {};
  friend bool operator==(const HandlerPolicy&, const HandlerPolicy&) = default;
};

// The windows in a row: a fact that people send again runs through the broker, may lie in the
// dead-letter queue for all of its time, and a backup may bring the end of that back. So duplicates
// come for as long as the sum says, not only for as long as the longest window.
absl::Duration LongestReturn(const RetentionPolicy& retention);

// A pattern is an exact name, or a prefix that ends in "*".
bool MatchesPattern(absl::string_view pattern, absl::string_view name);

// The record of `policies` for `handler` (a name, or a pattern, which stands for the names that it
// matches and no longer pattern does); null where none matches.
const HandlerPolicy* FindPolicy(absl::Span<const HandlerPolicy> policies,
                                absl::string_view handler);

// OK where a server with `limits` can do what the set says; otherwise INVALID_FIELD with the field
// ("policies[2].lease.least"), the limit and the value. Patterns are checked already.
absl::Status CheckPolicies(absl::Span<const HandlerPolicy> policies, const Limits& limits);

// The first of these checks alone, for who has not converted the records yet.
absl::Status CheckPolicyCount(size_t count);

// A pattern whose handlers get other digests under `after` than under `before`, so that operations
// begun before and repeated after look like other content.
struct DigestChange {
  std::string handler;
  DigestPolicy before;
  DigestPolicy after;
};
std::vector<DigestChange> DigestChanges(absl::Span<const HandlerPolicy> before,
                                        absl::Span<const HandlerPolicy> after);

}  // namespace once::core

#endif  // ONCE_CORE_HANDLER_POLICY_H_
