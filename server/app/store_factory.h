// From settings to a store that is fit for use.
#ifndef ONCE_APP_STORE_FACTORY_H_
#define ONCE_APP_STORE_FACTORY_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "app/logging.h"
#include "app/settings.h"
#include "app/signals.h"
#include "base/clock.h"
#include "store/store.h"

namespace once::app {

// Reads the password file. MySQL: opens no connection; SQLite: takes the file. `committers`: write
// sessions that will be asked for. `clock` must outlive the store. Blocks on files.
absl::StatusOr<std::unique_ptr<store::Store>> OpenStore(const StoreSettings& settings,
                                                        int committers, const base::Clock* clock);

// Runs `attempt` until it says something else than that the database cannot be reached, and logs
// the waiting. Its last status; UNAVAILABLE after `timeout`, CANCELLED after a signal. Blocks.
absl::Status WaitForDatabase(absl::FunctionRef<absl::Status()> attempt, absl::Duration timeout,
                             const ShutdownSignals& signals, Log& log);

struct StorePreparation {
  bool migrate = false;
  bool check = true;
  size_t max_result_bytes = 0;
  // How long a database that cannot be reached is tried again.
  absl::Duration timeout;
};

// Migrates and checks; logs warnings and waiting. FAILED_PRECONDITION where the database cannot
// give what is needed, UNAVAILABLE where it could not be reached in time, CANCELLED after a signal.
// Blocks.
absl::Status PrepareStore(const StorePreparation& preparation, store::Store& store,
                          const ShutdownSignals& signals, Log& log);

}  // namespace once::app

#endif  // ONCE_APP_STORE_FACTORY_H_
