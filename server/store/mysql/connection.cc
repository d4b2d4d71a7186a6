#include "store/mysql/connection.h"

#include <cppconn/connection.h>
#include <cppconn/driver.h>
#include <cppconn/exception.h>
#include <cppconn/resultset.h>
#include <cppconn/resultset_metadata.h>
#include <cppconn/statement.h>
#include <mysql_driver.h>

#include <chrono>
#include <exception>
#include <limits>
#include <utility>

#include "absl/base/call_once.h"
#include "absl/strings/str_cat.h"
#include "store/mysql/prepared_statements.h"
#include "store/mysql/tls_offer.h"

namespace once::store::mysql {
namespace {

int64_t SteadyNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The driver's own getter keeps an unguarded map.
sql::Driver* DriverInstance() {
  static absl::once_flag once;
  static sql::Driver* driver = nullptr;
  absl::call_once(once, [] { driver = sql::mysql::get_driver_instance(); });
  return driver;
}

// The client library keeps state per thread, to be made before its first call there and freed when
// the thread ends.
void InitialiseThread() {
  struct Registration {
    Registration() { DriverInstance()->threadInit(); }
    ~Registration() { DriverInstance()->threadEnd(); }
  };
  thread_local Registration registration;
  (void)registration;
}

int WholeSeconds(absl::Duration timeout) {
  return static_cast<int>(absl::ToInt64Seconds(absl::Ceil(timeout, absl::Seconds(1))));
}

std::string UrlOf(const HostPort& host) { return absl::StrCat("tcp://", ToString(host)); }

void AddTls(const MysqlTls& tls, sql::ConnectOptionsMap& properties) {
  const auto add_path = [&](const char* name, const std::string& path) {
    if (!path.empty()) properties[name] = sql::SQLString(path);
  };
  switch (tls.mode) {
    case MysqlTlsMode::kDisabled:
      return;
    case MysqlTlsMode::kRequired:
      break;
    case MysqlTlsMode::kVerifyIdentity:
      add_path("sslCA", tls.ca);
      properties["sslVerify"] = true;
      break;
  }
  properties["sslEnforce"] = true;
  add_path("sslCert", tls.cert);
  add_path("sslKey", tls.key);
}

sql::ConnectOptionsMap PropertiesFor(const MysqlOptions& options, const HostPort& host) {
  sql::ConnectOptionsMap properties;
  properties["hostName"] = sql::SQLString(UrlOf(host));
  properties["userName"] = sql::SQLString(options.user);
  properties["password"] = sql::SQLString(options.password.Reveal());
  if (!options.database.empty()) properties["schema"] = sql::SQLString(options.database);
  properties["OPT_CONNECT_TIMEOUT"] = WholeSeconds(options.connect_timeout);
  properties["OPT_READ_TIMEOUT"] = WholeSeconds(options.read_timeout);
  properties["OPT_WRITE_TIMEOUT"] = WholeSeconds(options.write_timeout);
  properties["OPT_LOCAL_INFILE"] = 0;
  // A renewal to the value that the row has already must count as applied.
  properties["CLIENT_FOUND_ROWS"] = true;
  if (!options.server_public_key.empty()) {
    properties["rsaKey"] = sql::SQLString(options.server_public_key);
  }
  AddTls(options.tls, properties);
  return properties;
}

NativeError ErrorOf(const sql::SQLException& e) {
  return NativeError{.code = e.getErrorCode(), .sqlstate = e.getSQLState(), .text = e.what()};
}

}  // namespace

int64_t RowReader::Int() { return result_.getInt64(++column_); }

uint32_t RowReader::Uint32() { return static_cast<uint32_t>(result_.getUInt64(++column_)); }

std::string RowReader::Bytes() { return result_.getString(++column_).asStdString(); }

std::optional<int64_t> RowReader::OptionalInt() {
  if (result_.isNull(column_ + 1)) {
    ++column_;
    return std::nullopt;
  }
  return Int();
}

std::optional<std::string> RowReader::OptionalBytes() {
  if (result_.isNull(column_ + 1)) {
    ++column_;
    return std::nullopt;
  }
  return Bytes();
}

uint32_t RowReader::columns() const { return result_.getMetaData()->getColumnCount(); }

bool IsOn(absl::string_view value) { return value != "0" && value != "OFF"; }

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const MysqlOptions& options,
                                                             const HostPort& host) {
  if (options.tls.mode == MysqlTlsMode::kRequired) {
    if (absl::Status status = CheckServerOffersTls(host, options.connect_timeout); !status.ok()) {
      return status;
    }
  }
  try {
    InitialiseThread();
    sql::ConnectOptionsMap properties = PropertiesFor(options, host);
    std::unique_ptr<sql::Connection> native(DriverInstance()->connect(properties));
    std::unique_ptr<Connection> connection(new Connection(host, std::move(native)));
    if (absl::Status status = connection->Guarded(
            Phase::kConnect,
            [&] { connection->statement_.reset(connection->native_->createStatement()); });
        !status.ok()) {
      return status;
    }
    return connection;
  } catch (const sql::SQLException& e) {
    return StatusOf(ErrorOf(e), Phase::kConnect, ToString(host));
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("connecting to ", ToString(host), ": ", e.what()));
  }
}

