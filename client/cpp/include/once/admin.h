// Tenants, credentials, handler policies and the audit, for tools. Needs a credential of role
// admin.
#ifndef ONCE_ADMIN_H_
#define ONCE_ADMIN_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "once/error.h"
#include "once/options.h"
#include "once/policy.h"

namespace once {

enum class Role {
  kConsumer,  // the data plane of a tenant, for handlers that match the patterns
  kOperator,  // as kConsumer, for people and tools
  kAdmin,     // tenants and credentials only; belongs to no tenant
};
absl::string_view ToString(Role role);

struct Tenant {
  std::string name;
  absl::Time create_time;
};

// Without its secret, which is shown once and never stored.
struct Credential {
  std::string credential_id;
  std::string tenant;  // empty for kAdmin
  Role role = Role::kConsumer;
  std::vector<std::string> handler_patterns;
  std::string description;
  absl::Time create_time;
  std::optional<absl::Time> expire_time;
  std::optional<absl::Time> revoke_time;
};

struct NewCredential {
  std::string tenant;  // empty for kAdmin
  Role role = Role::kConsumer;
  std::vector<std::string> handler_patterns;  // names, or prefixes that end in "*"; default "*"
  std::string description;
  absl::Duration ttl;  // 1 s to 10 years; zero: without end
};

// `token` is the bearer token: keep it like a password.
struct IssuedCredential {
  Credential credential;
  std::string token;
};

struct RotatedCredential {
  IssuedCredential issued;
  Credential replaced;  // with its end
};

template <typename T>
struct Page {
  std::vector<T> items;
  std::string next_page_token;  // empty on the last page
};

struct PageRequest {
  int page_size = 0;  // 1–1000; 0: 100
  std::string page_token;
};

// Thread-safe; every method blocks. Applications replace it in their tests
// (once/mocks/mock_admin_connection.h).
class AdminConnection {
 public:
  virtual ~AdminConnection();
  AdminConnection(const AdminConnection&) = delete;
  AdminConnection& operator=(const AdminConnection&) = delete;

  virtual absl::StatusOr<Tenant> CreateTenant(const std::string& name, const CallOptions& options);
  virtual absl::StatusOr<Page<Tenant>> ListTenants(const PageRequest& page,
                                                   const CallOptions& options);
  virtual absl::StatusOr<IssuedCredential> CreateCredential(const NewCredential& credential,
                                                            const CallOptions& options);
  // Empty tenant: of all.
  virtual absl::StatusOr<Page<Credential>> ListCredentials(const std::string& tenant,
                                                           const PageRequest& page,
                                                           const CallOptions& options);
  virtual absl::StatusOr<RotatedCredential> RotateCredential(const std::string& credential_id,
                                                             std::optional<absl::Duration> overlap,
                                                             const CallOptions& options);
  virtual absl::StatusOr<Credential> RevokeCredential(const std::string& credential_id,
                                                      const CallOptions& options);
  // Version 0: the current one.
  virtual absl::StatusOr<VersionedPolicies> GetPolicies(const std::string& tenant, int32_t version,
                                                        const CallOptions& options);
  virtual absl::StatusOr<Page<PolicyVersion>> ListPolicyVersions(const std::string& tenant,
                                                                 const PageRequest& page,
                                                                 const CallOptions& options);
  virtual absl::StatusOr<VersionedPolicies> ApplyPolicies(const PolicyChange& change,
                                                          const CallOptions& options);
  // Empty tenant: of all.
  virtual absl::StatusOr<Page<AuditRecord>> ListAuditRecords(const std::string& tenant,
                                                             const PageRequest& page,
                                                             const CallOptions& options);

 protected:
  AdminConnection() = default;
};

// As MakeConnection. Calls that a repeat would do twice (all that create) are retried only where
// the server says that nothing was started.
absl::StatusOr<std::shared_ptr<AdminConnection>> MakeAdminConnection(ConnectionOptions options);

// Thin and cheap to copy, like Client. Errors are explained by `ErrorInfoOf`.
class AdminClient {
 public:
  explicit AdminClient(std::shared_ptr<AdminConnection> connection);

  // Reason kTenantAlreadyExists: also where an earlier sending of this call did it.
  absl::StatusOr<Tenant> CreateTenant(const std::string& name,
                                      const CallOptions& options = {}) const;
  // By name. ListAll… follow the page tokens.
  absl::StatusOr<Page<Tenant>> ListTenants(const PageRequest& page,
                                           const CallOptions& options = {}) const;
  absl::StatusOr<std::vector<Tenant>> ListAllTenants(const CallOptions& options = {}) const;

  absl::StatusOr<IssuedCredential> CreateCredential(const NewCredential& credential,
                                                    const CallOptions& options = {}) const;
  absl::StatusOr<Page<Credential>> ListCredentials(const std::string& tenant,
                                                   const PageRequest& page,
                                                   const CallOptions& options = {}) const;
  absl::StatusOr<std::vector<Credential>> ListAllCredentials(const std::string& tenant,
                                                             const CallOptions& options = {}) const;
  // Makes a credential with the same rights; the old one stays good for `overlap` (0 to 30 days;
  // unset: 24 h).
  absl::StatusOr<RotatedCredential> RotateCredential(
      const std::string& credential_id, std::optional<absl::Duration> overlap = std::nullopt,
      const CallOptions& options = {}) const;
  // Every server refuses it within its credential cache time (default 5 s).
  absl::StatusOr<Credential> RevokeCredential(const std::string& credential_id,
                                              const CallOptions& options = {}) const;

  // Version 0: the current one, which may be none. Reason kPoliciesNotFound.
  absl::StatusOr<VersionedPolicies> GetPolicies(const std::string& tenant, int32_t version = 0,
                                                const CallOptions& options = {}) const;
  // Newest first, as the audit.
  absl::StatusOr<Page<PolicyVersion>> ListPolicyVersions(const std::string& tenant,
                                                         const PageRequest& page,
                                                         const CallOptions& options = {}) const;
  absl::StatusOr<std::vector<PolicyVersion>> ListAllPolicyVersions(
      const std::string& tenant, const CallOptions& options = {}) const;
  // Replaces all policies of a tenant. In force on every server within its refresh interval
  // (default 1 s). Safe to repeat. Reasons kPolicyVersionMismatch, kDigestChangeNotAccepted,
  // kInvalidField.
  absl::StatusOr<VersionedPolicies> ApplyPolicies(const PolicyChange& change,
                                                  const CallOptions& options = {}) const;
  absl::StatusOr<Page<AuditRecord>> ListAuditRecords(const std::string& tenant,
                                                     const PageRequest& page,
                                                     const CallOptions& options = {}) const;

 private:
  std::shared_ptr<AdminConnection> connection_;
};

}  // namespace once

#endif  // ONCE_ADMIN_H_
