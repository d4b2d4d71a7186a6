// Bearer credentials: "once_<credential id>_<secret>", id of 16 lower-case hexadecimal digits,
// secret of 43 base64url characters (256 bits from the operating system). Only SHA-256 of the
// secret is stored; a plain hash is enough for a secret of full entropy. Functions of values;
// thread-safe.
#ifndef ONCE_AUTH_CREDENTIAL_H_
#define ONCE_AUTH_CREDENTIAL_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/secret.h"
#include "core/types.h"
#include "store/store.h"

namespace once::auth {

struct NewCredential {
  std::string credential_id;
  base::Secret token;  // the whole bearer token; shown once
  core::Sha256 secret_sha256{};
};
NewCredential MakeCredential();

struct ParsedToken {
  std::string credential_id;
  core::Sha256 secret_sha256{};
};
// Unset for anything that is not exactly of the form; never echoes its input.
std::optional<ParsedToken> ParseToken(absl::string_view token);

// 16 lower-case hexadecimal digits.
bool IsCredentialId(absl::string_view text);

// Who calls, as far as the server knows.
struct Principal {
  std::string credential_id;
  core::TenantId tenant;    // 0 for admins
  std::string tenant_name;  // for logs
  store::Role role = store::Role::kConsumer;
  std::vector<std::string> handler_patterns;
};

bool CoversHandler(const Principal& principal, absl::string_view handler);

}  // namespace once::auth

#endif  // ONCE_AUTH_CREDENTIAL_H_
