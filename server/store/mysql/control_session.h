// Tenants, credentials and handler names on one connection. Blocking; one thread at a time.
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

  absl::StatusOr<TenantRow> CreateTenant(absl::string_view name) override;
  absl::StatusOr<TenantRow> GetTenant(absl::string_view name) override;
  absl::StatusOr<std::vector<TenantRow>> ListTenants(absl::string_view after, int limit) override;

  absl::StatusOr<CredentialRow> CreateCredential(const CredentialRow& row,
                                                 std::optional<absl::Duration> ttl) override;
  absl::StatusOr<CredentialRow> BootstrapAdmin(const CredentialRow& row) override;
  absl::StatusOr<CredentialRow> GetCredential(absl::string_view credential_id) override;
  absl::StatusOr<std::vector<CredentialRow>> ListCredentials(std::optional<core::TenantId> tenant,
                                                             absl::string_view after,
                                                             int limit) override;
  absl::StatusOr<CredentialRow> ExpireCredential(absl::string_view credential_id,
                                                 absl::Duration in) override;
  absl::StatusOr<CredentialRow> RevokeCredential(absl::string_view credential_id) override;

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
  absl::Status ReadHandler(core::TenantId tenant, absl::string_view name,
                           std::optional<core::HandlerId>& id);
  // Applies `assignment` to one credential and reads it. NOT_FOUND where there is none.
  absl::StatusOr<CredentialRow> UpdateCredential(absl::string_view credential_id,
                                                 const SqlBuilder& assignment);

  const SessionOpener& opener_;
  Session session_;
};

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_CONTROL_SESSION_H_
