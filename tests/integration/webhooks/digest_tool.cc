// Reads one JSON document a line on stdin and prints its digest in hex a line on stdout, or
// "refused: <why>" where it has no canonical form. For comparing with other implementations.

#include <iostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "core/content_digest.h"

namespace {

std::string DigestLine(const std::string& document) {
  const absl::StatusOr<once::core::Digest> digest =
      once::core::DigestContent(once::core::DigestScheme::kJsonJcsSha256, document);
  if (!digest.ok()) return "refused: " + std::string(digest.status().message());
  const auto& bytes = digest->sha256;
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string document; std::getline(std::cin, document);) {
    std::cout << DigestLine(document) << '\n';
  }
  std::cout.flush();
  return std::cout.good() ? 0 : 1;
}
