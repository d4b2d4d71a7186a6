// What was typed: a command and raw flag values. The only file that knows CLI11.
#ifndef ONCE_APP_COMMAND_LINE_H_
#define ONCE_APP_COMMAND_LINE_H_

#include <string>
#include <variant>
#include <vector>

#include "app/settings.h"
#include "app/settings_loader.h"

namespace once::app {

struct ParsedCommand {
  Command command = Command::kServe;
  RawFlags flags;
  std::string flagfile;
};

// Print `text` and exit with `code`: help, version, or what is wrong with the line.
struct PrintAndExit {
  std::string text;
  int code = 0;
};

// `args` without the program's name. Thread-safe.
std::variant<ParsedCommand, PrintAndExit> ParseCommandLine(const std::vector<std::string>& args);

}  // namespace once::app

#endif  // ONCE_APP_COMMAND_LINE_H_
