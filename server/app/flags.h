// The table of flags: the one place that knows each flag's name, meaning, default, bounds and home
// in Settings.
//
// Command line, environment, flag files, --help and docs/reference/flags.md are all made from it.
// Functions of values; thread-safe.
#ifndef ONCE_APP_FLAGS_H_
#define ONCE_APP_FLAGS_H_

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "app/settings.h"

namespace once::app {

class CommandSet {
 public:
  CommandSet(std::initializer_list<Command> commands) {
    for (Command command : commands) bits_ |= Bit(command);
  }
  bool Contains(Command command) const { return (bits_ & Bit(command)) != 0; }

 private:
  static unsigned Bit(Command command) { return 1U << static_cast<unsigned>(command); }
  unsigned bits_ = 0;
};

struct Flag {
  enum class Kind : uint8_t {
    kSwitch,  // --name, --name=true, --name=false
    kValue,   // --name=value; the last one counts
    kList,    // --name=a,b or given several times
  };
  std::string name;   // without dashes
  std::string group;  // heading in help and documentation
  Kind kind = Kind::kValue;
  std::string value_name;  // "DURATION"; empty for switches
  std::string help;
  CommandSet commands;
  // The value may hold something that must not be repeated in messages.
  bool sensitive = false;
  // Default as text; empty where there is none.
  std::string default_text;
  // Stores `value` (for lists: one element after the other, into an emptied list), or says what is
  // wrong with it, completing the sentence "--name=value: ...".
  std::function<std::optional<std::string>(absl::string_view value, Settings& settings)> set;
  // Before the first value of a list replaces the default. May be empty.
  std::function<void(Settings& settings)> clear;
};

// In the order of the documentation.
std::vector<Flag> AllFlags();

// "max-wait" → "ONCED_MAX_WAIT".
std::string EnvironmentName(absl::string_view flag);

// "serve" and so on.
absl::string_view CommandName(Command command);

// docs/reference/flags.md, whole.
std::string FlagsMarkdown();

}  // namespace once::app

#endif  // ONCE_APP_FLAGS_H_
