#include "store/sqlite/control_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "store/control_plane.h"
#include "store/sqlite/errors.h"
#include "store/sqlite/history.h"
#include "store/sqlite/statements.h"

namespace once::store::sqlite {
namespace {

// In the order of ReadCredential.
constexpr absl::string_view kSelectCredential =
    "SELECT c.credential_id, c.tenant_id, t.name, c.role, c.secret_sha256, c.handler_patterns,"
    " c.description, c.created_us, c.expires_us, c.revoked_us"
    " FROM credential c LEFT JOIN tenant t ON t.tenant_id = c.tenant_id";

TenantRow ReadTenant(const Statement& row) {
  return TenantRow{
      .id = {static_cast<uint32_t>(row.Int(0))}, .name = row.Blob(1), .created = {row.Int(2)}};
}

std::optional<core::DbTime> ReadOptionalTime(const Statement& row, int column) {
  if (row.IsNull(column)) return std::nullopt;
  return core::DbTime{row.Int(column)};
}

absl::StatusOr<CredentialRow> ReadCredential(const Statement& row, core::DbTime now) {
  CredentialRow credential;
  credential.credential_id = row.Blob(0);
  credential.tenant = {static_cast<uint32_t>(row.Int(1))};
  credential.tenant_name = row.Blob(2);
  credential.role = static_cast<Role>(row.Int(3));
  const bool whole = row.Bytes(4, credential.secret_sha256);
  credential.handler_patterns = absl::StrSplit(row.Blob(5), '\n', absl::SkipEmpty());
  credential.description = row.Blob(6);
  credential.created = {row.Int(7)};
  credential.expires = ReadOptionalTime(row, 8);
  credential.revoked = ReadOptionalTime(row, 9);
  credential.active = !credential.revoked.has_value() &&
                      (!credential.expires.has_value() || now < *credential.expires);
  if (!whole) {
    return absl::InternalError("sqlite: a row of table credential is damaged");
  }
  return credential;
}

// In the order of ReadPolicies, which also takes the document.
constexpr absl::string_view kSelectPolicies =
    "SELECT p.change_id, p.tenant_id, p.version, p.credential_id, p.reason, p.created_us";

PolicyVersionRow ReadPolicies(const Statement& row) {
  return PolicyVersionRow{.change_id = row.Int(0),
                          .tenant = {static_cast<uint32_t>(row.Int(1))},
                          .version = static_cast<int32_t>(row.Int(2)),
                          .document = row.Blob(6),
                          .author = {.credential_id = row.Blob(3), .reason = row.Blob(4)},
                          .created = {row.Int(5)}};
}

AuditRow ReadAudit(const Statement& row) {
  return AuditRow{.audit_id = row.Int(0),
                  .tenant = {static_cast<uint32_t>(row.Int(1))},
                  .tenant_name = row.Blob(2),
                  .action = static_cast<AuditAction>(row.Int(3)),
                  .subject = row.Blob(4),
                  .before = row.Blob(5),
                  .after = row.Blob(6),
                  .author = {.credential_id = row.Blob(7), .reason = row.Blob(8)},
                  .created = {row.Int(9)}};
}

// Runs the prepared and bound `statement` to its end, with `read` for each row.
template <typename Row, typename Read>
absl::StatusOr<std::vector<Row>> Collect(Statement& statement, Read read) {
  std::vector<Row> rows;
  for (;;) {
    absl::StatusOr<bool> more = statement.Step();
    if (!more.ok()) return more.status();
    if (!*more) return rows;
    absl::StatusOr<Row> row = read(statement);
    if (!row.ok()) return row.status();
    rows.push_back(*std::move(row));
  }
}

template <typename Row>
absl::StatusOr<Row> Only(absl::StatusOr<std::vector<Row>> rows, absl::string_view what) {
  if (!rows.ok()) return rows.status();
  if (rows->empty()) return absl::NotFoundError(absl::StrCat("no such ", what));
  return std::move(rows->front());
}

// Statements are prepared per call: the control plane is quiet.
class SqliteControlSession final : public ControlSession {
 public:
  SqliteControlSession(File* file, Connection connection)
      : file_(file), connection_(std::make_unique<Connection>(std::move(connection))) {}

