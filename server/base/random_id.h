// Random identifiers.
#ifndef ONCE_BASE_RANDOM_ID_H_
#define ONCE_BASE_RANDOM_ID_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace once::base {

// `size` bytes from the operating system's generator, fit for secrets. Aborts where it fails: there
// is no safe way on.
std::string SecureRandomBytes(size_t size);

// RFC 9562 version 7: time-ordered, so that rows that are written together lie together. Unique
// across servers. Thread-safe; draws from a per-thread generator seeded by the operating system
// (not fit for secrets).
std::array<uint8_t, 16> MakeUuidV7(absl::Time now);

}  // namespace once::base

#endif  // ONCE_BASE_RANDOM_ID_H_
