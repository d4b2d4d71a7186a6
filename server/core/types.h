// Value types with names for everything two of which could be swapped.
//
// All are plain values: copyable, comparable, without invariants beyond their type; limits are
// checked where requests enter.
#ifndef ONCE_CORE_TYPES_H_
#define ONCE_CORE_TYPES_H_

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace once::core {

// Microseconds since 1970 by the database's UTC clock. A type of its own so that it cannot meet a
// server clock.
struct DbTime {
  int64_t micros = 0;
  friend auto operator<=>(const DbTime&, const DbTime&) = default;
  friend DbTime operator+(DbTime t, absl::Duration d) {
    return {t.micros + absl::ToInt64Microseconds(d)};
  }
  friend absl::Duration operator-(DbTime a, DbTime b) {
    return absl::Microseconds(a.micros - b.micros);
  }
};

// Interned names. 0 is never assigned.
struct TenantId {
  uint32_t value = 0;
  friend auto operator<=>(const TenantId&, const TenantId&) = default;
};
struct HandlerId {
  uint32_t value = 0;
  friend auto operator<=>(const HandlerId&, const HandlerId&) = default;
};

// Primary key of an operation. Ordered as the database orders it: numbers, then bytes as unsigned.
struct OperationKey {
  TenantId tenant;
  HandlerId handler;
  std::string event_id;  // 1–255 bytes, any values
  friend auto operator<=>(const OperationKey&, const OperationKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const OperationKey& k) {
    return H::combine(std::move(h), k.tenant.value, k.handler.value, k.event_id);
  }
};

struct AttemptId {
  std::array<uint8_t, 16> bytes{};
  friend auto operator<=>(const AttemptId&, const AttemptId&) = default;
};

// Grows with each new claim of one operation. Starts from the database's clock in microseconds, so
// it also grows over forget and purge.
struct Fence {
  int64_t value = 0;
  friend auto operator<=>(const Fence&, const Fence&) = default;
};

// Stored numbers; never renumber.
enum class DigestScheme : uint8_t { kRawSha256 = 1, kJsonJcsSha256 = 2 };

using Sha256 = std::array<uint8_t, 32>;

struct Digest {
  DigestScheme scheme = DigestScheme::kRawSha256;
  Sha256 sha256{};
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

// Stored numbers; never renumber.
enum class ReceiptStatus : uint8_t { kSucceeded = 1, kRejected = 2 };

// Stored numbers; never renumber. Whether a claim has lapsed is not stored: it follows from the
// lease and the database's clock.
enum class RowState : uint8_t { kClaimed = 1, kReleased = 2, kCompleted = 3, kTombstone = 4 };

// Where an operation stands, as callers see it.
enum class OperationState : uint8_t {
  kClaimed,
  kLapsed,
  kInDoubt,
  kReleased,
  kCompleted,
  kTombstone,
};

// What an expired lease means for the next Begin.
enum class LapsePolicy : uint8_t {
  kRetry,    // granted, with the earlier attempt shown
  kInDoubt,  // nobody runs until the earlier attempt's outcome is known
  kProbe,    // granted to callers that ask their business data first; in doubt to others
};

}  // namespace once::core

#endif  // ONCE_CORE_TYPES_H_
