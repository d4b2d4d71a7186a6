// Durations and times of the wire. Pure functions; thread-safe.
#ifndef ONCE_RPC_WIRE_TIME_H_
#define ONCE_RPC_WIRE_TIME_H_

#include <cstdint>

#include "absl/time/time.h"
#include "core/types.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace once::rpc {

// Finite durations only.
inline void FillDuration(absl::Duration value, google::protobuf::Duration* out) {
  out->set_seconds(absl::IDivDuration(value, absl::Seconds(1), &value));
  out->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(value)));
}

inline void FillTimestamp(core::DbTime value, google::protobuf::Timestamp* out) {
  constexpr int64_t kMicrosPerSecond = 1'000'000;
  out->set_seconds(value.micros / kMicrosPerSecond);
  out->set_nanos(static_cast<int32_t>(value.micros % kMicrosPerSecond) * 1'000);
}

}  // namespace once::rpc

#endif  // ONCE_RPC_WIRE_TIME_H_
