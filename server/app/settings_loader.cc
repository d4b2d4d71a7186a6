#include "app/settings_loader.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "app/files.h"
#include "app/flags.h"
#include "app/validate.h"

namespace once::app {
namespace {

constexpr absl::string_view kFlagfileVariable = "ONCED_FLAGFILE";

// The values of one flag in the strongest place that gives it, and how to name that place.
struct Given {
  std::vector<std::string> values;
  std::string origin;  // empty for the command line
};

class Loader {
 public:
  explicit Loader(const LoadInput& input) : input_(input), flags_(AllFlags()) {}

  LoadResult Load() {
    ReadFlagFile();
    CheckCommandLine();
    CheckEnvironment();
    for (const Flag& flag : flags_) {
      if (!flag.commands.Contains(input_.command)) continue;
      if (const std::optional<Given> given = Find(flag); given.has_value()) Apply(flag, *given);
    }
    // Rules between flags make no sense of values that were not understood.
    if (result_.problems.empty()) {
      result_.problems = Validate(input_.command, result_.settings);
    }
    if (!result_.settings.tls.certificate_file.empty()) {
      result_.settings.rpc.tls = result_.settings.tls;
    }
    return std::move(result_);
  }

 private:
  void ReadFlagFile() {
    path_ = input_.flagfile;
    if (path_.empty()) {
      const auto variable = input_.environment.find(std::string(kFlagfileVariable));
      if (variable != input_.environment.end()) path_ = variable->second;
    }
    if (path_.empty()) return;
    const absl::StatusOr<std::string> text = ReadFile(path_, kMaxFlagFileBytes);
    if (!text.ok()) {
      result_.problems.push_back(absl::StrCat("--flagfile=", path_, ": ", text.status().message()));
      return;
    }
    file_ = ParseFlagFile(*text, path_, &result_.problems);
    for (const auto& [name, values] : file_) {
      if (FindFlag(name) == nullptr) {
        result_.problems.push_back(
            absl::StrCat("--", name, " (", path_, "): there is no such flag"));
      }
    }
  }

  void CheckCommandLine() {
    for (const auto& [name, values] : input_.command_line) {
      const Flag* flag = FindFlag(name);
      if (flag == nullptr) {
        result_.problems.push_back(absl::StrCat("--", name, ": there is no such flag"));
      } else if (!flag->commands.Contains(input_.command)) {
        result_.problems.push_back(
            absl::StrCat("--", name, ": not a flag of `onced ", CommandName(input_.command), "`"));
      }
    }
  }

  // Variables with our prefix may be somebody else's: Kubernetes makes ONCED_PORT and more for a
  // service called "onced".
  void CheckEnvironment() {
    for (const auto& [name, value] : input_.environment) {
      if (!absl::StartsWith(name, "ONCED_") || name == kFlagfileVariable) continue;
      bool known = false;
      for (const Flag& flag : flags_) known = known || EnvironmentName(flag.name) == name;
      if (!known) {
        result_.warnings.push_back(
            absl::StrCat("environment variable ", name, " names no flag and is ignored"));
      }
    }
  }

  std::optional<Given> Find(const Flag& flag) const {
    if (const auto line = input_.command_line.find(flag.name); line != input_.command_line.end()) {
      return Given{line->second, ""};
    }
    const std::string variable = EnvironmentName(flag.name);
    if (const auto found = input_.environment.find(variable); found != input_.environment.end()) {
      return Given{{found->second}, variable};
    }
    if (const auto line = file_.find(flag.name); line != file_.end()) {
      return Given{line->second, path_};
    }
    return std::nullopt;
  }

  void Apply(const Flag& flag, const Given& given) {
    switch (flag.kind) {
      case Flag::Kind::kSwitch:
      case Flag::Kind::kValue:
        Set(flag, given.values.back(), given.origin);
        return;
      case Flag::Kind::kList:
        flag.clear(result_.settings);
        for (const std::string& value : given.values) {
          for (absl::string_view element : absl::StrSplit(value, ',', absl::SkipWhitespace())) {
            Set(flag, absl::StripAsciiWhitespace(element), given.origin);
          }
        }
        return;
    }
  }

  void Set(const Flag& flag, absl::string_view value, absl::string_view origin) {
    const std::optional<std::string> problem = flag.set(value, result_.settings);
    if (!problem.has_value()) return;
    result_.problems.push_back(absl::StrCat("--", flag.name, "=", flag.sensitive ? "***" : value,
                                            origin.empty() ? "" : absl::StrCat(" (", origin, ")"),
                                            ": ", *problem));
  }

  const Flag* FindFlag(absl::string_view name) const {
    for (const Flag& flag : flags_) {
      if (flag.name == name) return &flag;
    }
    return nullptr;
  }

  const LoadInput& input_;
  const std::vector<Flag> flags_;
  std::string path_;
  RawFlags file_;
  LoadResult result_;
};

}  // namespace

LoadResult LoadSettings(const LoadInput& input) { return Loader(input).Load(); }

RawFlags ParseFlagFile(const std::string& text, const std::string& path,
                       std::vector<std::string>* problems) {
  RawFlags flags;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    absl::ConsumePrefix(&line, "--");
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(parts.first);
    if (name.empty() || name == "flagfile" || absl::StrContains(name, ' ')) {
      problems->push_back(absl::StrCat(path, ":", number, ": must be a line name=value"));
      continue;
    }
    const bool bare = !absl::StrContains(line, '=');
    flags[std::string(name)].push_back(
        bare ? "true" : std::string(absl::StripAsciiWhitespace(parts.second)));
  }
  return flags;
}

}  // namespace once::app
