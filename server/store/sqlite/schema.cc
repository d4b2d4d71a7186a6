#include "store/sqlite/schema.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace once::store::sqlite {
namespace {

struct Step {
  int64_t version;
  const char* name;
  const char* sql;
};

// STRICT and the checks make the file refuse what a strict SQL mode and column types refuse
// elsewhere. Names and ids are blobs: they compare byte for byte. Numbers of tenants and handlers
// are never given twice (AUTOINCREMENT).
constexpr char kFirstSchema[] = R"sql(
CREATE TABLE tenant (
  tenant_id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (tenant_id <= 4294967295),
  name BLOB NOT NULL UNIQUE CHECK (length(name) <= 128),
  created_us INTEGER NOT NULL
) STRICT;

CREATE TABLE credential (
  credential_id BLOB NOT NULL PRIMARY KEY CHECK (length(credential_id) = 16),
  tenant_id INTEGER NOT NULL,
  role INTEGER NOT NULL CHECK (role BETWEEN 1 AND 3),
  secret_sha256 BLOB NOT NULL CHECK (length(secret_sha256) = 32),
  handler_patterns BLOB NOT NULL CHECK (length(handler_patterns) <= 9000),
  description BLOB NOT NULL CHECK (length(description) <= 255),
  created_us INTEGER NOT NULL,
  expires_us INTEGER,
  revoked_us INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE handler (
  handler_id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (handler_id <= 4294967295),
  tenant_id INTEGER NOT NULL,
  name BLOB NOT NULL CHECK (length(name) <= 128),
  created_us INTEGER NOT NULL,
  UNIQUE (tenant_id, name)
) STRICT;

CREATE TABLE operation (
  tenant_id INTEGER NOT NULL,
  handler_id INTEGER NOT NULL,
  event_id BLOB NOT NULL CHECK (length(event_id) <= 255),
  digest_scheme INTEGER NOT NULL CHECK (digest_scheme BETWEEN 1 AND 255),
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 4),
  attempt_id BLOB NOT NULL CHECK (length(attempt_id) = 16),
  fence INTEGER NOT NULL,
  claimed_us INTEGER NOT NULL,
  lease_expires_us INTEGER NOT NULL,
  claims INTEGER NOT NULL,
  deliveries INTEGER NOT NULL,
  first_seen_us INTEGER NOT NULL,
  consumer BLOB NOT NULL CHECK (length(consumer) <= 128),
  handler_version BLOB NOT NULL CHECK (length(handler_version) <= 64),
  unknown_attempts INTEGER NOT NULL,
  prev_attempt_id BLOB CHECK (length(prev_attempt_id) = 16),
  prev_fence INTEGER,
  prev_claimed_us INTEGER,
  prev_lease_expires_us INTEGER,
  prev_consumer BLOB CHECK (length(prev_consumer) <= 128),
  prev_handler_version BLOB CHECK (length(prev_handler_version) <= 64),
  status INTEGER CHECK (status BETWEEN 1 AND 2),
  completed_us INTEGER,
  content_type BLOB CHECK (length(content_type) <= 128),
  result_size INTEGER,
  result_sha256 BLOB CHECK (length(result_sha256) = 32),
  result BLOB CHECK (length(result) <= 512),
  PRIMARY KEY (tenant_id, handler_id, event_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE receipt_body (
  tenant_id INTEGER NOT NULL,
  handler_id INTEGER NOT NULL,
  event_id BLOB NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (tenant_id, handler_id, event_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempt (
  tenant_id INTEGER NOT NULL,
  handler_id INTEGER NOT NULL,
  event_id BLOB NOT NULL CHECK (length(event_id) <= 255),
  entry_id BLOB NOT NULL CHECK (length(entry_id) = 16),
  attempt_id BLOB NOT NULL CHECK (length(attempt_id) = 16),
  kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 255),
  outcome INTEGER NOT NULL CHECK (outcome BETWEEN 1 AND 255),
  fence INTEGER NOT NULL,
  attempt_number INTEGER NOT NULL,
  digest_scheme INTEGER CHECK (digest_scheme BETWEEN 1 AND 255),
  digest BLOB CHECK (length(digest) = 32),
  consumer BLOB CHECK (length(consumer) <= 128),
  handler_version BLOB CHECK (length(handler_version) <= 64),
  note BLOB CHECK (length(note) <= 255),
  delivery_reference BLOB CHECK (length(delivery_reference) <= 255),
  delivery_source INTEGER NOT NULL CHECK (delivery_source BETWEEN 0 AND 255),
  cause_handler BLOB CHECK (length(cause_handler) <= 128),
  cause_event_id BLOB CHECK (length(cause_event_id) <= 255),
  cause_reason BLOB CHECK (length(cause_reason) <= 255),
  aggregate_id BLOB CHECK (length(aggregate_id) <= 255),
  aggregate_version INTEGER NOT NULL,
  logged_us INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, handler_id, event_id, entry_id)
) STRICT, WITHOUT ROWID;

-- One row: the greatest fence among deleted operations. A clock that is set back must not give a smaller one to their successors.
CREATE TABLE fence_floor (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  fence INTEGER NOT NULL
) STRICT;
INSERT INTO fence_floor (id, fence) VALUES (1, 0);
)sql";

constexpr char kPoliciesAndAudit[] = R"sql(
CREATE TABLE policy_version (
  change_id INTEGER PRIMARY KEY,
  tenant_id INTEGER NOT NULL,
  version INTEGER NOT NULL,
  document BLOB NOT NULL CHECK (length(document) <= 524288),
  credential_id BLOB NOT NULL CHECK (length(credential_id) <= 16),
  reason BLOB NOT NULL CHECK (length(reason) <= 255),
  created_us INTEGER NOT NULL,
  UNIQUE (tenant_id, version)
) STRICT;

CREATE TABLE audit_record (
  audit_id INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant_id INTEGER NOT NULL,
  action INTEGER NOT NULL CHECK (action BETWEEN 1 AND 255),
  subject BLOB NOT NULL CHECK (length(subject) <= 255),
  state_before BLOB,
  state_after BLOB,
  credential_id BLOB NOT NULL CHECK (length(credential_id) <= 16),
  reason BLOB NOT NULL CHECK (length(reason) <= 255),
  created_us INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_record_by_tenant ON audit_record (tenant_id, audit_id);
)sql";

constexpr char kAggregates[] = R"sql(
CREATE TABLE aggregate (
  tenant_id INTEGER NOT NULL,
  handler_id INTEGER NOT NULL,
  aggregate_id BLOB NOT NULL CHECK (length(aggregate_id) <= 255),
  begins INTEGER NOT NULL,
  done_version INTEGER,
  done_event_id BLOB CHECK (length(done_event_id) <= 255),
  open_operations BLOB NOT NULL,
  touched_us INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, handler_id, aggregate_id)
) STRICT, WITHOUT ROWID;
)sql";

