#include "store/mysql/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "store/mysql/schema.h"

namespace once::store::mysql {
namespace {

constexpr absl::string_view kSqlMode = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION";
// Room for the protocol's own bytes in a packet.
constexpr size_t kPacketReserve = 1024;

int64_t Seconds(absl::Duration d) {
  return std::max<int64_t>(1, absl::ToInt64Seconds(absl::Ceil(d, absl::Seconds(1))));
}

bool IsTransactional(SessionUse use) {
  switch (use) {
    case SessionUse::kWrite:
    case SessionUse::kControl:
      return true;
    case SessionUse::kRead:
    case SessionUse::kMigrate:
      return false;
  }
  return false;
}

bool NeedsWritableHost(SessionUse use) {
  switch (use) {
    case SessionUse::kWrite:
    case SessionUse::kMigrate:
      return true;
    case SessionUse::kRead:
    case SessionUse::kControl:
      return false;
  }
  return true;
}

std::vector<std::string> SettingStatements(const MysqlOptions& options, SessionUse use,
                                           const ServerVersion& version) {
  const int64_t lock_wait = Seconds(options.lock_wait_timeout);
  const int64_t idle = Seconds(options.idle_timeout);
  std::vector<std::string> statements = {
      "SET NAMES binary",
      "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
      absl::StrCat("SET SESSION sql_mode='", kSqlMode,
                   "', time_zone='+00:00', innodb_lock_wait_timeout=", lock_wait,
                   ", lock_wait_timeout=", lock_wait),
  };
  if (IsTransactional(use)) {
    // A peer that vanished in the middle of a transaction would otherwise hold its locks for hours.
    statements.push_back(absl::StrCat("SET SESSION wait_timeout=", idle));
  }
  if (version.mariadb) {
    // Keys are looked up by ranges of the primary key, never through a temporary table.
    statements.emplace_back("SET SESSION in_predicate_conversion_threshold=0");
    if (IsTransactional(use)) {
      statements.push_back(
          absl::StrCat("SET SESSION idle_transaction_timeout=", Seconds(options.read_timeout)));
    }
  }
  return statements;
}

absl::StatusOr<SessionSettings> ReadSettings(Connection& connection, const ServerVersion& version) {
  SessionSettings settings;
  // NOW() stands still in a statement; SYSDATE() must not, unless the server was told so
  // (sysdate-is-now).
  const std::string sql = absl::StrCat(
      "SELECT @@session.autocommit,@@session.sql_mode,@@session.time_zone,"
      "@@session.character_set_client,@@session.character_set_connection,",
      version.mariadb ? "@@session.tx_isolation" : "@@session.transaction_isolation",
      ",@@session.innodb_lock_wait_timeout,@@session.max_allowed_packet,@@global.read_only,"
      "SLEEP(0.001),SYSDATE(6)>NOW(6)");
  const absl::Status status = connection.Query(sql, [&](RowReader& row) {
    settings.autocommit = row.Int() != 0;
    settings.sql_mode = row.Bytes();
    settings.time_zone = row.Bytes();
    settings.client_charset = row.Bytes();
    settings.connection_charset = row.Bytes();
    settings.isolation = row.Bytes();
    settings.lock_wait_seconds = row.Int();
    settings.max_allowed_packet = row.Int();
    settings.read_only = IsOn(row.Bytes());
    row.Int();
    settings.sysdate_moves = row.Int() != 0;
  });
  if (!status.ok()) return status;
  return settings;
}

}  // namespace

absl::StatusOr<ServerVersion> ParseServerVersion(absl::string_view text) {
  ServerVersion version;
  version.text = std::string(text);
  version.mariadb = absl::StrContains(text, "MariaDB");
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('.', 2));
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &version.major) ||
      !absl::SimpleAtoi(parts[1], &version.minor)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the server's version \"", text, "\" is of no known form"));
  }
  const std::pair<int, int> has(version.major, version.minor);
  const std::pair<int, int> needs = version.mariadb ? std::pair(10, 6) : std::pair(8, 0);
  if (has < needs) {
    return absl::FailedPreconditionError(
        absl::StrCat("the server is ", version.mariadb ? "MariaDB " : "MySQL ", text,
                     "; needed is ", needs.first, ".", needs.second, " or later"));
  }
  return version;
}

