#include "store/mysql/schema.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "store/mysql/sql_builder.h"

namespace once::store::mysql {
namespace {

constexpr absl::string_view kSchemaVersionTable = R"sql(
CREATE TABLE IF NOT EXISTS schema_version (
  version    INT UNSIGNED  NOT NULL,
  name       VARBINARY(128) NOT NULL,
  applied_us BIGINT        NOT NULL,
  PRIMARY KEY (version)
) ENGINE=InnoDB DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC)sql";

constexpr absl::string_view kTenantTable = R"sql(
CREATE TABLE IF NOT EXISTS tenant (
  tenant_id  INT UNSIGNED   NOT NULL AUTO_INCREMENT,
  name       VARBINARY(128) NOT NULL,
  created_us BIGINT         NOT NULL,
  PRIMARY KEY (tenant_id),
  UNIQUE KEY by_name (name)
) ENGINE=InnoDB DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC)sql";

constexpr absl::string_view kCredentialTable = R"sql(
CREATE TABLE IF NOT EXISTS credential (
  credential_id    VARBINARY(16)    NOT NULL,
  tenant_id        INT UNSIGNED     NOT NULL,
  role             TINYINT UNSIGNED NOT NULL,
  secret_sha256    BINARY(32)       NOT NULL,
  handler_patterns VARBINARY(9000)  NOT NULL,
  description      VARBINARY(255)   NOT NULL,
  created_us       BIGINT           NOT NULL,
  expires_us       BIGINT           NULL,
  revoked_us       BIGINT           NULL,
  PRIMARY KEY (credential_id)
) ENGINE=InnoDB DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC)sql";

constexpr absl::string_view kHandlerTable = R"sql(
CREATE TABLE IF NOT EXISTS handler (
  handler_id INT UNSIGNED   NOT NULL AUTO_INCREMENT,
  tenant_id  INT UNSIGNED   NOT NULL,
  name       VARBINARY(128) NOT NULL,
  created_us BIGINT         NOT NULL,
  PRIMARY KEY (handler_id),
  UNIQUE KEY by_name (tenant_id, name)
) ENGINE=InnoDB DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC)sql";

// No second index: one unique key is what makes the insert the arbiter without deadlocks.
constexpr absl::string_view kOperationTable = R"sql(
CREATE TABLE IF NOT EXISTS operation (
  tenant_id             INT UNSIGNED     NOT NULL,
  handler_id            INT UNSIGNED     NOT NULL,
  event_id              VARBINARY(255)   NOT NULL,
  digest_scheme         TINYINT UNSIGNED NOT NULL,
  digest                BINARY(32)       NOT NULL,
  state                 TINYINT UNSIGNED NOT NULL,
  attempt_id            BINARY(16)       NOT NULL,
  fence                 BIGINT           NOT NULL,
  claimed_us            BIGINT           NOT NULL,
  lease_expires_us      BIGINT           NOT NULL,
  claims                INT              NOT NULL,
  deliveries            BIGINT           NOT NULL,
  first_seen_us         BIGINT           NOT NULL,
  consumer              VARBINARY(128)   NOT NULL,
  handler_version       VARBINARY(64)    NOT NULL,
  unknown_attempts      INT              NOT NULL,
  prev_attempt_id       BINARY(16)       NULL,
  prev_fence            BIGINT           NULL,
  prev_claimed_us       BIGINT           NULL,
  prev_lease_expires_us BIGINT           NULL,
  prev_consumer         VARBINARY(128)   NULL,
  prev_handler_version  VARBINARY(64)    NULL,
  status                TINYINT UNSIGNED NULL,
  completed_us          BIGINT           NULL,
  content_type          VARBINARY(128)   NULL,
  result_size           INT UNSIGNED     NULL,
  result_sha256         BINARY(32)       NULL,
  result                VARBINARY(512)   NULL,
  PRIMARY KEY (tenant_id, handler_id, event_id)
) ENGINE=InnoDB DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC)sql";

constexpr absl::string_view kReceiptBodyTable = R"sql(
CREATE TABLE IF NOT EXISTS receipt_body (
  tenant_id  INT UNSIGNED   NOT NULL,
  handler_id INT UNSIGNED   NOT NULL,
  event_id   VARBINARY(255) NOT NULL,
  body       LONGBLOB       NOT NULL,
  PRIMARY KEY (tenant_id, handler_id, event_id)
) ENGINE=InnoDB DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC)sql";

