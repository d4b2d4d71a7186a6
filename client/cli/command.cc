#include "command.h"

#include <vector>

#include "absl/strings/str_split.h"
#include "input.h"

namespace once::cli {
void AddCommonFlags(CLI::App& app, CommonFlags& flags) {
  app.add_option("--server", flags.server, "host:port; several with commas, used in turn")
      ->envname("ONCE_SERVER")
      ->capture_default_str();
  app.add_option("--token-file", flags.token_file, "file with the credential's token")
      ->envname("ONCE_TOKEN_FILE");
  app.add_flag("--tls", flags.tls, "use TLS; the default unless all servers are on this machine");
  app.add_flag("--plaintext", flags.plaintext, "send credential and contents unencrypted");
  app.add_option("--tls-ca", flags.tls_ca, "PEM file of the authorities to trust; implies --tls")
      ->envname("ONCE_TLS_CA");
  app.add_option("--tls-cert", flags.tls_certificate, "PEM file of the client certificate");
  app.add_option("--tls-key", flags.tls_key, "PEM file of its key");
  app.add_option("--tls-server-name", flags.tls_server_name,
                 "name expected in the server's certificate");
  app.add_option("--timeout", flags.timeout, "how long to try, with all retries")
      ->capture_default_str();
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() == 1)
      option->take_last();  // a script's default, overridden
  }
  app.add_flag("--json", flags.json, "print one line of JSON");
}

absl::StatusOr<ConnectionOptions> ToConnectionOptions(const CommonFlags& flags) {
  ConnectionOptions options;
  options.endpoints = absl::StrSplit(flags.server, ',');
  options.token_file = flags.token_file;
  options.tls = {flags.tls_ca, flags.tls_certificate, flags.tls_key, flags.tls_server_name};
  const bool any_tls = flags.tls || !flags.tls_ca.empty() || !flags.tls_certificate.empty() ||
                       !flags.tls_key.empty() || !flags.tls_server_name.empty();
  if (any_tls && flags.plaintext) {
    return absl::InvalidArgumentError("--plaintext and a --tls flag contradict each other");
  }
  bool all_loopback = true;
  for (const std::string& endpoint : options.endpoints) {
    all_loopback = all_loopback && IsLoopbackEndpoint(endpoint);
  }
  if (flags.plaintext) {
    options.transport = Transport::kPlaintext;
  } else if (!any_tls && all_loopback) {
    options.transport = Transport::kPlaintextLoopback;
  }
  auto timeout = ParseDuration(flags.timeout);
  if (!timeout.ok()) return timeout.status();
  options.retry.max_elapsed = *timeout;
  return options;
}

ExitCode Session::Fail(const absl::Status& status) const {
  if (flags.json) {
    world.out << JsonText(ErrorToJson(status)) << std::flush;
    return ExitCodeFor(status);
  }
  world.err << "oncectl: " << ErrorText(status) << std::flush;
  return ExitCodeFor(status);
}

void Session::Print(const Json& json) const {
  world.out << (flags.json ? JsonText(json) : HumanText(json)) << std::flush;
}

}  // namespace once::cli
