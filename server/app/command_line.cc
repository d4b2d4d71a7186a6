#include "app/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "app/flags.h"
#include "app/metrics.h"
#include "app/version.h"

namespace once::app {
namespace {

constexpr int kUsageExit = 2;

// CLI11 takes "--name=" for a name whose value is missing; to us it is the empty value.
constexpr absl::string_view kEmptyValue = "\x01";

std::vector<std::string> MarkEmptyValues(std::vector<std::string> args) {
  for (std::string& arg : args) {
    if (absl::StartsWith(arg, "--") && arg.find('=') == arg.size() - 1)
      absl::StrAppend(&arg, kEmptyValue);
  }
  return args;
}

std::vector<std::string> UnmarkEmptyValues(std::vector<std::string> values) {
  for (std::string& value : values) {
    if (value == kEmptyValue) value.clear();
  }
  return values;
}

struct CommandInfo {
  Command command;
  absl::string_view help;
};
constexpr CommandInfo kCommands[] = {
    {Command::kServe, "Run a server on MySQL, MariaDB or a local file"},
    {Command::kDev,
     "Run a server for development: a local store, loopback only, nothing to set up"},
    {Command::kMigrate, "Apply missing schema steps and exit"},
    {Command::kBootstrap, "Make the first admin credential; refused where an active one exists"},
    {Command::kHealth, "Exit with 0 if the server is ready (for container health checks)"},
};

std::string HelpText(const Flag& flag) {
  return flag.default_text.empty() ? flag.help
                                   : absl::StrCat(flag.help, " Default: ", flag.default_text, ".");
}

// One CLI11 option per flag; values stay text.
class CommandParser {
 public:
  CommandParser(CLI::App& app, const CommandInfo& info, const std::vector<Flag>& flags)
      : command_(info.command),
        sub_(app.add_subcommand(std::string(CommandName(info.command)), std::string(info.help))) {
    sub_->allow_extras();  // collected, so that all wrong names are reported with the other
                           // problems
    for (const Flag& flag : flags) {
      if (flag.commands.Contains(command_)) Add(flag);
    }
    sub_->add_option("--flagfile", flagfile_,
                     "File with one name=value a line. Weaker than environment variables.")
        ->type_name("FILE")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }

  bool parsed() const { return sub_->parsed(); }

  std::variant<ParsedCommand, PrintAndExit> Result() const {
    ParsedCommand result{command_, {}, flagfile_};
    for (const auto& [name, option] : options_) {
      if (option->count() > 0) result.flags[name] = UnmarkEmptyValues(option->results());
    }
    for (const std::string& extra : sub_->remaining()) {
      if (!absl::StartsWith(extra, "--") || extra.size() < 3) {
        return PrintAndExit{
            absl::StrCat("onced ", CommandName(command_), ": unexpected argument \"", extra,
                         "\"; see onced ", CommandName(command_), " --help\n"),
            kUsageExit};
      }
      const size_t equals = extra.find('=');
      const std::string name = extra.substr(2, equals == std::string::npos ? equals : equals - 2);
      result.flags[name].push_back(equals == std::string::npos ? "" : extra.substr(equals + 1));
    }
    return result;
  }

 private:
  void Add(const Flag& flag) {
    const std::string name = absl::StrCat("--", flag.name);
    const std::string help = HelpText(flag);
    CLI::Option* option = nullptr;
    switch (flag.kind) {
      case Flag::Kind::kSwitch:
        option = sub_->add_flag(name, help);
        break;
      case Flag::Kind::kValue:
      case Flag::Kind::kList:
        option =
            sub_->add_option(name, help)->type_name(flag.value_name)->type_size(1)->expected(1);
        break;
    }
    option->group(flag.group);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    options_.emplace(flag.name, option);
  }

  Command command_;
  CLI::App* sub_;
  std::string flagfile_;
  std::map<std::string, CLI::Option*> options_;
};

PrintAndExit FromParseError(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream out;
  std::ostringstream err;
  const int code = app.exit(error, out, err);
  return PrintAndExit{absl::StrCat(out.str(), err.str()), code == 0 ? 0 : kUsageExit};
}

}  // namespace

std::variant<ParsedCommand, PrintAndExit> ParseCommandLine(const std::vector<std::string>& args) {
  CLI::App app("Once decides which delivery of a message may act. More: docs/start.md", "onced");
  app.require_subcommand(1);
  app.set_version_flag("--version", absl::StrCat("onced ", Version()));
  app.get_formatter()->column_width(34);
  const std::vector<Flag> flags = AllFlags();
  std::vector<std::unique_ptr<CommandParser>> parsers;
  for (const CommandInfo& info : kCommands) {
    parsers.push_back(std::make_unique<CommandParser>(app, info, flags));
  }
  const CLI::App* version = app.add_subcommand("version", "Print the version");
  // For the documentation's own checks.
  CLI::App* markdown =
      app.add_subcommand("help-markdown", "Print a page of docs/reference")->group("");
  std::string page;
  markdown->add_option("page", page, "flags or metrics")->required();

  std::vector<std::string> marked = MarkEmptyValues(args);
  std::reverse(marked.begin(), marked.end());  // CLI11 takes its arguments from the back
  try {
    app.parse(std::move(marked));
  } catch (const CLI::ParseError& error) {
    return FromParseError(app, error);
  }
  if (version->parsed()) return PrintAndExit{absl::StrCat("onced ", Version(), "\n"), 0};
  if (markdown->parsed()) {
    return PrintAndExit{page == "metrics" ? MetricsMarkdown() : FlagsMarkdown(), 0};
  }
  for (const std::unique_ptr<CommandParser>& parser : parsers) {
    if (parser->parsed()) return parser->Result();
  }
  return PrintAndExit{app.help(), kUsageExit};
}

}  // namespace once::app