constexpr absl::string_view kAttemptTable = R"sql(
CREATE TABLE IF NOT EXISTS attempt (
  tenant_id          INT UNSIGNED     NOT NULL,
  handler_id         INT UNSIGNED     NOT NULL,
  event_id           VARBINARY(255)   NOT NULL,
  entry_id           BINARY(16)       NOT NULL,
  attempt_id         BINARY(16)       NOT NULL,
  kind               TINYINT UNSIGNED NOT NULL,
  outcome            TINYINT UNSIGNED NOT NULL,
  fence              BIGINT           NOT NULL,
  attempt_number     INT              NOT NULL,
  digest_scheme      TINYINT UNSIGNED NULL,
  digest             BINARY(32)       NULL,
  consumer           VARBINARY(128)   NULL,
  handler_version    VARBINARY(64)    NULL,
  note               VARBINARY(255)   NULL,
  delivery_reference VARBINARY(255)   NULL,
  delivery_source    TINYINT UNSIGNED NOT NULL,
  cause_handler      VARBINARY(128)   NULL,
  cause_event_id     VARBINARY(255)   NULL,
  cause_reason       VARBINARY(255)   NULL,
  aggregate_id       VARBINARY(255)   NULL,
  aggregate_version  BIGINT           NULL,
  logged_us          BIGINT           NOT NULL,
  PRIMARY KEY (tenant_id, handler_id, event_id, entry_id)
) ENGINE=InnoDB DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC)sql";

// The primary key orders the versions of all tenants: of two that take the same number, one is
// told.
constexpr absl::string_view kPolicyVersionTable = R"sql(
CREATE TABLE IF NOT EXISTS policy_version (
  change_id     BIGINT         NOT NULL,
  tenant_id     INT UNSIGNED   NOT NULL,
  version       INT            NOT NULL,
  document      MEDIUMBLOB     NOT NULL,
  credential_id VARBINARY(16)  NOT NULL,
  reason        VARBINARY(255) NOT NULL,
  created_us    BIGINT         NOT NULL,
  PRIMARY KEY (change_id),
  UNIQUE KEY by_version (tenant_id, version)
) ENGINE=InnoDB DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC)sql";

constexpr absl::string_view kAuditRecordTable = R"sql(
CREATE TABLE IF NOT EXISTS audit_record (
  audit_id      BIGINT           NOT NULL AUTO_INCREMENT,
  tenant_id     INT UNSIGNED     NOT NULL,
  action        TINYINT UNSIGNED NOT NULL,
  subject       VARBINARY(255)   NOT NULL,
  state_before  MEDIUMBLOB       NULL,
  state_after   MEDIUMBLOB       NULL,
  credential_id VARBINARY(16)    NOT NULL,
  reason        VARBINARY(255)   NOT NULL,
  created_us    BIGINT           NOT NULL,
  PRIMARY KEY (audit_id),
  KEY by_tenant (tenant_id, audit_id)
) ENGINE=InnoDB DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC)sql";

// `open_operations`: see store/batch_order.h.
constexpr absl::string_view kAggregateTable = R"sql(
CREATE TABLE IF NOT EXISTS aggregate (
  tenant_id       INT UNSIGNED   NOT NULL,
  handler_id      INT UNSIGNED   NOT NULL,
  aggregate_id    VARBINARY(255) NOT NULL,
  begins          BIGINT         NOT NULL,
  done_version    BIGINT         NULL,
  done_event_id   VARBINARY(255) NULL,
  open_operations MEDIUMBLOB     NOT NULL,
  touched_us      BIGINT         NOT NULL,
  PRIMARY KEY (tenant_id, handler_id, aggregate_id)
) ENGINE=InnoDB DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC)sql";

constexpr absl::string_view kPastReceiptTable = R"sql(
CREATE TABLE IF NOT EXISTS past_receipt (
  tenant_id       INT UNSIGNED     NOT NULL,
  handler_id      INT UNSIGNED     NOT NULL,
  event_id        VARBINARY(255)   NOT NULL,
  fence           BIGINT           NOT NULL,
  attempt_id      BINARY(16)       NOT NULL,
  handler_version VARBINARY(64)    NOT NULL,
  status          TINYINT UNSIGNED NOT NULL,
  completed_us    BIGINT           NOT NULL,
  content_type    VARBINARY(128)   NOT NULL,
  result_size     INT UNSIGNED     NOT NULL,
  result_sha256   BINARY(32)       NOT NULL,
  result          LONGBLOB         NULL,
  reset_us        BIGINT           NOT NULL,
  credential_id   VARBINARY(16)    NOT NULL,
  reason          VARBINARY(255)   NOT NULL,
  PRIMARY KEY (tenant_id, handler_id, event_id, fence)
) ENGINE=InnoDB DEFAULT CHARSET=binary ROW_FORMAT=DYNAMIC)sql";

std::string StepLabel(const SchemaStep& step) {
  return absl::StrFormat("%04d %s", step.version, step.name);
}

int NewestKnownVersion() { return SchemaSteps().back().version; }

