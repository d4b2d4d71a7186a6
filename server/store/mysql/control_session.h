// Tenants, credentials, policies, handler names and the audit on one connection. Blocking; one
// thread at a time.
//
// Each call is one transaction. Those that lose a race are repeated here, a few times; ABORTED
// after that.
#ifndef ONCE_STORE_MYSQL_CONTROL_SESSION_H_
#define ONCE_STORE_MYSQL_CONTROL_SESSION_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/mysql/session.h"
#include "store/mysql/sql_builder.h"
#include "store/store.h"

namespace once::store::mysql {

class MysqlControlSession final : public ControlSession {
 public:
  // `opener` must outlive the session.
  MysqlControlSession(const SessionOpener& opener, Session session)
      : opener_(opener), session_(std::move(session)) {}

  absl::StatusOr<TenantRow> CreateTenant(absl::string_view name, const Author& author) override;
  absl::StatusOr<TenantRow> GetTenant(absl::string_view name) override;
  absl::StatusOr<std::vector<TenantRow>> ListTenants(absl::string_view after, int limit) override;

  absl::StatusOr<CredentialRow> CreateCredential(const CredentialRow& row,
                                                 std::optional<absl::Duration> ttl,
                                                 const Author& author) override;
  absl::StatusOr<CredentialRow> BootstrapAdmin(const CredentialRow& row,
                                               const Author& author) override;
  absl::StatusOr<CredentialRow> GetCredential(absl::string_view credential_id) override;
  absl::StatusOr<std::vector<CredentialRow>> ListCredentials(std::optional<core::TenantId> tenant,
                                                             absl::string_view after,
                                                             int limit) override;
  absl::StatusOr<CredentialRow> ExpireCredential(absl::string_view credential_id, absl::Duration in,
                                                 const Author& author) override;
  absl::StatusOr<CredentialRow> RevokeCredential(absl::string_view credential_id,
                                                 const Author& author) override;

  absl::StatusOr<PolicyVersionRow> ApplyPolicies(core::TenantId tenant, int32_t expected_version,
                                                 absl::string_view document,
                                                 const Author& author) override;
  absl::StatusOr<PolicyVersionRow> GetPolicies(core::TenantId tenant, int32_t version) override;
  absl::StatusOr<std::vector<PolicyVersionRow>> ListPolicyVersions(core::TenantId tenant,
                                                                   int32_t before,
                                                                   int limit) override;
  absl::StatusOr<std::vector<PolicyVersionRow>> ReadPolicyChanges(int64_t change_id) override;
  absl::StatusOr<std::vector<AuditRow>> ListAudit(std::optional<core::TenantId> tenant,
                                                  int64_t before, int limit) override;

  absl::StatusOr<OperationRead> ReadOperation(const core::OperationKey& key) override;
  absl::StatusOr<std::vector<LoggedAttempt>> ListAttempts(const core::OperationKey& key,
                                                          const std::optional<EntryId>& after,
                                                          int limit) override;
  absl::StatusOr<core::HandlerId> InternHandler(core::TenantId tenant, absl::string_view name,
                                                bool create) override;

  bool usable() const override;

 private:
  // Runs `body`, then COMMIT, or ROLLBACK where it failed.
  absl::Status InTransaction(absl::FunctionRef<absl::Status()> body);

  // Parts of transactions.
  absl::Status ReadTenant(absl::string_view name, TenantRow& row);
  absl::Status ReadCredentials(const SqlBuilder& condition, std::vector<CredentialRow>& rows);
  absl::Status ReadCredential(absl::string_view credential_id, CredentialRow& row);
  absl::Status InsertCredential(const CredentialRow& row, std::optional<absl::Duration> ttl);
  // Inserts, reads it into `created` and writes the audit.
  absl::Status MakeCredential(const CredentialRow& row, std::optional<absl::Duration> ttl,
                              const Author& author, CredentialRow& created);
  // `from_where` follows the columns, from FROM on.
  absl::Status ReadPolicies(absl::string_view document, const SqlBuilder& from_where,
                            std::vector<PolicyVersionRow>& rows);
  absl::Status ReadPolicyVersion(core::TenantId tenant, int32_t version, PolicyVersionRow& row);
  absl::Status InsertPolicies(core::TenantId tenant, int32_t version, absl::string_view document,
                              const Author& author);
  absl::Status WriteAudit(const AuditRow& row);
  absl::Status ReadHandler(core::TenantId tenant, absl::string_view name,
                           std::optional<core::HandlerId>& id);
  // Applies `assignment` to one credential and reads it. NOT_FOUND where there is none.
  absl::StatusOr<CredentialRow> UpdateCredential(absl::string_view credential_id,
                                                 const SqlBuilder& assignment, AuditAction action,
                                                 const Author& author);

  const SessionOpener& opener_;
  Session session_;
};

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_CONTROL_SESSION_H_
