#include "support/database.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace once::testing {
namespace {

constexpr int kSkipped = 77;  // ctest's SKIP_RETURN_CODE

[[noreturn]] void Fail(absl::string_view what) {
  std::cerr << "the test's database: " << what << std::endl;
  std::abort();
}

std::string Launcher(DatabaseEngine engine) {
  return absl::StrCat(ONCE_SOURCE_DIR, "/tests/support/", ToString(engine));
}

struct Output {
  int status = 0;
  std::string text;
};

Output RunCommand(const std::string& command) {
  FILE* pipe = popen(absl::StrCat(command, " 2>&1").c_str(), "r");
  if (pipe == nullptr) Fail(absl::StrCat("cannot run ", command));
  Output output;
  char buffer[4096];
  size_t size = 0;
  while ((size = fread(buffer, 1, sizeof buffer, pipe)) > 0) output.text.append(buffer, size);
  const int status = pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

std::string MakeDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "once-database-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) Fail("no temporary directory");
  return name;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::unique_ptr<store::mysql::Connection> ConnectOrFail(const store::MysqlOptions& options) {
  auto connection = store::mysql::Connection::Open(options, options.hosts.front());
  if (!connection.ok()) Fail(connection.status().ToString());
  return *std::move(connection);
}

std::string UniqueName() {
  static std::atomic<int> counter{0};
  return absl::StrCat("once_test_", getpid(), "_", ++counter);
}

}  // namespace

absl::string_view ToString(DatabaseEngine engine) {
  switch (engine) {
    case DatabaseEngine::kMariadb:
      return "mariadb";
    case DatabaseEngine::kMysql:
      return "mysql";
  }
  return "";
}

DatabaseServer::DatabaseServer(DatabaseEngine engine, std::string directory, bool borrowed)
    : engine_(engine), directory_(std::move(directory)), borrowed_(borrowed) {
  // What OpenSSL writes to a server that a test has killed must not end the test.
  std::signal(SIGPIPE, SIG_IGN);
}

absl::StatusOr<std::unique_ptr<DatabaseServer>> DatabaseServer::Start(DatabaseEngine engine,
                                                                      const Settings& settings) {
  const Output available = RunCommand(absl::StrCat(Launcher(engine), " available"));
  if (available.status != 0) return absl::UnavailableError(available.text);
  std::unique_ptr<DatabaseServer> server(
      new DatabaseServer(engine, MakeDirectory(), /*borrowed=*/false));
  std::string arguments = settings.tls ? " --tls" : "";
  for (const std::string& variable : settings.variables) {
    absl::StrAppend(&arguments, " --set ", variable);
  }
  if (absl::Status status = server->Launch(arguments); !status.ok()) Fail(status.message());
  return server;
}

DatabaseServer& DatabaseServer::Shared(DatabaseEngine engine) {
  static DatabaseServer* const server = [engine]() -> DatabaseServer* {
    const char* running = getenv("ONCE_TEST_MYSQL_ENGINE");
    if (running != nullptr && running == ToString(engine)) {
      static DatabaseServer borrowed(engine, getenv("ONCE_TEST_MYSQL_DIR"), /*borrowed=*/true);
      borrowed.ReadEnvironmentFile();
      return &borrowed;
    }
    auto started = Start(engine, {.tls = true, .variables = {}});
    if (!started.ok()) {
      std::cout << "SKIPPED: " << started.status().message() << std::endl;
      std::exit(kSkipped);
    }
    static std::unique_ptr<DatabaseServer> own = *std::move(started);
    return own.get();
  }();
  return *server;
}

DatabaseServer::~DatabaseServer() {
  if (borrowed_) return;
  Stop();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

absl::Status DatabaseServer::Launch(const std::string& arguments) {
  const Output output =
      RunCommand(absl::StrCat(Launcher(engine_), " start ", directory_, arguments));
  if (output.status != 0) return absl::InternalError(output.text);
  ReadEnvironmentFile();
  return absl::OkStatus();
}

void DatabaseServer::ReadEnvironmentFile() {
  std::ifstream file(absl::StrCat(directory_, "/env"));
  for (std::string line; std::getline(file, line);) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos) values_[line.substr(0, equals)] = line.substr(equals + 1);
  }
  if (values_.empty()) Fail("the launcher left no env file");
}