  absl::StatusOr<TenantRow> CreateTenant(absl::string_view name, const Author& author) override {
    return Writing<TenantRow>([&](core::DbTime now) {
      return Audited(InsertTenant(name, now), now,
                     [&](const TenantRow& made) { return AuditOf(made, author); });
    });
  }

  absl::StatusOr<TenantRow> GetTenant(absl::string_view name) override {
    return Reading<TenantRow>([&] { return SelectTenant(name); });
  }

  absl::StatusOr<std::vector<TenantRow>> ListTenants(absl::string_view after, int limit) override {
    return Reading<std::vector<TenantRow>>([&] { return SelectTenants(after, limit); });
  }

  absl::StatusOr<CredentialRow> CreateCredential(const CredentialRow& row,
                                                 std::optional<absl::Duration> ttl,
                                                 const Author& author) override {
    return Writing<CredentialRow>(
        [&](core::DbTime now) { return NewCredential(row, ttl, author, now); });
  }

  absl::StatusOr<CredentialRow> BootstrapAdmin(const CredentialRow& row,
                                               const Author& author) override {
    return Writing<CredentialRow>([&](core::DbTime now) -> absl::StatusOr<CredentialRow> {
      absl::StatusOr<bool> exists = HasActiveAdmin(now);
      if (!exists.ok()) return exists.status();
      if (*exists) return absl::AlreadyExistsError("an active admin credential exists");
      return NewCredential(row, std::nullopt, author, now);
    });
  }

  absl::StatusOr<CredentialRow> GetCredential(absl::string_view credential_id) override {
    return Reading<CredentialRow>(
        [&] { return SelectCredential(credential_id, file_->clock.Now()); });
  }

  absl::StatusOr<std::vector<CredentialRow>> ListCredentials(std::optional<core::TenantId> tenant,
                                                             absl::string_view after,
                                                             int limit) override {
    return Reading<std::vector<CredentialRow>>(
        [&] { return SelectCredentials(tenant, after, limit); });
  }

  absl::StatusOr<CredentialRow> ExpireCredential(absl::string_view credential_id, absl::Duration in,
                                                 const Author& author) override {
    return Writing<CredentialRow>([&](core::DbTime now) {
      return ChangeCredential(
          "UPDATE credential SET expires_us = min(coalesce(expires_us, ?2), ?2)"
          " WHERE credential_id = ?1",
          credential_id, now + in, AuditAction::kExpireCredential, author, now);
    });
  }

  absl::StatusOr<CredentialRow> RevokeCredential(absl::string_view credential_id,
                                                 const Author& author) override {
    return Writing<CredentialRow>([&](core::DbTime now) {
      return ChangeCredential(
          "UPDATE credential SET revoked_us = coalesce(revoked_us, ?2)"
          " WHERE credential_id = ?1",
          credential_id, now, AuditAction::kRevokeCredential, author, now);
    });
  }

  absl::StatusOr<PolicyVersionRow> ApplyPolicies(core::TenantId tenant, int32_t expected_version,
                                                 absl::string_view document,
                                                 const Author& author) override {
    return Writing<PolicyVersionRow>([&](core::DbTime now) -> absl::StatusOr<PolicyVersionRow> {
      absl::StatusOr<PolicyVersionRow> current = SelectPolicies(tenant, 0);
      if (!current.ok() && !absl::IsNotFound(current.status())) return current;
      const PolicyVersionRow before = current.ok() ? *std::move(current) : PolicyVersionRow{};
      const absl::StatusOr<bool> there = IsAppliedAlready(before, expected_version, document);
      if (!there.ok()) return there.status();
      if (*there) return before;
      return Audited(InsertPolicies(tenant, before.version + 1, document, author, now), now,
                     [&](const PolicyVersionRow& made) { return AuditOf(before.document, made); });
    });
  }

