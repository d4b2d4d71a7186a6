// onced: the server program.
#include <unistd.h>

#include <iostream>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "app/command_line.h"
#include "app/commands.h"
#include "app/logging.h"
#include "app/settings_loader.h"
#include "app/signals.h"

namespace once::app {
namespace {

std::map<std::string, std::string> ReadEnvironment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

int Run(Command command, const Settings& settings, ShutdownSignals& signals, Log& log) {
  switch (command) {
    case Command::kServe:
      return RunServe(settings, signals, log);
    case Command::kDev:
      return RunDev(settings, signals, log);
    case Command::kMigrate:
      return RunMigrate(settings, signals, log);
    case Command::kBootstrap:
      return RunBootstrap(settings, signals, log);
    case Command::kHealth:
      return RunHealth(settings);
  }
  return kExitUsage;
}

int Main(const std::vector<std::string>& args) {
  const std::variant<ParsedCommand, PrintAndExit> parsed = ParseCommandLine(args);
  if (const auto* print = std::get_if<PrintAndExit>(&parsed)) {
    (print->code == 0 ? std::cout : std::cerr) << print->text;
    return print->code;
  }
  const auto& line = std::get<ParsedCommand>(parsed);
  const LoadResult loaded = LoadSettings({.command = line.command,
                                          .command_line = line.flags,
                                          .environment = ReadEnvironment(),
                                          .flagfile = line.flagfile});
  if (!loaded.problems.empty()) {
    for (const std::string& problem : loaded.problems) std::cerr << "onced: " << problem << "\n";
    return kExitUsage;
  }
  ShutdownSignals signals;
  Log log(loaded.settings.log);
  for (const std::string& warning : loaded.warnings) log.Warn(warning);
  return Run(line.command, loaded.settings, signals, log);
}

}  // namespace
}  // namespace once::app

int main(int argc, char** argv) {
#ifdef NDEBUG
  // Debian builds Abseil with its search for deadlocks on, which costs every lock a look into a
  // process-wide graph. Debug builds and tests keep it.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
  return once::app::Main(std::vector<std::string>(argv + 1, argv + argc));
}