void DatabaseServer::Stop() { RunCommand(absl::StrCat(Launcher(engine_), " stop ", directory_)); }

void DatabaseServer::Kill() { RunCommand(absl::StrCat(Launcher(engine_), " kill ", directory_)); }

void DatabaseServer::Resume() {
  if (absl::Status status = Launch(""); !status.ok()) Fail(status.message());
}

std::string DatabaseServer::Value(const std::string& name) const {
  const auto it = values_.find(name);
  if (it == values_.end()) Fail(absl::StrCat("the launcher gave no ", name));
  return it->second;
}

store::HostPort DatabaseServer::address() const {
  uint32_t port = 0;
  if (!absl::SimpleAtoi(Value("ONCE_TEST_MYSQL_PORT"), &port)) Fail("the port is no number");
  return {.host = Value("ONCE_TEST_MYSQL_HOST"), .port = static_cast<uint16_t>(port)};
}

std::string DatabaseServer::password() const {
  return std::string(absl::StripAsciiWhitespace(ReadFile(Value("ONCE_TEST_MYSQL_PASSWORD_FILE"))));
}

store::MysqlOptions DatabaseServer::Options(const std::string& database) const {
  store::MysqlOptions options;
  options.hosts = {address()};
  options.user = Value("ONCE_TEST_MYSQL_USER");
  options.password = base::Secret(password());
  options.database = database;
  return options;
}

store::MysqlOptions DatabaseServer::AdminOptions(const std::string& database) const {
  store::MysqlOptions options = Options(database);
  options.user = Value("ONCE_TEST_MYSQL_ADMIN_USER");
  options.read_timeout = absl::Minutes(1);
  return options;
}

TestDatabase::TestDatabase(DatabaseServer& server) : server_(server), name_(UniqueName()) {
  ConnectOrFail(server_.AdminOptions(""))
      ->Execute(absl::StrCat("CREATE DATABASE ", name_))
      .status()
      .IgnoreError();
  admin_ = ConnectOrFail(server_.AdminOptions(name_));
}

TestDatabase::~TestDatabase() {
  // The server may be down, or the connection killed, by the test's own doing.
  auto connection = store::mysql::Connection::Open(server_.AdminOptions(""), server_.address());
  if (connection.ok()) {
    (*connection)->Execute(absl::StrCat("DROP DATABASE IF EXISTS ", name_)).status().IgnoreError();
  }
}

std::unique_ptr<store::Store> TestDatabase::OpenMigrated() const {
  std::unique_ptr<store::Store> store = store::OpenMysqlStore(options());
  if (auto applied = store->Migrate(); !applied.ok()) Fail(applied.status().ToString());
  return store;
}

absl::StatusOr<std::vector<SqlRow>> RunSql(store::mysql::Connection& connection,
                                           const std::string& statement) {
  const std::string word = absl::AsciiStrToUpper(statement.substr(0, statement.find(' ')));
  std::vector<SqlRow> rows;
  if (word != "SELECT" && word != "SHOW") {
    if (auto affected = connection.Execute(statement); !affected.ok()) return affected.status();
    return rows;
  }
  absl::Status status = connection.Query(statement, [&](store::mysql::RowReader& reader) {
    SqlRow& row = rows.emplace_back();
    for (uint32_t i = 0; i < reader.columns(); ++i) row.push_back(reader.OptionalBytes());
  });
  if (!status.ok()) return status;
  return rows;
}

absl::StatusOr<std::vector<SqlRow>> TestDatabase::Sql(const std::string& statement) {
  if (!admin_->usable()) admin_ = ConnectOrFail(server_.AdminOptions(name_));
  return RunSql(*admin_, statement);
}

std::string TestDatabase::Must(const std::string& statement) {
  auto rows = Sql(statement);
  if (!rows.ok()) Fail(absl::StrCat(statement, ": ", rows.status().ToString()));
  return rows->empty() ? "" : rows->front().front().value_or("");
}

std::unique_ptr<store::mysql::Connection> TestDatabase::Connect() const {
  return ConnectOrFail(server_.AdminOptions(name_));
}

void TestDatabase::WaitUntil(const std::string& sql) {
  for (int i = 0; i < 3000; ++i) {
    if (Must(sql) != "0") return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  Fail(absl::StrCat("in half a minute never true: ", sql));
}

}  // namespace once::testing