  absl::StatusOr<PolicyVersionRow> GetPolicies(core::TenantId tenant, int32_t version) override {
    return Reading<PolicyVersionRow>([&] { return SelectPolicies(tenant, version); });
  }

  absl::StatusOr<std::vector<PolicyVersionRow>> ListPolicyVersions(core::TenantId tenant,
                                                                   int32_t before,
                                                                   int limit) override {
    return Reading<std::vector<PolicyVersionRow>>(
        [&] { return SelectPolicyVersions(tenant, before, limit); });
  }

  absl::StatusOr<std::vector<PolicyVersionRow>> ReadPolicyChanges(int64_t change_id) override {
    return Reading<std::vector<PolicyVersionRow>>([&] { return SelectPolicyChanges(change_id); });
  }

  absl::StatusOr<OperationRead> ReadOperation(const core::OperationKey& key) override {
    return Reading<OperationRead>([&]() -> absl::StatusOr<OperationRead> {
      absl::StatusOr<ReadStatements> reads = ReadStatements::Prepare(*connection_);
      if (!reads.ok()) return reads.status();
      auto row = reads->SelectOperation(key);
      if (!row.ok()) return row.status();
      auto past = SelectPastReceipts(*connection_, key);
      if (!past.ok()) return past.status();
      return OperationRead{
          .now = file_->clock.Now(), .row = *std::move(row), .past = *std::move(past)};
    });
  }

  absl::StatusOr<std::vector<LoggedAttempt>> ListAttempts(const core::OperationKey& key,
                                                          const std::optional<EntryId>& after,
                                                          int limit) override {
    return Reading<std::vector<LoggedAttempt>>(
        [&] { return SelectAttempts(*connection_, key, after, limit); });
  }

  absl::StatusOr<std::vector<AuditRow>> ListAudit(std::optional<core::TenantId> tenant,
                                                  int64_t before, int limit) override {
    return Reading<std::vector<AuditRow>>([&] { return SelectAudit(tenant, before, limit); });
  }

  absl::StatusOr<core::HandlerId> InternHandler(core::TenantId tenant, absl::string_view name,
                                                bool create) override {
    // Nearly always it is there, and then nobody has to wait for a turn to write.
    absl::StatusOr<core::HandlerId> found =
        Reading<core::HandlerId>([&] { return SelectHandler(tenant, name); });
    if (!create || !absl::IsNotFound(found.status())) return found;
    return Writing<core::HandlerId>(
        [&](core::DbTime now) { return InsertHandler(tenant, name, now); });
  }

  bool usable() const override { return connection_ != nullptr; }

 private:
  // ---- transactions ----

  absl::Status CheckUsable() const {
    return connection_ != nullptr
               ? absl::OkStatus()
               : absl::UnavailableError("sqlite: the session has ended after an error");
  }

  template <typename Result, typename Body>
  absl::StatusOr<Result> Reading(Body body) {
    if (absl::Status status = CheckUsable(); !status.ok()) return status;
    absl::StatusOr<Result> result = body();
    if (EndsSession(result.status())) connection_.reset();
    return result;
  }

  template <typename Result, typename Body>
  absl::StatusOr<Result> Writing(Body body) {
    if (absl::Status status = CheckUsable(); !status.ok()) return status;
    absl::StatusOr<Result> result = InTransaction<Result>(body);
    if (EndsSession(result.status())) connection_.reset();
    return result;
  }

  template <typename Result, typename Body>
  absl::StatusOr<Result> InTransaction(Body body) {
    WriteTransaction transaction(file_, connection_.get());
    if (absl::Status status = transaction.Begin(); !status.ok()) return status;
    absl::StatusOr<Result> result = body(file_->clock.Now());
    if (!result.ok()) {
      absl::Status rolled_back = transaction.Rollback();
      return rolled_back.ok() ? result.status() : absl::UnavailableError(rolled_back.message());
    }
    if (absl::Status status = transaction.Commit(); !status.ok()) return status;
    return result;
  }

  // ---- tenants ----