// 0 where there is no schema yet.
absl::StatusOr<int> ReadSchemaVersion(Connection& connection) {
  bool exists = false;
  if (absl::Status status = connection.Query("SHOW TABLES LIKE 'schema\\_version'",
                                             [&](RowReader&) { exists = true; });
      !status.ok()) {
    return status;
  }
  if (!exists) return 0;
  int version = 0;
  if (absl::Status status =
          connection.Query("SELECT COALESCE(MAX(version),0) FROM schema_version",
                           [&](RowReader& row) { version = static_cast<int>(row.Int()); });
      !status.ok()) {
    return status;
  }
  return version;
}

absl::Status NewerSchema(int version) {
  return absl::FailedPreconditionError(absl::StrCat("the database's schema has version ", version,
                                                    ", this program knows up to ",
                                                    NewestKnownVersion(), ": run a newer program"));
}

absl::Status ApplyStep(Connection& connection, const SchemaStep& step) {
  for (const absl::string_view statement : step.statements) {
    if (absl::Status status = connection.Execute(std::string(statement)).status(); !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("schema step ", StepLabel(step), ": ", status.message()));
    }
  }
  // On a cluster another node's lock is another lock: whoever finds the row written has nothing
  // left to do.
  SqlBuilder sql("INSERT INTO schema_version(version,name,applied_us) VALUES (");
  sql.Int(step.version).Raw(",").Bytes(step.name).Raw(",").Raw(kNowMicros);
  sql.Raw(") ON DUPLICATE KEY UPDATE version=version");
  return connection.Execute(sql.text()).status();
}

}  // namespace

absl::Span<const SchemaStep> SchemaSteps() {
  static const auto* const kSteps = new std::vector<SchemaStep>{
      {1,
       "first schema",
       {kTenantTable, kCredentialTable, kHandlerTable, kOperationTable, kReceiptBodyTable,
        kAttemptTable}},
      {2, "policies and audit", {kPolicyVersionTable, kAuditRecordTable}},
      {3, "aggregates", {kAggregateTable}},
      {4, "past receipts", {kPastReceiptTable}},
  };
  return *kSteps;
}

absl::Status CheckSchemaVersion(Connection& connection) {
  absl::StatusOr<int> version = ReadSchemaVersion(connection);
  if (!version.ok()) return version.status();
  if (*version == NewestKnownVersion()) return absl::OkStatus();
  if (*version > NewestKnownVersion()) return NewerSchema(*version);
  if (*version == 0) {
    return absl::FailedPreconditionError("the database has no schema yet: run onced migrate");
  }
  return absl::FailedPreconditionError(absl::StrCat("the database's schema has version ", *version,
                                                    ", this program needs ", NewestKnownVersion(),
                                                    ": run onced migrate"));
}

absl::StatusOr<std::vector<std::string>> ApplySchemaSteps(Connection& connection) {
  absl::StatusOr<DatabaseLock> lock = DatabaseLock::Acquire(connection, "migrate");
  if (!lock.ok()) return lock.status();
  if (absl::Status status = connection.Execute(std::string(kSchemaVersionTable)).status();
      !status.ok()) {
    return status;
  }
  absl::StatusOr<int> version = ReadSchemaVersion(connection);
  if (!version.ok()) return version.status();
  if (*version > NewestKnownVersion()) return NewerSchema(*version);
  std::vector<std::string> applied;
  for (const SchemaStep& step : SchemaSteps()) {
    if (step.version <= *version) continue;
    if (absl::Status status = ApplyStep(connection, step); !status.ok()) return status;
    applied.push_back(StepLabel(step));
  }
  return applied;
}

absl::StatusOr<DatabaseLock> DatabaseLock::Acquire(Connection& connection,
                                                   absl::string_view purpose) {
  // Lock names belong to the whole server and have at most 64 bytes, which the name of a database
  // can fill.
  const std::string name =
      absl::StrCat("CONCAT('once.", purpose, ".',LEFT(SHA2(DATABASE(),256),32))");
  // Slices shorter than the read timeout of the connection.
  constexpr int kSlices = 12;
  for (int i = 0; i < kSlices; ++i) {
    std::optional<int64_t> got;
    if (absl::Status status = connection.Query(absl::StrCat("SELECT GET_LOCK(", name, ",5)"),
                                               [&](RowReader& row) { got = row.OptionalInt(); });
        !status.ok()) {
      return status;
    }
    if (got == 1) return DatabaseLock(connection, name);
  }
  return absl::UnavailableError(
      absl::StrCat("another program has held the database's lock for ", purpose, " for a minute"));
}

DatabaseLock::DatabaseLock(DatabaseLock&& other) noexcept
    : connection_(std::exchange(other.connection_, nullptr)), name_(std::move(other.name_)) {}

DatabaseLock::~DatabaseLock() {
  if (connection_ == nullptr || !connection_->usable()) return;
  // A failure ends the connection, and with it the lock.
  connection_->Query(absl::StrCat("SELECT RELEASE_LOCK(", name_, ")"), [](RowReader&) {})
      .IgnoreError();
}

}  // namespace once::store::mysql
