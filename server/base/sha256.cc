#include "base/sha256.h"

#include <openssl/evp.h>

#include <cstdio>
#include <cstdlib>

namespace once::base {
namespace {

[[noreturn]] void DieWithoutSha256() {
  std::fputs("fatal: the crypto library cannot compute SHA-256\n", stderr);
  std::abort();
}

// Fetched once: EVP_sha256() would look the algorithm up again on every call, which nearly doubles
// the time for a typical document. Never freed, so that threads still running at exit can use it.
const EVP_MD* Algorithm() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return algorithm;
}

}  // namespace

Sha256Bytes Sha256(absl::string_view data) {
  Sha256Bytes digest;
  unsigned int size = 0;
  const EVP_MD* const algorithm = Algorithm();
  if (algorithm == nullptr ||
      EVP_Digest(data.data(), data.size(), digest.data(), &size, algorithm, nullptr) != 1 ||
      size != digest.size()) {
    DieWithoutSha256();
  }
  return digest;
}

}  // namespace once::base
