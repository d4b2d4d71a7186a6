// What the conformance suite needs of a database. One program per engine links the suite with one
// factory.
//
// An engine gives Open and Sql; the rest follows, as all engines have the same tables
// (docs/reference/tables.md).
#ifndef ONCE_TESTS_CONFORMANCE_STORE_FIXTURE_H_
#define ONCE_TESTS_CONFORMANCE_STORE_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/types.h"
#include "store/store.h"

namespace once::conformance {

// Numbers as decimal text, binary columns as their bytes, NULL unset.
using SqlRow = std::vector<std::optional<std::string>>;

// A row of the attempt log. `entry.key` is the one asked for.
struct LoggedAttempt {
  store::AttemptEntry entry;
  core::DbTime logged;
};

// One database of its own, empty when made, gone with the object. Used by one thread at a time; the
// stores that it opens are thread-safe.
class StoreUnderTest {
 public:
  virtual ~StoreUnderTest() = default;

  // Opens the database: a server that starts. Aborts the program where that fails. The store may
  // not outlive this object.
  virtual std::unique_ptr<store::Store> Open() = 0;
  // True where a second store may be open at the same time, like a second server.
  virtual bool several_servers() const = 0;

  // Runs one statement that all engines understand (binary values as x'…') on a connection of its
  // own and commits it. UNIMPLEMENTED where the engine has no SQL.
  virtual absl::StatusOr<std::vector<SqlRow>> Sql(const std::string& statement) = 0;

  // The attempt log of `key`, by entry id.
  virtual absl::StatusOr<std::vector<LoggedAttempt>> Attempts(const core::OperationKey& key);
  // Lets `by` pass for one operation: moves all its times into the past.
  virtual absl::Status MoveBack(const core::OperationKey& key, absl::Duration by);
  // Leaves of a completed operation only what retention leaves.
  virtual absl::Status MakeTombstone(const core::OperationKey& key);
};

// x'…'
std::string SqlBytes(absl::string_view bytes);
// tenant_id = … AND handler_id = … AND event_id = …
std::string SqlKey(const core::OperationKey& key);

// Of the engine that the program is for. The test program exits with status 77 and a line that says
// why where the engine cannot be had.
std::unique_ptr<StoreUnderTest> MakeStoreUnderTest();

}  // namespace once::conformance

#endif  // ONCE_TESTS_CONFORMANCE_STORE_FIXTURE_H_
