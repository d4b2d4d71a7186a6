#include "core/fingerprint.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"

namespace once::core {

Sha256 FingerprintOf(ReceiptStatus status, absl::string_view content_type,
                     absl::string_view result) {
  // The length in front of the content type marks where it ends; the result takes the rest.
  return base::Sha256(
      absl::StrCat(static_cast<int>(status), ":", content_type.size(), ":", content_type, result));
}

}  // namespace once::core