Connection::Connection(HostPort host, std::unique_ptr<sql::Connection> native)
    : host_(std::move(host)),
      host_name_(ToString(host_)),
      native_(std::move(native)),
      prepared_(std::make_unique<PreparedStatements>()),
      last_used_ns_(SteadyNanos()) {}

Connection::~Connection() { Close(); }

void Connection::Close() {
  usable_ = false;
  // Destructors of the connector may send and throw.
  try {
    prepared_->Clear();
    statement_.reset();
    native_.reset();
  } catch (...) {  // NOLINT(bugprone-empty-catch): the connection is closed either way
  }
}

absl::Status Connection::Guarded(Phase phase, absl::FunctionRef<void()> call) {
  if (!usable_) {
    return absl::UnavailableError(absl::StrCat("the connection to ", host_name_, " is closed"));
  }
  // Whatever gets past the handlers below leaves the connection in doubt.
  usable_ = false;
  try {
    InitialiseThread();
    call();
    usable_ = true;
    last_used_ns_ = SteadyNanos();
    return absl::OkStatus();
  } catch (const sql::SQLException& e) {
    const NativeError error = ErrorOf(e);
    if (error.code == kMaxPreparedStatementsReached) prepares_ = false;
    usable_ = ConnectionSurvives(error, phase);
    last_used_ns_ = SteadyNanos();
    return StatusOf(error, phase, host_name_);
  } catch (const std::exception& e) {
    return phase == Phase::kCommit
               ? absl::UnknownError(absl::StrCat("COMMIT on ", host_name_, " failed in the driver"))
               : absl::InternalError(absl::StrCat("the driver failed: ", e.what()));
  }
}

absl::StatusOr<uint64_t> Connection::Execute(const std::string& sql,
                                             absl::Span<const BoundValue> values) {
  uint64_t affected = 0;
  const absl::Status status = Guarded(Phase::kStatement, [&] {
    if (!values.empty()) {
      // It has no getUpdateCount().
      affected = static_cast<uint64_t>(prepared_->Bind(*native_, sql, values).executeUpdate());
    } else if (statement_->execute(sql)) {
      throw sql::SQLException("a statement returned rows that nobody asked for", "HY000", 2014);
    } else {
      affected = statement_->getUpdateCount();
    }
    // The connector overlooks a failure to which the client library gave no number.
    if (affected == std::numeric_limits<uint64_t>::max()) {
      throw sql::SQLException("a statement ended without a result", "HY000", 2013);
    }
  });
  if (!status.ok()) return status;
  return affected;
}

absl::Status Connection::Query(const std::string& sql, absl::FunctionRef<void(RowReader&)> on_row,
                               absl::Span<const BoundValue> values) {
  return Guarded(Phase::kStatement, [&] {
    const std::unique_ptr<sql::ResultSet> result(
        values.empty() ? statement_->executeQuery(sql)
                       : prepared_->Bind(*native_, sql, values).executeQuery());
    while (result->next()) {
      RowReader row(*result);
      on_row(row);
    }
  });
}

absl::Status Connection::Commit() {
  return Guarded(Phase::kCommit, [&] {
    if (statement_->execute("COMMIT") ||
        statement_->getUpdateCount() == std::numeric_limits<uint64_t>::max()) {
      throw sql::SQLException("COMMIT ended without a result", "HY000", 2013);
    }
  });
}

absl::Duration Connection::idle() const { return absl::Nanoseconds(SteadyNanos() - last_used_ns_); }

}  // namespace once::store::mysql
