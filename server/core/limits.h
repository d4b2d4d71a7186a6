// Every limit of the contract, with its default, in one place. `app` makes them settable, `rpc`
// enforces them.
#ifndef ONCE_CORE_LIMITS_H_
#define ONCE_CORE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace once::core {

// Widths of columns; not settable.
inline constexpr size_t kMaxHandlerBytes = 128;
inline constexpr size_t kMaxEventIdBytes = 255;
inline constexpr size_t kMaxConsumerBytes = 128;
inline constexpr size_t kMaxHandlerVersionBytes = 64;
inline constexpr size_t kMaxContentTypeBytes = 128;
inline constexpr size_t kMaxReferenceBytes = 255;
inline constexpr size_t kMaxReasonBytes = 255;
inline constexpr size_t kMaxAggregateIdBytes = 255;
inline constexpr size_t kMaxTenantNameBytes = 128;
inline constexpr size_t kMaxDescriptionBytes = 255;
inline constexpr size_t kMaxHandlerPatterns = 64;
inline constexpr size_t kMaxPolicies = 256;  // of one tenant
inline constexpr size_t kMaxIgnoredMemberBytes = 255;
inline constexpr size_t kMaxReadableVersions = 64;  // of one policy
// All policies of a tenant, as they are stored.
inline constexpr size_t kMaxPolicyBytes = size_t{512} << 10;
// Results up to this size lie in the operation's row; larger ones in a table of their own, where
// the count of deliveries does not rewrite them.
inline constexpr size_t kMaxInlineResultBytes = 512;

// Of a policy's times in days and years.
inline constexpr absl::Duration kMinRetention = absl::Seconds(1);
inline constexpr absl::Duration kMaxRetention = absl::Hours(24 * 3653);  // 10 years

struct Limits {
  size_t max_content_bytes = size_t{1} << 20;
  size_t max_result_bytes = size_t{1} << 20;
  absl::Duration default_lease = absl::Seconds(30);
  absl::Duration min_lease = absl::Milliseconds(100);
  absl::Duration max_lease = absl::Hours(24);
  absl::Duration max_wait = absl::Seconds(60);
  absl::Duration max_retry_delay = absl::Hours(24);
  int max_batch_items = 1000;
  size_t max_message_bytes = size_t{4} << 20;
  int default_page_size = 100;
  int max_page_size = 1000;
  int max_json_depth = 128;
};

// What leases a caller may ask for.
struct LeaseRange {
  absl::Duration normal;  // where it asks for none
  absl::Duration least;
  absl::Duration greatest;
};

inline LeaseRange LeaseRangeOf(const Limits& limits) {
  return {.normal = limits.default_lease, .least = limits.min_lease, .greatest = limits.max_lease};
}

}  // namespace once::core

#endif  // ONCE_CORE_LIMITS_H_
