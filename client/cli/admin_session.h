// What the commands for operators share: a client of role admin, groups of commands, and lists.
#ifndef ONCE_CLIENT_CLI_ADMIN_SESSION_H_
#define ONCE_CLIENT_CLI_ADMIN_SESSION_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "command.h"
#include "once/admin.h"

namespace once::cli {

absl::StatusOr<AdminClient> AdminClientOf(const Session& session);

// A command that only has commands below it.
CLI::App* AddGroup(CLI::App& app, const std::string& name, const std::string& description);

// A command that runs `action` with its flags on a client.
template <typename Flags>
CLI::App* AddCommand(CLI::App& group, Session& session, const std::string& name,
                     const std::string& description, const std::shared_ptr<Flags>& flags,
                     ExitCode (*action)(const Flags&, const Session&, const AdminClient&)) {
  CLI::App* command = group.add_subcommand(name, description);
  command->fallthrough();
  command->callback([&session, flags, action] {
    session.action = [&session, flags, action] {
      const auto client = AdminClientOf(session);
      if (!client.ok()) return session.Fail(client.status());
      return action(*flags, session, *client);
    };
  });
  return command;
}

template <typename T>
ExitCode PrintList(const absl::StatusOr<std::vector<T>>& items, const char* name,
                   std::string (*table)(const std::vector<T>&), const Session& session) {
  if (!items.ok()) return session.Fail(items.status());
  if (!session.flags.json) {
    session.world.out << table(*items) << std::flush;
    return ExitCode::kDone;
  }
  Json list = Json::array();
  for (const T& item : *items) list.push_back(ToJson(item));
  session.Print({{name, std::move(list)}});
  return ExitCode::kDone;
}

}  // namespace once::cli

#endif  // ONCE_CLIENT_CLI_ADMIN_SESSION_H_
