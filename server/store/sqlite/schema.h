// The tables, as numbered steps. The same tables and columns as store/mysql has
// (docs/reference/tables.md), and one of its own.
#ifndef ONCE_STORE_SQLITE_SCHEMA_H_
#define ONCE_STORE_SQLITE_SCHEMA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/types.h"
#include "store/sqlite/connection.h"

namespace once::store::sqlite {

// The newest step that this program knows.
int64_t NewestSchemaVersion();

// Applies the missing steps in one transaction; returns their names. FAILED_PRECONDITION on a newer
// schema. The caller has the writers' turn.
absl::StatusOr<std::vector<std::string>> MigrateSchema(Connection& connection, core::DbTime now);

// OK where the schema is the one that this program knows; else FAILED_PRECONDITION that says what
// to do.
absl::Status CheckSchema(Connection& connection);

}  // namespace once::store::sqlite

#endif  // ONCE_STORE_SQLITE_SCHEMA_H_
