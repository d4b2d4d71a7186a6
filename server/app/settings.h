// What one run of onced was asked to do: every flag, parsed and checked.
//
// A plain value. Made once by settings_loader.h, then only read; nothing else in the program looks
// at flags, the environment or flag files. The defaults here are the documented ones
// (docs/reference/flags.md is made from them).
#ifndef ONCE_APP_SETTINGS_H_
#define ONCE_APP_SETTINGS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "auth/authenticator.h"
#include "pipeline/pipeline.h"
#include "policy/policy_cache.h"
#include "rpc/server.h"

namespace once::app {

enum class Command : uint8_t { kServe, kDev, kMigrate, kBootstrap, kHealth };

// Where the data lies: either `mysql_uri` or `store`.
struct StoreSettings {
  std::string mysql_uri;            // without a password
  std::string mysql_password_file;  // a path, or "fd:NUMBER"
  std::string store;                // "sqlite:PATH"

  absl::Duration connect_timeout = absl::Seconds(3);
  absl::Duration io_timeout = absl::Seconds(15);
  absl::Duration lock_wait_timeout = absl::Seconds(5);
};

enum class LogFormat : uint8_t { kText, kJson };
enum class LogLevel : uint8_t { kDebug, kInfo, kWarn, kError };
// Which calls leave a record.
enum class LogCalls : uint8_t { kAll, kProblems, kNone };

struct LogSettings {
  LogFormat format = LogFormat::kText;
  LogLevel level = LogLevel::kInfo;
  // Records that wait for the writing thread. Beyond, the oldest is dropped and counted.
  int queue_records = 8192;
  LogCalls calls = LogCalls::kAll;
};

struct Settings {
  StoreSettings store;
  bool migrate = false;
  absl::Duration startup_timeout = absl::Seconds(60);

  // Listen addresses, transport bounds, limits. `rpc.tls` is filled in from
  // `tls` where that names a certificate.
  rpc::ServerOptions rpc = DefaultRpcOptions();
  rpc::TlsOptions tls;
  bool insecure_plaintext = false;
  std::string http_listen = "127.0.0.1:7448";  // empty: no HTTP
  std::string ports_file;

  pipeline::Options pipeline = DefaultPipelineOptions();
  auth::AuthenticatorOptions auth;
  policy::PolicyCacheOptions policies;

  absl::Duration shutdown_grace = absl::Seconds(25);
  absl::Duration drain_delay = absl::ZeroDuration();

  LogSettings log;
  int metrics_max_tenants = 100;

  std::string data_dir = ".once";  // dev
  std::string output;              // bootstrap

 private:
  static rpc::ServerOptions DefaultRpcOptions() {
    rpc::ServerOptions options;
    options.listen_addresses = {"127.0.0.1:7447"};
    return options;
  }
  static pipeline::Options DefaultPipelineOptions() {
    pipeline::Options options;
    options.claim_cache_bytes = size_t{16} << 20;
    options.receipt_cache_bytes = size_t{64} << 20;
    return options;
  }
};

}  // namespace once::app

#endif  // ONCE_APP_SETTINGS_H_
