// Real database servers for tests: one private server for the whole test program, a database of its
// own for each test.
//
// The servers are started by tests/support/mariadb and tests/support/mysql and stopped when the
// program ends. Where the program runs under `tests/support/<engine> run DIR -- …`, that server is
// taken instead, which makes a second run fast. Faults of the harness itself end the program with a
// message.
#ifndef ONCE_TESTS_SUPPORT_DATABASE_H_
#define ONCE_TESTS_SUPPORT_DATABASE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/mysql/connection.h"
#include "store/mysql/mysql_store.h"

namespace once::testing {

enum class DatabaseEngine : uint8_t { kMariadb, kMysql };
absl::string_view ToString(DatabaseEngine engine);

// A server process of this test program's own. Not thread-safe.
class DatabaseServer {
 public:
  struct Settings {
    bool tls = false;
    std::vector<std::string> variables;  // "name=value", for the server's configuration
  };

  // UNAVAILABLE with the reason where the engine cannot be had on this machine.
  static absl::StatusOr<std::unique_ptr<DatabaseServer>> Start(DatabaseEngine engine,
                                                               const Settings& settings);
  // The program's server, with TLS offered. Ends the program with status 77 (skipped) where the
  // engine cannot be had.
  static DatabaseServer& Shared(DatabaseEngine engine);

  ~DatabaseServer();
  DatabaseServer(const DatabaseServer&) = delete;
  DatabaseServer& operator=(const DatabaseServer&) = delete;

  // Stop is a shutdown, Kill a crash; Resume starts again on the same data and port.
  void Stop();
  void Kill();
  void Resume();

  // Options for the user with which Once is meant to run, and for one that may do everything.
  store::MysqlOptions Options(const std::string& database) const;
  store::MysqlOptions AdminOptions(const std::string& database) const;

  DatabaseEngine engine() const { return engine_; }
  store::HostPort address() const;
  // Paths of PEM files: the authority that signed the server's certificate, and one that did not.
  std::string ca() const { return Value("ONCE_TEST_MYSQL_CA"); }
  std::string stranger_ca() const { return Value("ONCE_TEST_MYSQL_STRANGER_CA"); }

 private:
  DatabaseServer(DatabaseEngine engine, std::string directory, bool borrowed);

  std::string Value(const std::string& name) const;
  absl::Status Launch(const std::string& arguments);
  void ReadEnvironmentFile();
  std::string password() const;

  const DatabaseEngine engine_;
  const std::string directory_;
  const bool borrowed_;  // somebody else started it and stops it
  std::map<std::string, std::string> values_;
};

using SqlRow = std::vector<std::optional<std::string>>;

// An empty database, dropped with the object, and an administrator's connection to it. One thread
// at a time.
class TestDatabase {
 public:
  explicit TestDatabase(DatabaseServer& server);
  ~TestDatabase();
  TestDatabase(const TestDatabase&) = delete;
  TestDatabase& operator=(const TestDatabase&) = delete;

  const std::string& name() const { return name_; }
  DatabaseServer& server() { return server_; }
  store::MysqlOptions options() const { return server_.Options(name_); }

  // A store on this database, with the schema applied.
  std::unique_ptr<store::Store> OpenMigrated() const;

  // Runs one statement as administrator and commits it; NULL is unset.
  absl::StatusOr<std::vector<SqlRow>> Sql(const std::string& statement);
  // Runs a statement that must not fail; gives the first column of the first row, or nothing.
  std::string Must(const std::string& statement);

  // Another administrator's connection, for a test that holds locks.
  std::unique_ptr<store::mysql::Connection> Connect() const;

  // Waits until `sql` gives a first column other than "0"; ends the program after half a minute.
  void WaitUntil(const std::string& sql);

 private:
  DatabaseServer& server_;
  const std::string name_;
  std::unique_ptr<store::mysql::Connection> admin_;
};

// Of one connection: runs a statement and gives its rows.
absl::StatusOr<std::vector<SqlRow>> RunSql(store::mysql::Connection& connection,
                                           const std::string& statement);

}  // namespace once::testing

#endif  // ONCE_TESTS_SUPPORT_DATABASE_H_
