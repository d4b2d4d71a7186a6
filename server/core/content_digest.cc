#include "core/content_digest.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"

namespace once::core {
namespace {

absl::StatusOr<Digest> DigestJson(absl::string_view content,
                                  absl::Span<const std::string> excluded_pointers,
                                  const JsonLimits& limits) {
  const absl::StatusOr<std::string> canonical =
      CanonicalizeJson(content, limits, excluded_pointers);
  if (!canonical.ok()) return canonical.status();
  return Digest{DigestScheme::kJsonJcsSha256, base::Sha256(*canonical)};
}

}  // namespace

absl::StatusOr<Digest> DigestContent(DigestScheme scheme, absl::string_view content,
                                     absl::Span<const std::string> excluded_pointers,
                                     const JsonLimits& limits) {
  switch (scheme) {
    case DigestScheme::kRawSha256:
      return Digest{scheme, base::Sha256(content)};
    case DigestScheme::kJsonJcsSha256:
      return DigestJson(content, excluded_pointers, limits);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown digest scheme ", static_cast<int>(scheme)));
}

}  // namespace once::core
