// From command line, environment and flag file to checked Settings.
//
// Precedence: flag, ONCED_... environment variable, flag file, default. CLI11 would let a file beat
// nothing but defaults and knows no order between the two others, so it only splits the command
// line here (command_line.h) and this file decides.
#ifndef ONCE_APP_SETTINGS_LOADER_H_
#define ONCE_APP_SETTINGS_LOADER_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "app/settings.h"

namespace once::app {

// Raw values of one source, by flag name without dashes, in the order given.
using RawFlags = std::map<std::string, std::vector<std::string>>;

struct LoadInput {
  Command command = Command::kServe;
  RawFlags command_line;
  std::map<std::string, std::string> environment;  // whole; only ONCED_... is looked at
  std::string flagfile;  // of the command line; ONCED_FLAGFILE is looked for in `environment`
};

struct LoadResult {
  Settings settings;
  // Each names flag, value, where it came from, and the limit. Not empty: do not run.
  std::vector<std::string> problems;
  // To be logged: unknown ONCED_... variables.
  std::vector<std::string> warnings;
};

// Reads the flag file; touches nothing else. Blocks on that file.
LoadResult LoadSettings(const LoadInput& input);

// Lines "name=value", "--name=value" or "name" (a switch); '#' starts a comment line. Problems name
// file and line.
RawFlags ParseFlagFile(const std::string& text, const std::string& path,
                       std::vector<std::string>* problems);

}  // namespace once::app

#endif  // ONCE_APP_SETTINGS_LOADER_H_