absl::Status CheckSettings(const SessionSettings& settings, bool autocommit_wanted,
                           int64_t lock_wait_seconds_wanted) {
  std::vector<std::string> faults;
  const auto expect = [&](bool holds, absl::string_view name, const auto& value,
                          absl::string_view wanted) {
    if (!holds) faults.push_back(absl::StrCat(name, " is ", value, ", must be ", wanted));
  };
  expect(settings.autocommit == autocommit_wanted, "autocommit", settings.autocommit ? 1 : 0,
         autocommit_wanted ? "1" : "0");
  expect(settings.sql_mode == kSqlMode, "sql_mode", settings.sql_mode, kSqlMode);
  expect(settings.time_zone == "+00:00", "time_zone", settings.time_zone, "+00:00");
  expect(settings.client_charset == "binary", "character_set_client", settings.client_charset,
         "binary");
  expect(settings.connection_charset == "binary", "character_set_connection",
         settings.connection_charset, "binary");
  expect(settings.isolation == "READ-COMMITTED", "transaction_isolation", settings.isolation,
         "READ-COMMITTED");
  expect(settings.lock_wait_seconds == lock_wait_seconds_wanted, "innodb_lock_wait_timeout",
         settings.lock_wait_seconds, absl::StrCat(lock_wait_seconds_wanted));
  expect(settings.sysdate_moves, "sysdate_is_now", "on", "off");
  if (faults.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the session's settings: ", absl::StrJoin(faults, "; ")));
}

SessionOpener::SessionOpener(MysqlOptions options)
    : options_(std::move(options)),
      clock_(options_.clock != nullptr ? *options_.clock : real_clock_),
      hosts_(options_.hosts) {}

absl::StatusOr<Session> SessionOpener::Open(SessionUse use) {
  if (hosts_.size() == 0) return absl::FailedPreconditionError("no database host is named");
  std::vector<std::string> faults;
  bool may_recover = false;
  for (const size_t index : hosts_.Candidates(clock_.Now())) {
    absl::StatusOr<Session> session = OpenOn(index, use);
    if (session.ok()) {
      hosts_.Succeeded(index);
      return session;
    }
    hosts_.Failed(index, clock_.Now());
    may_recover = may_recover || !absl::IsFailedPrecondition(session.status());
    faults.emplace_back(session.status().message());
  }
  const std::string message = absl::StrJoin(faults, "; ");
  return may_recover ? absl::UnavailableError(message) : absl::FailedPreconditionError(message);
}

absl::StatusOr<Session> SessionOpener::OpenOn(size_t host, SessionUse use) const {
  absl::StatusOr<std::unique_ptr<Connection>> connection =
      Connection::Open(options_, hosts_.host(host));
  if (!connection.ok()) return WithAdvice(connection.status());
  Session session;
  session.connection = *std::move(connection);
  session.host = host;
  if (absl::Status status = ApplySettings(use, session); !status.ok()) return status;
  if (absl::Status status = CheckHost(use, session); !status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat(ToString(hosts_.host(host)), ": ", status.message()));
  }
  return session;
}

absl::Status SessionOpener::WithAdvice(const absl::Status& status) const {
  const absl::string_view message = status.message();
  if (absl::StrContains(message, "error 1049 ")) {
    return absl::Status(status.code(), absl::StrCat(message, "; create it first: CREATE DATABASE `",
                                                    options_.database, "`"));
  }
  if (absl::StrContains(message, "error 1045 ") && options_.tls.mode == MysqlTlsMode::kDisabled) {
    return absl::Status(status.code(),
                        absl::StrCat(message, "; MariaDB also says so where it insists on TLS"));
  }
  return status;
}

absl::Status SessionOpener::ApplySettings(SessionUse use, Session& session) const {
  Connection& connection = *session.connection;
  std::string version;
  if (absl::Status status =
          connection.Query("SELECT VERSION()", [&](RowReader& row) { version = row.Bytes(); });
      !status.ok()) {
    return status;
  }
  absl::StatusOr<ServerVersion> parsed = ParseServerVersion(version);
  if (!parsed.ok()) return parsed.status();
  session.version = *std::move(parsed);
  for (const std::string& sql : SettingStatements(options_, use, session.version)) {
    if (absl::Status status = connection.Execute(sql).status(); !status.ok()) return status;
  }
  if (use != SessionUse::kMigrate) {
    if (absl::Status status = CheckSchemaVersion(connection); !status.ok()) return status;
  }
  // Last, so that the look at the schema leaves no transaction open.
  return connection.Execute(absl::StrCat("SET SESSION autocommit=", IsTransactional(use) ? 0 : 1))
      .status();
}

absl::Status SessionOpener::CheckHost(SessionUse use, Session& session) const {
  absl::StatusOr<SessionSettings> settings = ReadSettings(*session.connection, session.version);
  if (!settings.ok()) return settings.status();
  session.settings = *std::move(settings);
  if (absl::Status status = CheckSettings(session.settings, !IsTransactional(use),
                                          Seconds(options_.lock_wait_timeout));
      !status.ok()) {
    return status;
  }
  if (session.settings.read_only && (NeedsWritableHost(use) || ReadsNeedWritableHost())) {
    return absl::UnavailableError("the server is read-only");
  }
  const auto max_packet = static_cast<size_t>(session.settings.max_allowed_packet);
  session.max_packet_bytes = max_packet - std::min(max_packet, kPacketReserve);
  session.statement_bytes = std::min(options_.max_statement_bytes, session.max_packet_bytes);
  if (options_.tls.mode == MysqlTlsMode::kDisabled) return absl::OkStatus();
  return CheckEncrypted(*session.connection);
}

absl::Status SessionOpener::CheckEncrypted(Connection& connection) const {
  std::string cipher;
  if (absl::Status status = connection.Query("SHOW SESSION STATUS LIKE 'Ssl_cipher'",
                                             [&](RowReader& row) {
                                               row.Bytes();
                                               cipher = row.Bytes();
                                             });
      !status.ok()) {
    return status;
  }
  if (!cipher.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError("TLS was asked for, but the connection is not encrypted");
}

}  // namespace once::store::mysql
