#include "work.h"

#include <openssl/sha.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace once::bench {

namespace {

std::string ResultOf(size_t bytes) {
  std::string result = R"({"balance":1250,"note":")";
  result.resize(std::max(bytes, result.size() + 2) - 2, 'n');
  return result + R"("})";
}

}  // namespace

Events::Events(uint64_t run, IdOrder order, size_t result_bytes)
    : run_(run != 0 ? run
                    : static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                                std::chrono::system_clock::now().time_since_epoch())
                                                .count())),
      order_(order),
      result_(ResultOf(result_bytes)) {}

std::string Events::Id(uint64_t number) const {
  std::string id =
      absl::StrFormat("%016x%012x%012x", run_, number, number * 2654435761U % 0xffffffffffffU);
  if (order_ == IdOrder::kTime) return id;
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(id.data()), id.size(), digest);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<char*>(digest), 20));
}

std::string ContentFor(const std::string& event_id) {
  std::string content =
      absl::StrCat(R"({"event":")", event_id,
                   R"(","type":"points.granted","account":"a-1029384756","points":125,"reason":")");
  content.append(198 - content.size(), 'r');
  content.append(R"("})");
  return content;
}

std::string NewAttemptId() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  std::string id(16, '\0');
  for (char& c : id) c = static_cast<char>(random());
  id[0] |= 1;  // never all zero
  return id;
}

}  // namespace once::bench
