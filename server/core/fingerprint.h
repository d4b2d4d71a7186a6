// What makes two results the same.
#ifndef ONCE_CORE_FINGERPRINT_H_
#define ONCE_CORE_FINGERPRINT_H_

#include "absl/strings/string_view.h"
#include "core/types.h"

namespace once::core {

// SHA-256 over status, content type and result, each delimited, so that no two different triples
// give the same input. Stored; never change.
Sha256 FingerprintOf(ReceiptStatus status, absl::string_view content_type,
                     absl::string_view result);

}  // namespace once::core

#endif  // ONCE_CORE_FINGERPRINT_H_