constexpr char kPastReceipts[] = R"sql(
CREATE TABLE past_receipt (
  tenant_id INTEGER NOT NULL,
  handler_id INTEGER NOT NULL,
  event_id BLOB NOT NULL CHECK (length(event_id) <= 255),
  fence INTEGER NOT NULL,
  attempt_id BLOB NOT NULL CHECK (length(attempt_id) = 16),
  handler_version BLOB NOT NULL CHECK (length(handler_version) <= 64),
  status INTEGER NOT NULL CHECK (status BETWEEN 1 AND 2),
  completed_us INTEGER NOT NULL,
  content_type BLOB NOT NULL CHECK (length(content_type) <= 128),
  result_size INTEGER NOT NULL,
  result_sha256 BLOB NOT NULL CHECK (length(result_sha256) = 32),
  result BLOB,
  reset_us INTEGER NOT NULL,
  credential_id BLOB NOT NULL CHECK (length(credential_id) <= 16),
  reason BLOB NOT NULL CHECK (length(reason) <= 255),
  PRIMARY KEY (tenant_id, handler_id, event_id, fence)
) STRICT, WITHOUT ROWID;
)sql";

constexpr std::array kSteps = {
    Step{.version = 1, .name = "0001 first schema", .sql = kFirstSchema},
    Step{.version = 2, .name = "0002 policies and audit", .sql = kPoliciesAndAudit},
    Step{.version = 3, .name = "0003 aggregates", .sql = kAggregates},
    Step{.version = 4, .name = "0004 past receipts", .sql = kPastReceipts},
};