  absl::StatusOr<TenantRow> SelectTenant(absl::string_view name) {
    absl::StatusOr<Statement> select =
        connection_->Prepare("SELECT tenant_id, name, created_us FROM tenant WHERE name = ?1");
    if (!select.ok()) return select.status();
    select->BindBlob(1, name);
    return Only(Collect<TenantRow>(*select, ReadTenant), "tenant");
  }

  absl::StatusOr<TenantRow> InsertTenant(absl::string_view name, core::DbTime now) {
    absl::StatusOr<Statement> insert = connection_->Prepare(
        "INSERT INTO tenant (name, created_us) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING");
    if (!insert.ok()) return insert.status();
    insert->BindBlob(1, name);
    insert->BindInt(2, now.micros);
    absl::StatusOr<int> rows = insert->Run();
    if (!rows.ok()) return rows.status();
    if (*rows == 0) return absl::AlreadyExistsError("the tenant exists");
    return SelectTenant(name);
  }

  absl::StatusOr<std::vector<TenantRow>> SelectTenants(absl::string_view after, int limit) {
    absl::StatusOr<Statement> select = connection_->Prepare(
        "SELECT tenant_id, name, created_us FROM tenant WHERE name > ?1 ORDER BY name LIMIT ?2");
    if (!select.ok()) return select.status();
    select->BindBlob(1, after);
    select->BindInt(2, std::max(limit, 0));
    return Collect<TenantRow>(*select, ReadTenant);
  }

  // ---- credentials ----

  absl::StatusOr<CredentialRow> SelectCredential(absl::string_view id, core::DbTime now) {
    absl::StatusOr<Statement> select =
        connection_->Prepare(absl::StrCat(kSelectCredential, " WHERE c.credential_id = ?1"));
    if (!select.ok()) return select.status();
    select->BindBlob(1, id);
    return Only(Collect<CredentialRow>(
                    *select, [now](const Statement& row) { return ReadCredential(row, now); }),
                "credential");
  }

  absl::StatusOr<std::vector<CredentialRow>> SelectCredentials(std::optional<core::TenantId> tenant,
                                                               absl::string_view after, int limit) {
    absl::StatusOr<Statement> select = connection_->Prepare(
        absl::StrCat(kSelectCredential,
                     " WHERE c.credential_id > ?1 AND (?2 IS NULL OR c.tenant_id = ?2)"
                     " ORDER BY c.credential_id LIMIT ?3"));
    if (!select.ok()) return select.status();
    select->BindBlob(1, after);
    if (tenant.has_value()) {
      select->BindInt(2, tenant->value);
    } else {
      select->BindNull(2);
    }
    select->BindInt(3, std::max(limit, 0));
    const core::DbTime now = file_->clock.Now();
    return Collect<CredentialRow>(*select,
                                  [now](const Statement& row) { return ReadCredential(row, now); });
  }

  absl::StatusOr<bool> HasActiveAdmin(core::DbTime now) {
    absl::StatusOr<Statement> select = connection_->Prepare(
        "SELECT 1 FROM credential WHERE role = ?1 AND revoked_us IS NULL"
        " AND (expires_us IS NULL OR expires_us > ?2) LIMIT 1");
    if (!select.ok()) return select.status();
    select->BindInt(1, static_cast<int64_t>(Role::kAdmin));
    select->BindInt(2, now.micros);
    return select->Step();
  }

