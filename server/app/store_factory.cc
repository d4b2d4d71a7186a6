#include "app/store_factory.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "app/files.h"
#include "app/values.h"
#include "pipeline/pipeline.h"
#include "store/mysql/mysql_store.h"
#include "store/sqlite/sqlite_store.h"

namespace once::app {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(2);

absl::StatusOr<std::unique_ptr<store::Store>> OpenMysql(const StoreSettings& settings,
                                                        int committers, const base::Clock* clock) {
  absl::StatusOr<store::MysqlOptions> options = store::ParseMysqlUri(settings.mysql_uri);
  if (!options.ok()) return options.status();
  if (!settings.mysql_password_file.empty()) {
    absl::StatusOr<base::Secret> password = ReadSecret(settings.mysql_password_file);
    if (!password.ok()) {
      return absl::Status(password.status().code(),
                          absl::StrCat("--mysql-password-file=", settings.mysql_password_file, ": ",
                                       password.status().message()));
    }
    options->password = *std::move(password);
  }
  options->connect_timeout = settings.connect_timeout;
  options->read_timeout = settings.io_timeout;
  options->write_timeout = settings.io_timeout;
  options->lock_wait_timeout = settings.lock_wait_timeout;
  options->max_write_sessions = committers * pipeline::kSessionsPerCommitter;
  options->clock = clock;
  return store::OpenMysqlStore(*std::move(options));
}

absl::Status MigrateAndCheck(const StorePreparation& preparation, store::Store& store, Log& log) {
  if (preparation.migrate) {
    const absl::StatusOr<std::vector<std::string>> steps = store.Migrate();
    if (!steps.ok()) return steps.status();
    for (const std::string& step : *steps) log.Info("schema step applied", {{"step", step}});
  }
  if (!preparation.check) return absl::OkStatus();
  const absl::StatusOr<std::vector<std::string>> warnings =
      store.Check(preparation.max_result_bytes);
  if (!warnings.ok()) return warnings.status();
  for (const std::string& warning : *warnings)
    log.Warn("WARNING about the database", {{"warning", warning}});
  return absl::OkStatus();
}

bool WorthWaiting(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) || absl::IsUnknown(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<store::Store>> OpenStore(const StoreSettings& settings,
                                                        int committers, const base::Clock* clock) {
  if (!settings.mysql_uri.empty()) return OpenMysql(settings, committers, clock);
  store::SqliteOptions options;
  options.path = std::string(absl::StripPrefix(settings.store, "sqlite:"));
  options.clock = clock;
  options.busy_timeout = settings.lock_wait_timeout;
  return store::OpenSqliteStore(options);
}

absl::Status WaitForDatabase(absl::FunctionRef<absl::Status()> attempt, absl::Duration timeout,
                             const ShutdownSignals& signals, Log& log) {
  const absl::Time start = absl::Now();
  absl::Duration pause = kFirstPause;
  while (true) {
    absl::Status status = attempt();
    if (!WorthWaiting(status)) return status;
    const absl::Duration left = start + timeout - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::UnavailableError(absl::StrCat(
          "the database could not be used within --startup-timeout=", DurationText(timeout), ": ",
          status.message()));
    }
    log.Warn("waiting for the database", {{"error", std::string(status.message())},
                                          {"seconds_left", absl::ToDoubleSeconds(left)}});
    if (signals.WaitFor(std::min(pause, left))) {
      return absl::CancelledError("a signal came while the database could not be used");
    }
    pause = std::min(2 * pause, kLongestPause);
  }
}

absl::Status PrepareStore(const StorePreparation& preparation, store::Store& store,
                          const ShutdownSignals& signals, Log& log) {
  return WaitForDatabase([&] { return MigrateAndCheck(preparation, store, log); },
                         preparation.timeout, signals, log);
}

}  // namespace once::app
