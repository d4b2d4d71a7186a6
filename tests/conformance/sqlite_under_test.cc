// The suite on SQLite: a file in a temporary folder.
#include <sqlite3.h>
#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "conformance/store_fixture.h"
#include "store/sqlite/sqlite_store.h"

namespace once::conformance {
namespace {

std::string MakeFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "once-conformance-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    std::perror(name.c_str());
    std::abort();
  }
  return name;
}

class SqliteUnderTest final : public StoreUnderTest {
 public:
  SqliteUnderTest() : folder_(MakeFolder()), path_(folder_ + "/once.db") {}

  ~SqliteUnderTest() override {
    sqlite3_close(database_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::unique_ptr<store::Store> Open() override {
    auto store = store::OpenSqliteStore({.path = path_, .clock = &clock_});
    if (!store.ok()) {
      std::cerr << store.status() << std::endl;
      std::abort();
    }
    return *std::move(store);
  }

  bool several_servers() const override { return false; }

  absl::StatusOr<std::vector<SqlRow>> Sql(const std::string& statement) override {
    if (database_ == nullptr) {
      sqlite3_open_v2(path_.c_str(), &database_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                      nullptr);
      sqlite3_busy_timeout(database_, 10'000);
    }
    sqlite3_stmt* prepared = nullptr;
    if (sqlite3_prepare_v2(database_, statement.c_str(), -1, &prepared, nullptr) != SQLITE_OK) {
      return Failed();
    }
    std::vector<SqlRow> rows;
    int code = SQLITE_ROW;
    while ((code = sqlite3_step(prepared)) == SQLITE_ROW) {
      rows.push_back(ReadRow(prepared));
    }
    absl::Status status = code == SQLITE_DONE ? absl::OkStatus() : Failed();
    sqlite3_finalize(prepared);
    if (!status.ok()) return status;
    return rows;
  }

 private:
  absl::Status Failed() const { return absl::InvalidArgumentError(sqlite3_errmsg(database_)); }

  static SqlRow ReadRow(sqlite3_stmt* row) {
    SqlRow values;
    for (int column = 0; column < sqlite3_column_count(row); ++column) {
      if (sqlite3_column_type(row, column) == SQLITE_NULL) {
        values.emplace_back(std::nullopt);
        continue;
      }
      const auto* data = static_cast<const char*>(sqlite3_column_blob(row, column));
      const auto size = static_cast<size_t>(sqlite3_column_bytes(row, column));
      values.emplace_back(data == nullptr ? std::string() : std::string(data, size));
    }
    return values;
  }

  const std::string folder_;
  const std::string path_;
  const base::RealClock clock_;
  sqlite3* database_ = nullptr;
};

}  // namespace

std::unique_ptr<StoreUnderTest> MakeStoreUnderTest() { return std::make_unique<SqliteUnderTest>(); }

}  // namespace once::conformance
