// What the commands of oncectl share: the options that all have, and how they end.
#ifndef ONCE_CLIENT_CLI_COMMAND_H_
#define ONCE_CLIENT_CLI_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "once/options.h"
#include "oncectl.h"
#include "render.h"

namespace once::cli {

// As given on the command line or in the environment.
struct CommonFlags {
  std::string server = "127.0.0.1:7447";
  std::string token_file;
  bool tls = false;
  bool plaintext = false;
  std::string tls_ca;
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_server_name;
  std::string timeout = "10s";
  bool json = false;
};

void AddCommonFlags(CLI::App& app, CommonFlags& flags);

// INVALID_ARGUMENT where flags contradict each other.
absl::StatusOr<ConnectionOptions> ToConnectionOptions(const CommonFlags& flags);

// One run: parsing fills in what to do, then it is done.
struct Session {
  World& world;
  CommonFlags flags;
  std::function<ExitCode()> action;

  ExitCode Fail(const absl::Status& status) const;
  // Prints an outcome, or the error in its place.
  template <typename Outcome>
  ExitCode Finish(const absl::StatusOr<Outcome>& outcome) const {
    if (!outcome.ok()) return Fail(outcome.status());
    Print(ToJson(*outcome));
    return ExitCodeFor(*outcome);
  }
  void Print(const Json& json) const;
};

// Each adds its commands to `app`. `session` must outlive the parsing and the action.
void AddDataCommands(CLI::App& app, Session& session);
void AddAdminCommands(CLI::App& app, Session& session);
void AddPolicyCommands(CLI::App& app, Session& session);
void AddOperationCommands(CLI::App& app, Session& session);

}  // namespace once::cli

#endif  // ONCE_CLIENT_CLI_COMMAND_H_
