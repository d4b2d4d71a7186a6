// A ledger of points in a database of its own, with a fence table: one row per operation, written
// in the transaction that books the points.
//
// Once alone cannot make an effect in another database happen exactly once: the process may die
// between its own commit and telling Once. The fence table closes the gap. Its unique key admits
// one effect per operation, whoever books it, early or late; and whoever claims the operation after
// a crash finds there what was done.
//
// One thread at a time per object; several processes may share the database file.
#ifndef ONCE_EXAMPLES_LEDGER_H_
#define ONCE_EXAMPLES_LEDGER_H_

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "once/types.h"

class Ledger {
 public:
  // Makes the tables where they are missing. Blocks on the file.
  static absl::StatusOr<std::unique_ptr<Ledger>> Open(const std::string& file);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // What the effect of `operation` answered, if it happened.
  absl::StatusOr<std::optional<std::string>> FindEffect(const once::OperationId& operation);

  // Adds `points` to `account` and remembers the effect, in one transaction. Returns the new
  // balance as text: the result to give to Once. ALREADY_EXISTS: the effect of this operation
  // happened before, under this or another claim; nothing was written.
  absl::StatusOr<std::string> Book(const once::OperationId& operation, once::Fence fence,
                                   const std::string& account, int64_t points);

 private:
  explicit Ledger(sqlite3* database) : database_(database) {}

  absl::Status Execute(const char* sql);
  absl::Status InsertEffect(const once::OperationId& operation, once::Fence fence);
  absl::StatusOr<std::string> AddPoints(const std::string& account, int64_t points);
  absl::Status SetResult(const once::OperationId& operation, const std::string& result);
  absl::Status Error(const char* what) const;

  sqlite3* const database_;
};

#endif  // ONCE_EXAMPLES_LEDGER_H_