  absl::StatusOr<CredentialRow> InsertCredential(const CredentialRow& row,
                                                 std::optional<absl::Duration> ttl,
                                                 core::DbTime now) {
    absl::StatusOr<Statement> insert = connection_->Prepare(
        "INSERT INTO credential (credential_id, tenant_id, role, secret_sha256, handler_patterns,"
        " description, created_us, expires_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
        " ON CONFLICT (credential_id) DO NOTHING");
    if (!insert.ok()) return insert.status();
    const std::string patterns = absl::StrJoin(row.handler_patterns, "\n");
    insert->BindBlob(1, row.credential_id);
    insert->BindInt(2, row.tenant.value);
    insert->BindInt(3, static_cast<int64_t>(row.role));
    insert->BindBytes(4, row.secret_sha256);
    insert->BindBlob(5, patterns);
    insert->BindBlob(6, row.description);
    insert->BindInt(7, now.micros);
    if (ttl.has_value()) {
      insert->BindInt(8, (now + *ttl).micros);
    } else {
      insert->BindNull(8);
    }
    absl::StatusOr<int> rows = insert->Run();
    if (!rows.ok()) return rows.status();
    if (*rows == 0) return absl::AlreadyExistsError("the credential exists");
    return SelectCredential(row.credential_id, now);
  }

  absl::StatusOr<CredentialRow> NewCredential(const CredentialRow& row,
                                              std::optional<absl::Duration> ttl,
                                              const Author& author, core::DbTime now) {
    return Audited(InsertCredential(row, ttl, now), now, [&](const CredentialRow& made) {
      return AuditOf(AuditAction::kCreateCredential, nullptr, made, author);
    });
  }

  // `update` takes the id and `value`.
  absl::StatusOr<CredentialRow> ChangeCredential(absl::string_view update, absl::string_view id,
                                                 core::DbTime value, AuditAction action,
                                                 const Author& author, core::DbTime now) {
    absl::StatusOr<CredentialRow> before = SelectCredential(id, now);
    if (!before.ok()) return before;
    absl::StatusOr<Statement> statement = connection_->Prepare(update);
    if (!statement.ok()) return statement.status();
    statement->BindBlob(1, id);
    statement->BindInt(2, value.micros);
    if (absl::Status status = statement->Run().status(); !status.ok()) return status;
    absl::StatusOr<CredentialRow> after = SelectCredential(id, now);
    if (!after.ok() || (after->expires == before->expires && after->revoked == before->revoked)) {
      return after;
    }
    return Audited(std::move(after), now, [&](const CredentialRow& changed) {
      return AuditOf(action, &*before, changed, author);
    });
  }

  // ---- policies ----

  absl::StatusOr<PolicyVersionRow> SelectPolicies(core::TenantId tenant, int32_t version) {
    absl::StatusOr<Statement> select = connection_->Prepare(
        absl::StrCat(kSelectPolicies,
                     ", p.document FROM policy_version p WHERE p.tenant_id = ?1"
                     " AND (?2 = 0 OR p.version = ?2)"
                     " ORDER BY p.version DESC LIMIT 1"));
    if (!select.ok()) return select.status();
    select->BindInt(1, tenant.value);
    select->BindInt(2, version);
    return Only(Collect<PolicyVersionRow>(*select, ReadPolicies), "version of policies");
  }

  absl::StatusOr<std::vector<PolicyVersionRow>> SelectPolicyVersions(core::TenantId tenant,
                                                                     int32_t before, int limit) {
    absl::StatusOr<Statement> select =
        connection_->Prepare(absl::StrCat(kSelectPolicies,
                                          ", x'' FROM policy_version p WHERE p.tenant_id = ?1"
                                          " AND p.version < ?2 ORDER BY p.version DESC LIMIT ?3"));
    if (!select.ok()) return select.status();
    select->BindInt(1, tenant.value);
    select->BindInt(2, before);
    select->BindInt(3, std::max(limit, 0));
    return Collect<PolicyVersionRow>(*select, ReadPolicies);
  }

  absl::StatusOr<std::vector<PolicyVersionRow>> SelectPolicyChanges(int64_t change_id) {
    absl::StatusOr<Statement> select = connection_->Prepare(
        absl::StrCat(kSelectPolicies,
                     ", p.document FROM policy_version p WHERE p.change_id > ?1 AND NOT EXISTS"
                     " (SELECT 1 FROM policy_version q WHERE q.tenant_id = p.tenant_id"
                     " AND q.version > p.version) ORDER BY p.change_id"));
    if (!select.ok()) return select.status();
    select->BindInt(1, change_id);
    return Collect<PolicyVersionRow>(*select, ReadPolicies);
  }

