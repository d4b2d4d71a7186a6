#include "app/commands.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "app/dev.h"
#include "app/files.h"
#include "app/http_server.h"
#include "app/server.h"
#include "app/store_factory.h"
#include "app/values.h"
#include "auth/credential.h"
#include "base/clock.h"

namespace once::app {
namespace {

// Beyond the grace time, for what cannot be cut off (a statement that the database does not
// answer).
constexpr absl::Duration kShutdownSlack = absl::Seconds(5);
constexpr absl::Duration kHealthTimeout = absl::Seconds(2);

int Fail(Log& log, const absl::Status& status) {
  log.Error("failed", {{"error", std::string(status.message())}});
  return kExitFailed;
}

// A connection is a file, and the usual soft limit of 1024 would be the first one that callers
// meet.
void RaiseFileLimit(Log& log) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 1 << 20);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) log.Warn("the limit of open files cannot be raised");
}

// Runs until a signal comes. `started` is called once calls are answered.
int RunUntilSignal(const Settings& settings, std::unique_ptr<store::Store> store,
                   ShutdownSignals& signals, Log& log,
                   const std::function<void(const Server&)>& started) {
  RaiseFileLimit(log);
  Server server(settings, std::move(store), &log);
  const absl::Status status = server.Start(signals);
  if (absl::IsCancelled(status)) return kExitOk;  // asked to end before it could begin
  if (!status.ok()) return Fail(log, status);
  started(server);

  while (!signals.WaitFor(absl::Hours(24))) {
  }
  const absl::Time deadline = absl::Now() + settings.shutdown_grace;
  signals.EndAt(deadline + kShutdownSlack, kExitFailed, [] {
    constexpr absl::string_view kText = "onced: the shutdown did not end in time\n";
    [[maybe_unused]] const ssize_t size = write(STDERR_FILENO, kText.data(), kText.size());
  });
  if (server.Shutdown(deadline)) return kExitOk;
  log.Error("the grace time ran out; calls were cut off");
  return kExitFailed;
}

// Opens the store of `migrate` and `bootstrap` and brings it into the state that they need.
absl::StatusOr<std::unique_ptr<store::Store>> OpenPrepared(const Settings& settings,
                                                           StorePreparation preparation,
                                                           const base::Clock* clock,
                                                           const ShutdownSignals& signals,
                                                           Log& log) {
  absl::StatusOr<std::unique_ptr<store::Store>> store = OpenStore(settings.store, 1, clock);
  if (!store.ok()) return store.status();
  preparation.timeout = settings.startup_timeout;
  if (absl::Status prepared = PrepareStore(preparation, **store, signals, log); !prepared.ok()) {
    return prepared;
  }
  return store;
}

absl::Status InsertAdmin(store::Store& store, const auth::NewCredential& credential) {
  absl::StatusOr<std::unique_ptr<store::ControlSession>> session = store.OpenControlSession();
  if (!session.ok()) return session.status();
  store::CredentialRow row;
  row.credential_id = credential.credential_id;
  row.role = store::Role::kAdmin;
  row.secret_sha256 = credential.secret_sha256;
  row.description = "first admin, made by onced bootstrap";
  const absl::StatusOr<store::CredentialRow> made =
      (*session)->BootstrapAdmin(row, {.credential_id = {}, .reason = "onced bootstrap"});
  if (absl::IsAlreadyExists(made.status())) {
    return absl::AlreadyExistsError(
        "refused: an active admin credential exists. Use it, or revoke it, to get another one");
  }
  return made.status();
}

}  // namespace

int RunServe(const Settings& settings, ShutdownSignals& signals, Log& log) {
  static const base::RealClock clock;
  absl::StatusOr<std::unique_ptr<store::Store>> store =
      OpenStore(settings.store, settings.pipeline.committers, &clock);
  if (!store.ok()) return Fail(log, store.status());
  return RunUntilSignal(settings, *std::move(store), signals, log, [](const Server&) {});
}

int RunDev(const Settings& settings, ShutdownSignals& signals, Log& log) {
  static const base::RealClock clock;
  absl::StatusOr<DevStore> dev = OpenDevStore(settings.data_dir, &clock);
  if (!dev.ok()) return Fail(log, dev.status());
  Settings with_reflection = settings;
  with_reflection.rpc.reflection = true;
  return RunUntilSignal(
      with_reflection, std::move(dev->store), signals, log, [&dev](const Server& server) {
        std::cout << DevInstructions(*dev, server.grpc_addresses().front(), server.http_address())
                  << std::flush;
      });
}

int RunMigrate(const Settings& settings, ShutdownSignals& signals, Log& log) {
  const base::RealClock clock;
  const auto store = OpenPrepared(
      settings, {.migrate = true, .check = false, .max_result_bytes = 0, .timeout = {}}, &clock,
      signals, log);
  if (!store.ok()) return Fail(log, store.status());
  log.Info("the schema is up to date");
  return kExitOk;
}

int RunBootstrap(const Settings& settings, ShutdownSignals& signals, Log& log) {
  const base::RealClock clock;
  const auto store = OpenPrepared(
      settings, {.migrate = false, .check = true, .max_result_bytes = 0, .timeout = {}}, &clock,
      signals, log);
  if (!store.ok()) return Fail(log, store.status());

  const auth::NewCredential credential = auth::MakeCredential();
  // The file first: a token that was stored but could not be written would be lost.
  if (!settings.output.empty()) {
    const absl::Status written = WriteNewSecretFile(settings.output, credential.token);
    if (!written.ok()) {
      return Fail(log, absl::Status(written.code(), absl::StrCat("--output=", settings.output, ": ",
                                                                 written.message())));
    }
  }
  const absl::Status inserted = InsertAdmin(**store, credential);
  if (!inserted.ok()) {
    if (!settings.output.empty()) unlink(settings.output.c_str());
    return Fail(log, inserted);
  }
  if (settings.output.empty()) std::cout << credential.token.Reveal() << std::endl;
  log.Info("admin credential made", {{"credential", credential.credential_id}});
  return kExitOk;
}

int RunHealth(const Settings& settings) {
  HostPort address = *ParseHostPort(settings.http_listen);
  // A server that listens everywhere also does here.
  if (address.host == "0.0.0.0") address.host = "127.0.0.1";
  if (address.host == "::") address.host = "::1";
  const absl::StatusOr<HttpReply> reply = HttpGet(address, "/readyz", kHealthTimeout);
  if (!reply.ok()) {
    std::cerr << "onced health: " << reply.status().message() << "\n";
    return kExitFailed;
  }
  std::cout << reply->body;
  return reply->status == 200 ? kExitOk : kExitFailed;
}

}  // namespace once::app
