// Reads one JSON document a line on stdin and prints its digest in hex a line on stdout, or
// "refused: <why>" where it has no canonical form. For comparing with other implementations.
//
// With --time ROUNDS it digests each document ROUNDS times and prints the document's size, the best
// of five such runs in microseconds per digest, and the same for the raw scheme.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "core/content_digest.h"

namespace {

using once::core::Digest;
using once::core::DigestContent;
using once::core::DigestScheme;

std::string DigestLine(const std::string& document) {
  const absl::StatusOr<Digest> digest = DigestContent(DigestScheme::kJsonJcsSha256, document);
  if (!digest.ok()) return "refused: " + std::string(digest.status().message());
  const auto& bytes = digest->sha256;
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

double MicrosecondsPerDigest(DigestScheme scheme, const std::string& document, int rounds) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 5; ++run) {
    const Clock::time_point start = Clock::now();
    for (int round = 0; round < rounds; ++round) {
      if (!DigestContent(scheme, document).ok()) return -1;
    }
    const std::chrono::duration<double, std::micro> taken = Clock::now() - start;
    best = std::min(best, taken.count() / rounds);
  }
  return best;
}

void PrintTimes(const std::string& document, int rounds) {
  std::cout << document.size() << " bytes: JSON "
            << MicrosecondsPerDigest(DigestScheme::kJsonJcsSha256, document, rounds) << " us, raw "
            << MicrosecondsPerDigest(DigestScheme::kRawSha256, document, rounds) << " us\n";
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 0;
  if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--time" ||
                    !absl::SimpleAtoi(argv[2], &rounds) || rounds < 1)) {
    std::cerr << "usage: once_digest_tool [--time ROUNDS] < documents\n";
    return 2;
  }
  std::ios::sync_with_stdio(false);
  for (std::string document; std::getline(std::cin, document);) {
    if (rounds > 0) {
      PrintTimes(document, rounds);
    } else {
      std::cout << DigestLine(document) << '\n';
    }
  }
  std::cout.flush();
  return std::cout.good() ? 0 : 1;
}
