// The rules of the control plane, and the audit, that all stores share. Pure functions.
#ifndef ONCE_STORE_CONTROL_PLANE_H_
#define ONCE_STORE_CONTROL_PLANE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/store.h"

namespace once::store {

// Whether there is nothing to write, because `current` (version 0: there is none) is what the
// caller wants already; false where the next version has to be made. FAILED_PRECONDITION where it
// wants to follow another version. See ControlSession::ApplyPolicies.
absl::StatusOr<bool> IsAppliedAlready(const PolicyVersionRow& current, int32_t expected_version,
                                      absl::string_view document);

// What the audit says of a change: the state before and after it as JSON, never a secret or its
// digest. `after` is what the transaction left.
AuditRow AuditOf(const TenantRow& after, const Author& author);
// `before` is null for a new credential.
AuditRow AuditOf(AuditAction action, const CredentialRow* before, const CredentialRow& after,
                 const Author& author);
// An operator's decision about an operation. The result itself is not in it.
AuditRow AuditOf(AuditAction action, const core::OperationKey& key, absl::string_view handler,
                 const core::OperationRow& before, const core::OperationRow& after,
                 const Author& author);
// `before` is empty for the first version.
AuditRow AuditOf(const std::string& before, const PolicyVersionRow& after);

}  // namespace once::store

#endif  // ONCE_STORE_CONTROL_PLANE_H_