constexpr char kCreateVersionTable[] =
    "CREATE TABLE IF NOT EXISTS schema_version ("
    " version INTEGER PRIMARY KEY, name BLOB NOT NULL, applied_us INTEGER NOT NULL) STRICT";

// 0 where there is no table or no row.
absl::StatusOr<int64_t> SchemaVersion(Connection& connection) {
  absl::StatusOr<std::string> tables = connection.Text(
      "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version'");
  if (!tables.ok()) return tables.status();
  if (*tables == "0") return 0;
  absl::StatusOr<Statement> newest =
      connection.Prepare("SELECT coalesce(max(version), 0) FROM schema_version");
  if (!newest.ok()) return newest.status();
  absl::StatusOr<bool> row = newest->Step();
  if (!row.ok()) return row.status();
  return newest->Int(0);
}

absl::Status NewerSchema(int64_t version) {
  return absl::FailedPreconditionError(
      absl::StrCat("sqlite: the file has schema version ", version, ", this program knows up to ",
                   NewestSchemaVersion(), "; run a newer program"));
}

absl::Status ApplyStep(Connection& connection, const Step& step, core::DbTime now) {
  if (absl::Status status = connection.Execute(step.sql); !status.ok()) return status;
  absl::StatusOr<Statement> insert = connection.Prepare(
      "INSERT INTO schema_version (version, name, applied_us) VALUES (?1, ?2, ?3)");
  if (!insert.ok()) return insert.status();
  insert->BindInt(1, step.version);
  insert->BindBlob(2, step.name);
  insert->BindInt(3, now.micros);
  return insert->Run().status();
}

absl::StatusOr<std::vector<std::string>> ApplyMissing(Connection& connection, core::DbTime now) {
  if (absl::Status status = connection.Execute(kCreateVersionTable); !status.ok()) return status;
  absl::StatusOr<int64_t> version = SchemaVersion(connection);
  if (!version.ok()) return version.status();
  if (*version > NewestSchemaVersion()) return NewerSchema(*version);
  std::vector<std::string> applied;
  for (const Step& step : kSteps) {
    if (step.version <= *version) continue;
    if (absl::Status status = ApplyStep(connection, step, now); !status.ok()) return status;
    applied.emplace_back(step.name);
  }
  return applied;
}

}  // namespace

int64_t NewestSchemaVersion() { return kSteps.back().version; }

absl::StatusOr<std::vector<std::string>> MigrateSchema(Connection& connection, core::DbTime now) {
  if (absl::Status status = connection.Execute("BEGIN IMMEDIATE"); !status.ok()) return status;
  absl::StatusOr<std::vector<std::string>> applied = ApplyMissing(connection, now);
  absl::Status status = applied.status();
  if (status.ok()) status = connection.Commit();
  if (status.ok()) return applied;
  if (connection.InTransaction()) {
    // The connection is about to be closed, which rolls back as well.
    (void)connection.Execute("ROLLBACK");
  }
  return status;
}

absl::Status CheckSchema(Connection& connection) {
  absl::StatusOr<int64_t> version = SchemaVersion(connection);
  if (!version.ok()) return version.status();
  if (*version > NewestSchemaVersion()) return NewerSchema(*version);
  if (*version < NewestSchemaVersion()) {
    return absl::FailedPreconditionError(
        absl::StrCat("sqlite: the file has schema version ", *version, ", this program needs ",
                     NewestSchemaVersion(), "; run: onced migrate"));
  }
  return absl::OkStatus();
}

}  // namespace once::store::sqlite
