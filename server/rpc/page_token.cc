#include "rpc/page_token.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/sha256.h"

namespace once::rpc {
namespace {

constexpr char kVersion = 1;
constexpr size_t kMaxLastBytes = 255;

// Version and the beginning of the query's digest: a mix-up is noticed, and a token does not grow
// with its filter.
std::string HeaderOf(absl::string_view query) {
  constexpr size_t kQueryBytes = 8;
  const base::Sha256Bytes digest = base::Sha256(query);
  std::string header(1, kVersion);
  header.append(reinterpret_cast<const char*>(digest.data()), kQueryBytes);
  return header;
}

}  // namespace

std::string MakePageToken(absl::string_view query, absl::string_view last) {
  return absl::WebSafeBase64Escape(absl::StrCat(HeaderOf(query), last));
}

absl::StatusOr<std::string> ParsePageToken(absl::string_view query, absl::string_view token) {
  if (token.empty()) {
    return std::string();
  }
  std::string bytes;
  absl::string_view last;
  if (absl::WebSafeBase64Unescape(token, &bytes)) {
    last = bytes;
    if (absl::ConsumePrefix(&last, HeaderOf(query)) && !last.empty() &&
        last.size() <= kMaxLastBytes) {
      return std::string(last);
    }
  }
  return base::InvalidField("page_token",
                            "is not the next_page_token of an earlier page of the same query");
}

}  // namespace once::rpc
