// The tables and how they came about: numbered steps. docs/reference/tables.md describes the
// result.
//
// A step that was released never changes; a change is a new step. Steps must be repeatable, since
// MySQL commits each statement of a definition by itself and a program may die between two of them.
#ifndef ONCE_STORE_MYSQL_SCHEMA_H_
#define ONCE_STORE_MYSQL_SCHEMA_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "store/mysql/connection.h"

namespace once::store::mysql {

struct SchemaStep {
  int version = 0;
  absl::string_view name;
  std::vector<absl::string_view> statements;
};

absl::Span<const SchemaStep> SchemaSteps();

// FAILED_PRECONDITION unless the database's schema is the one that this program knows. Autocommit
// must be on.
absl::Status CheckSchemaVersion(Connection& connection);

// Applies the missing steps under a lock of the database; waits for it up to a minute. Returns the
// names of those applied.
absl::StatusOr<std::vector<std::string>> ApplySchemaSteps(Connection& connection);

// A named lock of the server for this database, held until destruction or the end of the
// connection.
class DatabaseLock {
 public:
  // UNAVAILABLE where it is not to be had within a minute.
  static absl::StatusOr<DatabaseLock> Acquire(Connection& connection, absl::string_view purpose);
  DatabaseLock(DatabaseLock&& other) noexcept;
  DatabaseLock& operator=(DatabaseLock&&) = delete;
  ~DatabaseLock();

 private:
  DatabaseLock(Connection& connection, std::string name)
      : connection_(&connection), name_(std::move(name)) {}

  Connection* connection_;
  std::string name_;  // an SQL expression
};

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_SCHEMA_H_
