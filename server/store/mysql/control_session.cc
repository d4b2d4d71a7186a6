#include "store/mysql/control_session.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "store/mysql/schema.h"

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

absl::StatusOr<TenantRow> MysqlControlSession::CreateTenant(absl::string_view name) {
  TenantRow row;
  const absl::Status status = InTransaction([&] {
    SqlBuilder sql("INSERT INTO tenant(name,created_us) VALUES (");
    sql.Bytes(name).Raw(",").Raw(kNowMicros).Raw(")");
    absl::Status inserted = session_.connection->Execute(sql.text()).status();
    if (absl::IsAlreadyExists(inserted)) {
      return absl::AlreadyExistsError("a tenant of this name exists already");
    }
    return inserted.ok() ? ReadTenant(name, row) : inserted;
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

absl::StatusOr<CredentialRow> MysqlControlSession::CreateCredential(
    const CredentialRow& row, std::optional<absl::Duration> ttl) {
  CredentialRow created;
  const absl::Status status = InTransaction([&] {
    absl::Status inserted = InsertCredential(row, ttl);
    return inserted.ok() ? ReadCredential(row.credential_id, created) : inserted;
  });
  if (!status.ok()) return status;
  return created;
}

absl::StatusOr<CredentialRow> MysqlControlSession::BootstrapAdmin(const CredentialRow& row) {
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
    step = InsertCredential(row, std::nullopt);
    return step.ok() ? ReadCredential(row.credential_id, created) : step;
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
                                                                    const SqlBuilder& assignment) {
  SqlBuilder sql("UPDATE credential SET ");
  sql.Raw(assignment.text()).Raw(" WHERE credential_id=").Bytes(credential_id);
  CredentialRow row;
  const absl::Status status = InTransaction([&] {
    const absl::Status updated = session_.connection->Execute(sql.text()).status();
    return updated.ok() ? ReadCredential(credential_id, row) : updated;
  });
  if (!status.ok()) return status;
  return row;
}

absl::StatusOr<CredentialRow> MysqlControlSession::ExpireCredential(absl::string_view credential_id,
                                                                    absl::Duration in) {
  SqlBuilder end(kNowMicros);
  end.Raw("+").Int(absl::ToInt64Microseconds(in));
  SqlBuilder assignment("expires_us=LEAST(COALESCE(expires_us,9223372036854775807),");
  assignment.Raw(end.text()).Raw(")");
  return UpdateCredential(credential_id, assignment);
}

absl::StatusOr<CredentialRow> MysqlControlSession::RevokeCredential(
    absl::string_view credential_id) {
  SqlBuilder assignment("revoked_us=COALESCE(revoked_us,");
  assignment.Raw(kNowMicros).Raw(")");
  return UpdateCredential(credential_id, assignment);
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

}  // namespace once::store::mysql
