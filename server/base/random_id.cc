#include "base/random_id.h"

#include <openssl/rand.h>

#include <cstdlib>
#include <cstring>
#include <random>

namespace once::base {

std::string SecureRandomBytes(size_t size) {
  std::string bytes(size, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(size)) != 1) {
    std::abort();
  }
  return bytes;
}

std::array<uint8_t, 16> MakeUuidV7(absl::Time now) {
  thread_local std::mt19937_64 generator = [] {
    const std::string seed = SecureRandomBytes(32);
    std::seed_seq sequence(seed.begin(), seed.end());
    return std::mt19937_64(sequence);
  }();
  std::array<uint8_t, 16> id;
  const uint64_t high = generator();
  const uint64_t low = generator();
  std::memcpy(id.data(), &high, 8);
  std::memcpy(id.data() + 8, &low, 8);
  const auto millis = static_cast<uint64_t>(absl::ToUnixMillis(now));
  for (size_t i = 0; i < 6; ++i) {
    id[i] = static_cast<uint8_t>(millis >> (40 - 8 * i));
  }
  id[6] = static_cast<uint8_t>((id[6] & 0x0f) | 0x70);
  id[8] = static_cast<uint8_t>((id[8] & 0x3f) | 0x80);
  return id;
}

}  // namespace once::base
