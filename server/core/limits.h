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
// Results up to this size lie in the operation's row; larger ones in a table of their own, where
// the count of deliveries does not rewrite them.
inline constexpr size_t kMaxInlineResultBytes = 512;

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

}  // namespace once::core

#endif  // ONCE_CORE_LIMITS_H_