  absl::StatusOr<PolicyVersionRow> InsertPolicies(core::TenantId tenant, int32_t version,
                                                  absl::string_view document, const Author& author,
                                                  core::DbTime now) {
    absl::StatusOr<Statement> insert = connection_->Prepare(
        "INSERT INTO policy_version (change_id, tenant_id, version, document, credential_id,"
        " reason, created_us) VALUES ((SELECT coalesce(max(change_id), 0) + 1 FROM policy_version),"
        " ?1, ?2, ?3, ?4, ?5, ?6)");
    if (!insert.ok()) return insert.status();
    insert->BindInt(1, tenant.value);
    insert->BindInt(2, version);
    insert->BindBlob(3, document);
    insert->BindBlob(4, author.credential_id);
    insert->BindBlob(5, author.reason);
    insert->BindInt(6, now.micros);
    if (absl::Status status = insert->Run().status(); !status.ok()) return status;
    return SelectPolicies(tenant, version);
  }

  // ---- audit ----

  // `changed` as it came, once what `record` says of it is written.
  template <typename Row, typename Record>
  absl::StatusOr<Row> Audited(absl::StatusOr<Row> changed, core::DbTime now, Record record) {
    if (!changed.ok()) return changed;
    absl::Status status = InsertAudit(*connection_, record(*changed), now);
    if (!status.ok()) return status;
    return changed;
  }

  absl::StatusOr<std::vector<AuditRow>> SelectAudit(std::optional<core::TenantId> tenant,
                                                    int64_t before, int limit) {
    absl::StatusOr<Statement> select = connection_->Prepare(absl::StrCat(
        "SELECT a.audit_id, a.tenant_id, t.name, a.action, a.subject, a.state_before,"
        " a.state_after, a.credential_id, a.reason, a.created_us FROM audit_record a"
        " LEFT JOIN tenant t ON t.tenant_id = a.tenant_id WHERE a.audit_id < ?1",
        tenant.has_value() ? " AND a.tenant_id = ?3" : "", " ORDER BY a.audit_id DESC LIMIT ?2"));
    if (!select.ok()) return select.status();
    select->BindInt(1, before);
    select->BindInt(2, std::max(limit, 0));
    if (tenant.has_value()) select->BindInt(3, tenant->value);
    return Collect<AuditRow>(*select, ReadAudit);
  }

  // ---- handlers ----

  absl::StatusOr<core::HandlerId> SelectHandler(core::TenantId tenant, absl::string_view name) {
    absl::StatusOr<Statement> select =
        connection_->Prepare("SELECT handler_id FROM handler WHERE tenant_id = ?1 AND name = ?2");
    if (!select.ok()) return select.status();
    select->BindInt(1, tenant.value);
    select->BindBlob(2, name);
    return Only(
        Collect<core::HandlerId>(*select,
                                 [](const Statement& row) {
                                   return core::HandlerId{static_cast<uint32_t>(row.Int(0))};
                                 }),
        "handler");
  }

  absl::StatusOr<core::HandlerId> InsertHandler(core::TenantId tenant, absl::string_view name,
                                                core::DbTime now) {
    absl::StatusOr<Statement> insert = connection_->Prepare(
        "INSERT INTO handler (tenant_id, name, created_us) VALUES (?1, ?2, ?3)"
        " ON CONFLICT (tenant_id, name) DO NOTHING");
    if (!insert.ok()) return insert.status();
    insert->BindInt(1, tenant.value);
    insert->BindBlob(2, name);
    insert->BindInt(3, now.micros);
    if (absl::Status status = insert->Run().status(); !status.ok()) return status;
    return SelectHandler(tenant, name);
  }

  File* const file_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ControlSession>> OpenControlSession(File* file) {
  absl::StatusOr<Connection> connection = Connect(*file);
  if (!connection.ok()) return connection.status();
  return std::make_unique<SqliteControlSession>(file, *std::move(connection));
}

}  // namespace once::store::sqlite
