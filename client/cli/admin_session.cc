#include "admin_session.h"

namespace once::cli {

absl::StatusOr<AdminClient> AdminClientOf(const Session& session) {
  auto options = ToConnectionOptions(session.flags);
  if (!options.ok()) return options.status();
  auto connection = session.world.connect_admin(*std::move(options));
  if (!connection.ok()) return connection.status();
  return AdminClient(*std::move(connection));
}

CLI::App* AddGroup(CLI::App& app, const std::string& name, const std::string& description) {
  CLI::App* group = app.add_subcommand(name, description);
  group->fallthrough();
  group->require_subcommand(1);
  return group;
}

}  // namespace once::cli
