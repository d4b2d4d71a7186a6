#include "auth/credential.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/random_id.h"
#include "base/sha256.h"
#include "core/handler_policy.h"

namespace once::auth {
namespace {

constexpr absl::string_view kPrefix = "once_";
constexpr size_t kIdBytes = 8;
constexpr size_t kIdDigits = 2 * kIdBytes;
constexpr size_t kSecretBytes = 32;
constexpr size_t kSecretChars = 43;
constexpr size_t kTokenChars = kPrefix.size() + kIdDigits + 1 + kSecretChars;

bool IsLowerHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

bool IsBase64Url(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

}  // namespace

NewCredential MakeCredential() {
  NewCredential made;
  made.credential_id = absl::BytesToHexString(base::SecureRandomBytes(kIdBytes));
  const std::string secret = absl::WebSafeBase64Escape(base::SecureRandomBytes(kSecretBytes));
  made.secret_sha256 = base::Sha256(secret);
  made.token = base::Secret(absl::StrCat(kPrefix, made.credential_id, "_", secret));
  return made;
}

bool IsCredentialId(absl::string_view text) {
  return text.size() == kIdDigits && std::all_of(text.begin(), text.end(), IsLowerHex);
}

std::optional<ParsedToken> ParseToken(absl::string_view token) {
  if (token.size() != kTokenChars || !absl::StartsWith(token, kPrefix)) {
    return std::nullopt;
  }
  const absl::string_view id = token.substr(kPrefix.size(), kIdDigits);
  const absl::string_view secret = token.substr(kTokenChars - kSecretChars);
  if (!IsCredentialId(id) || token[kPrefix.size() + kIdDigits] != '_' ||
      !std::all_of(secret.begin(), secret.end(), IsBase64Url)) {
    return std::nullopt;
  }
  return ParsedToken{.credential_id = std::string(id), .secret_sha256 = base::Sha256(secret)};
}

bool CoversHandler(const Principal& principal, absl::string_view handler) {
  return std::any_of(
      principal.handler_patterns.begin(), principal.handler_patterns.end(),
      [handler](const std::string& pattern) { return core::MatchesPattern(pattern, handler); });
}

}  // namespace once::auth
