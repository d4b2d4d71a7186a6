// SHA-256 of a byte string held in memory.
//
// Thread-safety: a free function without shared mutable state; call it from any thread.
// Blocking: never; the time grows with the input (see docs/adr/0003-content-digest.md).

#ifndef ONCE_BASE_SHA256_H_
#define ONCE_BASE_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace once::base {

inline constexpr std::size_t kSha256Size = 32;

using Sha256Bytes = std::array<std::uint8_t, kSha256Size>;

// Returns the 32 bytes of SHA-256(`data`). `data` may be empty and may hold any bytes.
// There is no error to handle: where the crypto library has no SHA-256 (a broken installation), no
// identity can be checked and no answer would be right, so the process ends with a message.
Sha256Bytes Sha256(absl::string_view data);

}  // namespace once::base

#endif  // ONCE_BASE_SHA256_H_
