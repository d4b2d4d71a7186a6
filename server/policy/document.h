// The policies of a tenant as they are stored: JSON, so that people who look into the database or
// the audit can read them. Only what differs from the built-in default is written, so documents
// stay as they are when fields are added.
//
//   [{"handler":"pay.*","on_lapse":"probe","retention":{"dedupe_us":604800000000,…}},…]
//
// Pure functions; thread-safe.
#ifndef ONCE_POLICY_DOCUMENT_H_
#define ONCE_POLICY_DOCUMENT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/handler_policy.h"

namespace once::policy {

// Sorted by handler pattern: the same policies give the same bytes, in whatever order they come.
std::string WriteDocument(absl::Span<const core::HandlerPolicy> policies);

// FAILED_PRECONDITION for what this program does not know: a newer one wrote it, or it is damaged.
absl::StatusOr<std::vector<core::HandlerPolicy>> ReadDocument(absl::string_view document);

}  // namespace once::policy

#endif  // ONCE_POLICY_DOCUMENT_H_
