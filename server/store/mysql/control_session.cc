#include "store/mysql/control_session.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "store/control_plane.h"
#include "store/mysql/history.h"
#include "store/mysql/schema.h"
#include "store/mysql/statements.h"

namespace once::store::mysql {
namespace {

constexpr int kTries = 5;
constexpr char kPatternSeparator = '\n';  // in no handler name

TenantRow ReadTenantRow(RowReader& reader) {
  TenantRow row;
  row.id.value = reader.Uint32();
  row.name = reader.Bytes();
  row.created.micros = reader.Int();
  return row;
}

std::optional<core::DbTime> ToTime(std::optional<int64_t> micros) {
  if (!micros.has_value()) return std::nullopt;
  return core::DbTime{*micros};
}

CredentialRow ReadCredentialRow(RowReader& reader) {
  CredentialRow row;
  row.credential_id = reader.Bytes();
  row.tenant.value = reader.Uint32();
  row.tenant_name = reader.Bytes();
  row.role = static_cast<Role>(reader.Int());
  const std::string secret = reader.Bytes();
  std::memcpy(row.secret_sha256.data(), secret.data(),
              std::min(secret.size(), row.secret_sha256.size()));
  const std::string patterns = reader.Bytes();
  if (!patterns.empty()) row.handler_patterns = absl::StrSplit(patterns, kPatternSeparator);
  row.description = reader.Bytes();
  row.created.micros = reader.Int();
  row.expires = ToTime(reader.OptionalInt());
  row.revoked = ToTime(reader.OptionalInt());
  row.active = reader.Int() != 0;
  return row;
}

PolicyVersionRow ReadPolicyRow(RowReader& reader) {
  PolicyVersionRow row;
  row.change_id = reader.Int();
  row.tenant.value = reader.Uint32();
  row.version = static_cast<int32_t>(reader.Int());
  row.document = reader.Bytes();
  row.author.credential_id = reader.Bytes();
  row.author.reason = reader.Bytes();
  row.created.micros = reader.Int();
  return row;
}

AuditRow ReadAuditRow(RowReader& reader) {
  AuditRow row;
  row.audit_id = reader.Int();
  row.tenant.value = reader.Uint32();
  row.tenant_name = reader.Bytes();
  row.action = static_cast<AuditAction>(reader.Int());
  row.subject = reader.Bytes();
  row.before = reader.Bytes();
  row.after = reader.Bytes();
  row.author.credential_id = reader.Bytes();
  row.author.reason = reader.Bytes();
  row.created.micros = reader.Int();
  return row;
}

std::string ActiveCondition() {
  return absl::StrCat("(c.revoked_us IS NULL AND (c.expires_us IS NULL OR c.expires_us>",
                      kNowMicros, "))");
}

}  // namespace

bool MysqlControlSession::usable() const {
  return session_.connection->usable() &&
         session_.connection->idle() < opener_.options().idle_timeout * 0.8;
}

absl::Status MysqlControlSession::InTransaction(absl::FunctionRef<absl::Status()> body) {
  if (!opener_.IsCurrent(session_)) {
    session_.connection->Close();
    return absl::UnavailableError("the sessions moved to another host");
  }
  absl::Status status;
  for (int i = 0; i < kTries; ++i) {
    status = body();
    if (status.ok()) {
      status = session_.connection->Commit();
    }
    if (status.ok() || !session_.connection->usable()) return status;
    if (!session_.connection->Execute("ROLLBACK").ok()) {
      session_.connection->Close();
      return status;
    }
    if (!absl::IsAborted(status)) return status;
  }
  return status;
}

// ---- tenants ----

absl::Status MysqlControlSession::ReadTenant(absl::string_view name, TenantRow& row) {
  SqlBuilder sql("SELECT tenant_id,name,created_us FROM tenant WHERE name=");
  sql.Bytes(name);
  bool found = false;
  absl::Status status = session_.connection->Query(sql.text(), [&](RowReader& reader) {
    found = true;
    row = ReadTenantRow(reader);
  });
  if (!status.ok()) return status;
  return found ? absl::OkStatus() : absl::NotFoundError("there is no such tenant");
}

absl::StatusOr<TenantRow> MysqlControlSession::CreateTenant(absl::string_view name,
                                                            const Author& author) {
  TenantRow row;
  const absl::Status status = InTransaction([&] {
    SqlBuilder sql("INSERT INTO tenant(name,created_us) VALUES (");
    sql.Bytes(name).Raw(",").Raw(kNowMicros).Raw(")");
    absl::Status inserted = session_.connection->Execute(sql.text()).status();
    if (absl::IsAlreadyExists(inserted)) {
      return absl::AlreadyExistsError("a tenant of this name exists already");
    }
    if (inserted.ok()) inserted = ReadTenant(name, row);
    return inserted.ok() ? WriteAudit(AuditOf(row, author)) : inserted;
  });
  if (!status.ok()) return status;
  return row;
}

absl::StatusOr<TenantRow> MysqlControlSession::GetTenant(absl::string_view name) {
  TenantRow row;
  if (absl::Status status = InTransaction([&] { return ReadTenant(name, row); }); !status.ok()) {
    return status;
  }
  return row;
}

absl::StatusOr<std::vector<TenantRow>> MysqlControlSession::ListTenants(absl::string_view after,
                                                                        int limit) {
  std::vector<TenantRow> rows;
  SqlBuilder sql("SELECT tenant_id,name,created_us FROM tenant WHERE name>");
  sql.Bytes(after).Raw(" ORDER BY name LIMIT ").Int(limit);
  const absl::Status status = InTransaction([&] {
    rows.clear();
    return session_.connection->Query(
        sql.text(), [&](RowReader& reader) { rows.push_back(ReadTenantRow(reader)); });
  });
  if (!status.ok()) return status;
  return rows;
}

// ---- credentials ----

absl::Status MysqlControlSession::ReadCredentials(const SqlBuilder& condition,
                                                  std::vector<CredentialRow>& rows) {
  const std::string sql = absl::StrCat(
      "SELECT c.credential_id,c.tenant_id,t.name,c.role,c.secret_sha256,c.handler_patterns,"
      "c.description,c.created_us,c.expires_us,c.revoked_us,",
      ActiveCondition(), " FROM credential c LEFT JOIN tenant t ON t.tenant_id=c.tenant_id WHERE ",
      condition.text());
  rows.clear();
  return session_.connection->Query(
      sql, [&](RowReader& reader) { rows.push_back(ReadCredentialRow(reader)); });
}

absl::Status MysqlControlSession::ReadCredential(absl::string_view credential_id,
                                                 CredentialRow& row) {
  SqlBuilder condition("c.credential_id=");
  condition.Bytes(credential_id);
  std::vector<CredentialRow> rows;
  if (absl::Status status = ReadCredentials(condition, rows); !status.ok()) return status;
  if (rows.empty()) return absl::NotFoundError("there is no such credential");
  row = std::move(rows.front());
  return absl::OkStatus();
}

absl::Status MysqlControlSession::InsertCredential(const CredentialRow& row,
                                                   std::optional<absl::Duration> ttl) {
  SqlBuilder sql(
      "INSERT INTO credential(credential_id,tenant_id,role,secret_sha256,handler_patterns,"
      "description,created_us,expires_us) VALUES (");
  sql.Bytes(row.credential_id).Raw(",").Int(row.tenant.value).Raw(",");
  sql.Int(static_cast<int>(row.role)).Raw(",").Bytes(row.secret_sha256).Raw(",");
  sql.Bytes(absl::StrJoin(row.handler_patterns, std::string(1, kPatternSeparator))).Raw(",");
  sql.Bytes(row.description).Raw(",").Raw(kNowMicros).Raw(",");
  if (ttl.has_value()) {
    sql.Raw("created_us+").Int(absl::ToInt64Microseconds(*ttl));
  } else {
    sql.Raw("NULL");
  }
  sql.Raw(")");
  absl::Status status = session_.connection->Execute(sql.text()).status();
  if (absl::IsAlreadyExists(status)) {
    return absl::AlreadyExistsError("a credential of this id exists already");
  }
  return status;
}

absl::Status MysqlControlSession::MakeCredential(const CredentialRow& row,
                                                 std::optional<absl::Duration> ttl,
                                                 const Author& author, CredentialRow& created) {
  absl::Status status = InsertCredential(row, ttl);
  if (status.ok()) status = ReadCredential(row.credential_id, created);
  if (!status.ok()) return status;
  return WriteAudit(AuditOf(AuditAction::kCreateCredential, nullptr, created, author));
}

absl::StatusOr<CredentialRow> MysqlControlSession::CreateCredential(
    const CredentialRow& row, std::optional<absl::Duration> ttl, const Author& author) {
  CredentialRow created;
  const absl::Status status =
      InTransaction([&] { return MakeCredential(row, ttl, author, created); });
  if (!status.ok()) return status;
  return created;
}

absl::StatusOr<CredentialRow> MysqlControlSession::BootstrapAdmin(const CredentialRow& row,
                                                                  const Author& author) {
  // "None is there" cannot be locked by rows. The lock outlasts the COMMIT.
  absl::StatusOr<DatabaseLock> lock = DatabaseLock::Acquire(*session_.connection, "bootstrap");
  if (!lock.ok()) return lock.status();
  CredentialRow created;
  const absl::Status status = InTransaction([&] {
    SqlBuilder condition("c.role=");
    condition.Int(static_cast<int>(Role::kAdmin)).Raw(" AND ").Raw(ActiveCondition());
    condition.Raw(" LIMIT 1");
    std::vector<CredentialRow> admins;
    absl::Status step = ReadCredentials(condition, admins);
    if (!step.ok()) return step;
    if (!admins.empty()) {
      return absl::AlreadyExistsError("an active admin credential exists already");
    }
    return MakeCredential(row, std::nullopt, author, created);
  });
  if (!status.ok()) return status;
  return created;
}

absl::StatusOr<CredentialRow> MysqlControlSession::GetCredential(absl::string_view credential_id) {
  CredentialRow row;
  if (absl::Status status = InTransaction([&] { return ReadCredential(credential_id, row); });
      !status.ok()) {
    return status;
  }
  return row;
}

absl::StatusOr<std::vector<CredentialRow>> MysqlControlSession::ListCredentials(
    std::optional<core::TenantId> tenant, absl::string_view after, int limit) {
  SqlBuilder condition("c.credential_id>");
  condition.Bytes(after);
  if (tenant.has_value()) condition.Raw(" AND c.tenant_id=").Int(tenant->value);
  condition.Raw(" ORDER BY c.credential_id LIMIT ").Int(limit);
  std::vector<CredentialRow> rows;
  if (absl::Status status = InTransaction([&] { return ReadCredentials(condition, rows); });
      !status.ok()) {
    return status;
  }
  return rows;
}

absl::StatusOr<CredentialRow> MysqlControlSession::UpdateCredential(absl::string_view credential_id,
                                                                    const SqlBuilder& assignment,
                                                                    AuditAction action,
                                                                    const Author& author) {
  SqlBuilder sql("UPDATE credential SET ");
  sql.Raw(assignment.text()).Raw(" WHERE credential_id=").Bytes(credential_id);
  SqlBuilder locked("c.credential_id=");
  locked.Bytes(credential_id).Raw(" FOR UPDATE");
  CredentialRow row;
  const absl::Status status = InTransaction([&] {
    std::vector<CredentialRow> before;
    absl::Status step = ReadCredentials(locked, before);
    if (step.ok() && before.empty()) step = absl::NotFoundError("there is no such credential");
    if (step.ok()) step = session_.connection->Execute(sql.text()).status();
    if (step.ok()) step = ReadCredential(credential_id, row);
    if (!step.ok() ||
        (row.expires == before.front().expires && row.revoked == before.front().revoked)) {
      return step;
    }
    return WriteAudit(AuditOf(action, &before.front(), row, author));
  });
  if (!status.ok()) return status;
  return row;
}

absl::StatusOr<CredentialRow> MysqlControlSession::ExpireCredential(absl::string_view credential_id,
                                                                    absl::Duration in,
                                                                    const Author& author) {
  SqlBuilder end(kNowMicros);
  end.Raw("+").Int(absl::ToInt64Microseconds(in));
  SqlBuilder assignment("expires_us=LEAST(COALESCE(expires_us,9223372036854775807),");
  assignment.Raw(end.text()).Raw(")");
  return UpdateCredential(credential_id, assignment, AuditAction::kExpireCredential, author);
}

absl::StatusOr<CredentialRow> MysqlControlSession::RevokeCredential(absl::string_view credential_id,
                                                                    const Author& author) {
  SqlBuilder assignment("revoked_us=COALESCE(revoked_us,");
  assignment.Raw(kNowMicros).Raw(")");
  return UpdateCredential(credential_id, assignment, AuditAction::kRevokeCredential, author);
}

// ---- policies ----

absl::Status MysqlControlSession::ReadPolicies(absl::string_view document,
                                               const SqlBuilder& from_where,
                                               std::vector<PolicyVersionRow>& rows) {
  rows.clear();
  return session_.connection->Query(
      absl::StrCat("SELECT p.change_id,p.tenant_id,p.version,", document,
                   ",p.credential_id,p.reason,p.created_us ", from_where.text()),
      [&](RowReader& reader) { rows.push_back(ReadPolicyRow(reader)); });
}

absl::Status MysqlControlSession::ReadPolicyVersion(core::TenantId tenant, int32_t version,
                                                    PolicyVersionRow& row) {
  SqlBuilder sql("FROM policy_version p WHERE p.tenant_id=");
  sql.Int(tenant.value);
  if (version != 0) sql.Raw(" AND p.version=").Int(version);
  sql.Raw(" ORDER BY p.version DESC LIMIT 1");
  std::vector<PolicyVersionRow> rows;
  if (absl::Status status = ReadPolicies("p.document", sql, rows); !status.ok()) return status;
  if (rows.empty()) return absl::NotFoundError("there is no such version of policies");
  row = std::move(rows.front());
  return absl::OkStatus();
}

absl::Status MysqlControlSession::InsertPolicies(core::TenantId tenant, int32_t version,
                                                 absl::string_view document, const Author& author) {
  SqlBuilder sql(
      "INSERT INTO policy_version(change_id,tenant_id,version,document,credential_id,reason,"
      "created_us) SELECT COALESCE(MAX(change_id),0)+1,");
  sql.Int(tenant.value).Raw(",").Int(version).Raw(",").Bytes(document).Raw(",");
  sql.Bytes(author.credential_id).Raw(",").Bytes(author.reason).Raw(",").Raw(kNowMicros);
  sql.Raw(" FROM policy_version");
  absl::Status status = session_.connection->Execute(sql.text()).status();
  // Somebody else was faster, here or in another tenant: look again.
  if (absl::IsAlreadyExists(status)) return absl::AbortedError("another version came first");
  return status;
}

absl::StatusOr<PolicyVersionRow> MysqlControlSession::ApplyPolicies(core::TenantId tenant,
                                                                    int32_t expected_version,
                                                                    absl::string_view document,
                                                                    const Author& author) {
  PolicyVersionRow row;
  const absl::Status status = InTransaction([&] {
    row = PolicyVersionRow{};
    absl::Status step = ReadPolicyVersion(tenant, 0, row);
    if (!step.ok() && !absl::IsNotFound(step)) return step;
    const absl::StatusOr<bool> there = IsAppliedAlready(row, expected_version, document);
    if (!there.ok() || *there) return there.status();
    const std::string before = std::move(row.document);
    step = InsertPolicies(tenant, expected_version + 1, document, author);
    if (step.ok()) step = ReadPolicyVersion(tenant, expected_version + 1, row);
    return step.ok() ? WriteAudit(AuditOf(before, row)) : step;
  });
  if (!status.ok()) return status;
  return row;
}

absl::StatusOr<PolicyVersionRow> MysqlControlSession::GetPolicies(core::TenantId tenant,
                                                                  int32_t version) {
  PolicyVersionRow row;
  if (absl::Status status = InTransaction([&] { return ReadPolicyVersion(tenant, version, row); });
      !status.ok()) {
    return status;
  }
  return row;
}

absl::StatusOr<std::vector<PolicyVersionRow>> MysqlControlSession::ListPolicyVersions(
    core::TenantId tenant, int32_t before, int limit) {
  SqlBuilder sql("FROM policy_version p WHERE p.tenant_id=");
  sql.Int(tenant.value).Raw(" AND p.version<").Int(before);
  sql.Raw(" ORDER BY p.version DESC LIMIT ").Int(limit);
  std::vector<PolicyVersionRow> rows;
  if (absl::Status status = InTransaction([&] { return ReadPolicies("''", sql, rows); });
      !status.ok()) {
    return status;
  }
  return rows;
}

absl::StatusOr<std::vector<PolicyVersionRow>> MysqlControlSession::ReadPolicyChanges(
    int64_t change_id) {
  SqlBuilder sql("FROM policy_version p WHERE p.change_id>");
  sql.Int(change_id);
  sql.Raw(
      " AND NOT EXISTS(SELECT 1 FROM policy_version q WHERE q.tenant_id=p.tenant_id"
      " AND q.version>p.version) ORDER BY p.change_id");
  std::vector<PolicyVersionRow> rows;
  if (absl::Status status = InTransaction([&] { return ReadPolicies("p.document", sql, rows); });
      !status.ok()) {
    return status;
  }
  return rows;
}

// ---- audit ----

absl::Status MysqlControlSession::WriteAudit(const AuditRow& row) {
  return session_.connection->Execute(InsertAudit(row)).status();
}

absl::StatusOr<std::vector<AuditRow>> MysqlControlSession::ListAudit(
    std::optional<core::TenantId> tenant, int64_t before, int limit) {
  SqlBuilder sql(
      "SELECT a.audit_id,a.tenant_id,t.name,a.action,a.subject,a.state_before,a.state_after,"
      "a.credential_id,a.reason,a.created_us FROM audit_record a LEFT JOIN tenant t ON"
      " t.tenant_id=a.tenant_id WHERE a.audit_id<");
  sql.Int(before);
  if (tenant.has_value()) sql.Raw(" AND a.tenant_id=").Int(tenant->value);
  sql.Raw(" ORDER BY a.audit_id DESC LIMIT ").Int(limit);
  std::vector<AuditRow> rows;
  const absl::Status status = InTransaction([&] {
    rows.clear();
    return session_.connection->Query(
        sql.text(), [&](RowReader& reader) { rows.push_back(ReadAuditRow(reader)); });
  });
  if (!status.ok()) return status;
  return rows;
}

// ---- handler names ----

absl::Status MysqlControlSession::ReadHandler(core::TenantId tenant, absl::string_view name,
                                              std::optional<core::HandlerId>& id) {
  SqlBuilder sql("SELECT handler_id FROM handler FORCE INDEX (by_name) WHERE tenant_id=");
  sql.Int(tenant.value).Raw(" AND name=").Bytes(name);
  id.reset();
  return session_.connection->Query(
      sql.text(), [&](RowReader& reader) { id = core::HandlerId{reader.Uint32()}; });
}

absl::StatusOr<core::HandlerId> MysqlControlSession::InternHandler(core::TenantId tenant,
                                                                   absl::string_view name,
                                                                   bool create) {
  std::optional<core::HandlerId> id;
  const auto read = [&] { return ReadHandler(tenant, name, id); };
  // Read first: almost all are there, and an insert that fails uses up an id.
  if (absl::Status status = InTransaction(read); !status.ok()) return status;
  if (!id.has_value() && create) {
    SqlBuilder sql("INSERT INTO handler(tenant_id,name,created_us) VALUES (");
    sql.Int(tenant.value).Raw(",").Bytes(name).Raw(",").Raw(kNowMicros).Raw(")");
    const absl::Status inserted =
        InTransaction([&] { return session_.connection->Execute(sql.text()).status(); });
    // ALREADY_EXISTS: somebody else was faster, and its row is the one.
    if (!inserted.ok() && !absl::IsAlreadyExists(inserted)) return inserted;
    if (absl::Status status = InTransaction(read); !status.ok()) return status;
  }
  if (!id.has_value()) return absl::NotFoundError("there is no such handler");
  return *id;
}

// ---- one operation ----

absl::StatusOr<OperationRead> MysqlControlSession::ReadOperation(const core::OperationKey& key) {
  const core::OperationKey* const keys[] = {&key};
  OperationRead read;
  const absl::Status status = InTransaction([&] {
    read.row.reset();
    read.past.clear();
    const std::string sql = SelectOperations(keys, session_.statement_bytes).front().sql;
    absl::Status got = session_.connection->Query(sql, [&](RowReader& reader) {
      SelectedOperation selected = mysql::ReadOperation(reader);
      read.now = selected.moment.now;
      read.row = std::move(selected.row);
    });
    if (got.ok() && !read.row.has_value()) {
      got = session_.connection->Query(SelectNow(),
                                       [&](RowReader& reader) { read.now = ReadNow(reader).now; });
    }
    if (!got.ok()) return got;
    return session_.connection->Query(SelectPastReceipts(key), [&](RowReader& reader) {
      read.past.push_back(ReadPastReceipt(reader));
    });
  });
  if (!status.ok()) return status;
  return read;
}

absl::StatusOr<std::vector<LoggedAttempt>> MysqlControlSession::ListAttempts(
    const core::OperationKey& key, const std::optional<EntryId>& after, int limit) {
  std::vector<LoggedAttempt> rows;
  const absl::Status status = InTransaction([&] {
    rows.clear();
    return session_.connection->Query(SelectAttempts(key, after, limit), [&](RowReader& reader) {
      rows.push_back(ReadLoggedAttempt(key, reader));
    });
  });
  if (!status.ok()) return status;
  return rows;
}

}  // namespace once::store::mysql
