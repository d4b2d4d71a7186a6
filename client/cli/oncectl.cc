#include "oncectl.h"

#include <algorithm>

#include "command.h"
#include "once/version.h"

namespace once::cli {

ExitCode Run(const std::vector<std::string>& arguments, World& world) {
  CLI::App app(
      "Once from the command line. Exit codes: 0 done, 1 error, 2 usage, 3 try again, 4 not "
      "found, 5 not allowed, 6 exists; 10 completed, 11 in progress, 12 conflict, 13 in "
      "doubt, 14 stale, 15 expired, 16 claim lost, 17 unclaimed.",
      "oncectl");
  app.set_version_flag("--version", std::string("oncectl ") + ClientVersion());
  app.require_subcommand(1);
  Session session{world, {}, {}};
  AddCommonFlags(app, session.flags);
  AddDataCommands(app, session);
  AddAdminCommands(app, session);
  AddPolicyCommands(app, session);
  AddOperationCommands(app, session);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    const bool asked = app.exit(error, world.out, world.err) == 0;
    return asked ? ExitCode::kDone : ExitCode::kUsage;
  }
  return session.action();
}

}  // namespace once::cli
