#include "store/sqlite/sqlite_store.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "store/sqlite/control_session.h"
#include "store/sqlite/file.h"
#include "store/sqlite/file_lock.h"
#include "store/sqlite/read_session.h"
#include "store/sqlite/schema.h"
#include "store/sqlite/write_session.h"

namespace once::store {
namespace {

using sqlite::Connection;
using sqlite::File;
using sqlite::FileLock;

// Room beside the largest result in a statement.
constexpr size_t kStatementRoom = size_t{64} << 10;

class SqliteStore final : public Store {
 public:
  SqliteStore(FileLock lock, std::string path, const SqliteOptions& options)
      : lock_(std::move(lock)),
        file_{.path = std::move(path),
              .busy_timeout = options.busy_timeout,
              .clock = sqlite::DatabaseClock(options.clock),
              .turn = {}} {}

  absl::StatusOr<std::unique_ptr<WriteSession>> OpenWriteSession() override {
    return sqlite::OpenWriteSession(&file_);
  }
  absl::StatusOr<std::unique_ptr<ReadSession>> OpenReadSession() override {
    return sqlite::OpenReadSession(&file_);
  }
  absl::StatusOr<std::unique_ptr<ControlSession>> OpenControlSession() override {
    return sqlite::OpenControlSession(&file_);
  }

  absl::StatusOr<std::vector<std::string>> Migrate() override {
    absl::StatusOr<Connection> connection = Connection::Open(file_.path, file_.busy_timeout);
    if (!connection.ok()) return connection.status();
    if (absl::Status status = file_.turn.Take(file_.busy_timeout); !status.ok()) return status;
    absl::StatusOr<std::vector<std::string>> steps =
        sqlite::MigrateSchema(*connection, file_.clock.Now());
    file_.turn.Give();
    return steps;
  }

  absl::StatusOr<std::vector<std::string>> Check(size_t max_result_bytes) override {
    absl::StatusOr<Connection> connection = sqlite::Connect(file_);
    if (!connection.ok()) return connection.status();
    const auto limit =
        static_cast<size_t>(sqlite3_limit(connection->handle(), SQLITE_LIMIT_LENGTH, -1));
    if (max_result_bytes + kStatementRoom > limit) {
      return absl::FailedPreconditionError(absl::StrCat("sqlite: results of ", max_result_bytes,
                                                        " bytes do not fit; a row of this",
                                                        " SQLite holds ", limit, " bytes"));
    }
    return Warnings();
  }

  int max_write_sessions() const override { return 1; }
  absl::string_view engine() const override { return "sqlite"; }

 private:
  std::vector<std::string> Warnings() const {
    std::vector<std::string> warnings;
    struct stat status {};
    if (stat(file_.path.c_str(), &status) == 0 && (status.st_mode & 0077) != 0) {
      warnings.push_back(
          absl::StrCat("sqlite: ", file_.path, " can be read or written by others than its owner"));
    }
    struct statfs system {};
    if (statfs(file_.path.c_str(), &system) == 0 &&
        (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC)) {
      warnings.push_back(absl::StrCat(
          "sqlite: ", file_.path, " lies in memory: nothing survives a restart of the machine"));
    }
    return warnings;
  }

  const FileLock lock_;
  File file_;
};

absl::Status CheckOptions(const SqliteOptions& options) {
  if (options.clock == nullptr) {
    return absl::InvalidArgumentError("sqlite: a clock is required");
  }
  if (options.path.empty() || options.path == ":memory:" ||
      absl::StartsWith(options.path, "file:") || absl::EndsWith(options.path, "/") ||
      absl::StrContains(options.path, '\0')) {
    return absl::InvalidArgumentError(
        absl::StrCat("sqlite: \"", options.path, "\" names no file; a path is expected"));
  }
  return absl::OkStatus();
}

absl::Status CannotOpen(const std::string& path, int error) {
  const std::string message =
      absl::StrCat("sqlite: cannot open ", path, ": ", std::generic_category().message(error));
  if (error == ENOENT || error == ENOTDIR) {
    return absl::InvalidArgumentError(
        absl::StrCat(message, "; the folder of the file has to exist"));
  }
  return error == EISDIR ? absl::InvalidArgumentError(message) : absl::UnavailableError(message);
}

// The file's name without links, so that there is one lock for it. The file need not exist.
absl::StatusOr<std::string> ResolvePath(const std::string& path) {
  std::array<char, PATH_MAX> resolved{};
  if (realpath(path.c_str(), resolved.data()) != nullptr) {
    return std::string(resolved.data());
  }
  if (errno != ENOENT) return CannotOpen(path, errno);
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (realpath(folder.c_str(), resolved.data()) == nullptr) return CannotOpen(path, errno);
  return absl::StrCat(resolved.data(), "/",
                      slash == std::string::npos ? path : path.substr(slash + 1));
}

// Makes the file where there is none, so that nobody else can read it from the start. Only with the
// lock held: closing a descriptor of a file drops all locks that SQLite has on it in this process.
absl::Status MakeFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return CannotOpen(path, errno);
  close(descriptor);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const SqliteOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  absl::StatusOr<std::string> path = ResolvePath(options.path);
  if (!path.ok()) return path.status();
  absl::StatusOr<FileLock> lock = FileLock::Take(*path);
  if (!lock.ok()) return lock.status();
  if (absl::Status status = MakeFile(*path); !status.ok()) return status;
  // Finds out now if it is a database at all.
  if (auto connection = Connection::Open(*path, options.busy_timeout); !connection.ok()) {
    return connection.status();
  }
  return std::make_unique<SqliteStore>(*std::move(lock), *std::move(path), options);
}

}  // namespace once::store
