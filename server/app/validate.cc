#include "app/validate.h"

#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "app/values.h"
#include "core/limits.h"
#include "store/mysql/mysql_store.h"

namespace once::app {
namespace {

using Problems = std::vector<std::string>;

// What a message holds beside content and result.
constexpr size_t kMessageSlackBytes = size_t{64} << 10;

void CheckFile(absl::string_view flag, const std::string& path, Problems* problems) {
  if (path.empty() || absl::StartsWith(path, "fd:")) return;
  if (access(path.c_str(), R_OK) != 0) {
    problems->push_back(absl::StrCat("--", flag, "=", path, ": the file cannot be read"));
  }
}

// `low` <= `high`, both named with their values.
template <typename T, typename Format>
void CheckOrder(absl::string_view low_flag, T low, absl::string_view high_flag, T high,
                Format format, Problems* problems) {
  if (low <= high) return;
  problems->push_back(absl::StrCat("--", low_flag, "=", format(low), ": must not be above --",
                                   high_flag, "=", format(high)));
}

void CheckStore(const Settings& settings, Problems* problems) {
  const StoreSettings& store = settings.store;
  if (store.mysql_uri.empty() && store.store.empty()) {
    problems->push_back("one of --mysql-uri and --store=sqlite:PATH is needed");
  }
  if (!store.mysql_uri.empty() && !store.store.empty()) {
    problems->push_back("--mysql-uri and --store exclude each other");
  }
  if (!store.store.empty()) {
    absl::string_view path = store.store;
    if (!absl::ConsumePrefix(&path, "sqlite:") || path.empty()) {
      problems->push_back(absl::StrCat("--store=", store.store, ": must be sqlite:PATH"));
    }
  }
  if (!store.mysql_password_file.empty() && store.mysql_uri.empty()) {
    problems->push_back("--mysql-password-file goes with --mysql-uri only");
  }
  CheckOrder("lock-wait-timeout", store.lock_wait_timeout, "mysql-io-timeout", store.io_timeout,
             DurationText, problems);
  if (!store.mysql_uri.empty()) {
    if (const auto parsed = store::ParseMysqlUri(store.mysql_uri); !parsed.ok()) {
      problems->push_back(absl::StrCat("--mysql-uri=***: ", parsed.status().message()));
    }
  }
  CheckFile("mysql-password-file", store.mysql_password_file, problems);
}

void CheckTls(const Settings& settings, Problems* problems) {
  const rpc::TlsOptions& tls = settings.tls;
  if (tls.certificate_file.empty() != tls.key_file.empty()) {
    problems->push_back("--tls-cert and --tls-key go together; one of them is missing");
  }
  if (tls.certificate_file.empty() && !tls.client_ca_file.empty()) {
    problems->push_back("--tls-client-ca needs --tls-cert and --tls-key");
  }
  if (tls.client_ca_file.empty() != (tls.client_certificates == rpc::ClientCertificates::kNone)) {
    problems->push_back(
        "--tls-client-ca and --tls-client-auth=request|require go together; one of them is "
        "missing");
  }
  if (settings.insecure_plaintext && !tls.certificate_file.empty()) {
    problems->push_back("--insecure-plaintext and --tls-cert exclude each other");
  }
  CheckFile("tls-cert", tls.certificate_file, problems);
  CheckFile("tls-key", tls.key_file, problems);
  CheckFile("tls-client-ca", tls.client_ca_file, problems);
}

void CheckListen(Command command, const Settings& settings, Problems* problems) {
  constexpr absl::string_view kForm = "must be HOST:PORT with a port of 0 to 65535, for example ";
  if (settings.rpc.listen_addresses.empty())
    problems->push_back("--listen: at least one address is needed");
  const bool plaintext = settings.tls.certificate_file.empty();
  for (const std::string& text : settings.rpc.listen_addresses) {
    if (absl::StartsWith(text, "unix:/")) continue;
    const std::optional<HostPort> address = ParseHostPort(text);
    if (!address.has_value()) {
      problems->push_back(absl::StrCat("--listen=", text, ": ", kForm, "127.0.0.1:7447"));
    } else if (IsLoopback(address->host)) {
      continue;
    } else if (command == Command::kDev) {
      problems->push_back(
          absl::StrCat("--listen=", text,
                       ": `onced dev` listens on loopback addresses only; use `onced serve`"));
    } else if (plaintext && !settings.insecure_plaintext) {
      problems->push_back(
          absl::StrCat("--listen=", text,
                       ": an address that is not loopback needs --tls-cert and --tls-key, or "
                       "--insecure-plaintext to send tokens in the clear"));
    }
  }
}

void CheckHttpListen(Command command, const Settings& settings, Problems* problems) {
  if (settings.http_listen.empty()) {
    if (command == Command::kHealth) {
      problems->push_back("--http-listen: `onced health` needs the address of the server");
    }
    return;
  }
  const std::optional<HostPort> address = ParseHostPort(settings.http_listen);
  if (!address.has_value()) {
    problems->push_back(absl::StrCat("--http-listen=", settings.http_listen,
                                     ": must be HOST:PORT with a port of 0 to 65535, for example "
                                     "127.0.0.1:7448, or empty"));
  } else if (command == Command::kDev && !IsLoopback(address->host)) {
    problems->push_back(
        absl::StrCat("--http-listen=", settings.http_listen,
                     ": `onced dev` listens on loopback addresses only; use `onced serve`"));
  }
}

void CheckMessageFits(absl::string_view flag, size_t bytes, size_t max_message,
                      Problems* problems) {
  if (bytes + kMessageSlackBytes <= max_message) return;
  problems->push_back(absl::StrCat("--", flag, "=", BytesText(static_cast<int64_t>(bytes)),
                                   ": must be at least 64KiB below --max-message-bytes=",
                                   BytesText(static_cast<int64_t>(max_message))));
}

void CheckLimits(const Settings& settings, Problems* problems) {
  const core::Limits& limits = settings.rpc.limits;
  const auto bytes = [](size_t value) { return BytesText(static_cast<int64_t>(value)); };
  const auto number = [](int value) { return absl::StrCat(value); };
  CheckOrder("min-lease", limits.min_lease, "default-lease", limits.default_lease, DurationText,
             problems);
  CheckOrder("default-lease", limits.default_lease, "max-lease", limits.max_lease, DurationText,
             problems);
  CheckOrder("default-page-size", limits.default_page_size, "max-page-size", limits.max_page_size,
             number, problems);
  // A connection that is too old waits that long for its calls.
  CheckOrder("max-wait", limits.max_wait, "max-connection-age-grace",
             settings.rpc.max_connection_age_grace, DurationText, problems);
  CheckMessageFits("max-content-bytes", limits.max_content_bytes, limits.max_message_bytes,
                   problems);
  CheckMessageFits("max-result-bytes", limits.max_result_bytes, limits.max_message_bytes, problems);
  CheckOrder("max-result-bytes", limits.max_result_bytes, "max-queue-bytes",
             settings.pipeline.max_queue_bytes, bytes, problems);
  CheckOrder("drain-delay", settings.drain_delay, "shutdown-grace", settings.shutdown_grace,
             DurationText, problems);
}

}  // namespace

std::vector<std::string> Validate(Command command, const Settings& settings) {
  Problems problems;
  switch (command) {
    case Command::kServe:
      CheckStore(settings, &problems);
      CheckTls(settings, &problems);
      break;
    case Command::kDev:
      if (settings.data_dir.empty()) problems.push_back("--data-dir: a folder is needed");
      break;
    case Command::kMigrate:
    case Command::kBootstrap:
      CheckStore(settings, &problems);
      return problems;
    case Command::kHealth:
      CheckHttpListen(command, settings, &problems);
      return problems;
  }
  CheckListen(command, settings, &problems);
  CheckHttpListen(command, settings, &problems);
  CheckLimits(settings, &problems);
  return problems;
}

}  // namespace once::app
