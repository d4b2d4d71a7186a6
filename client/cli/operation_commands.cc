// operation: what became of an operation, and its end where nobody finished it.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "admin_session.h"
#include "input.h"
#include "once/operator.h"

namespace once::cli {
namespace {

struct OperationFlags {
  std::string handler;
  std::string event_id;
  std::string attempt_id;
  int64_t fence = 0;
  std::string verdict;
  std::optional<std::string> result_string;
  std::string result_file;
  std::string content_type;
  std::string evidence;
  std::string reason;
};

absl::StatusOr<OperatorClient> OperatorClientOf(const Session& session) {
  auto options = ToConnectionOptions(session.flags);
  if (!options.ok()) return options.status();
  auto connection = session.world.connect_operator(*std::move(options));
  if (!connection.ok()) return connection.status();
  return OperatorClient(*std::move(connection));
}

absl::StatusOr<OperationId> OperationOf(const OperationFlags& flags) {
  auto event_id = ParseEventId(flags.event_id);
  if (!event_id.ok()) return event_id.status();
  return OperationId{flags.handler, *std::move(event_id)};
}

ExitCode Show(const OperationFlags& flags, const Session& session, const OperatorClient& client) {
  const auto id = OperationOf(flags);
  if (!id.ok()) return session.Fail(id.status());
  const auto operation = client.GetOperation(*id);
  if (!operation.ok()) return session.Fail(operation.status());
  session.Print(ToJson(*operation));
  return ExitCode::kDone;
}

ExitCode Attempts(const OperationFlags& flags, const Session& session,
                  const OperatorClient& client) {
  const auto id = OperationOf(flags);
  if (!id.ok()) return session.Fail(id.status());
  return PrintList(client.ListAllAttempts(*id), "attempts", AttemptTable, session);
}

absl::StatusOr<Resolution> ResolutionOf(const OperationFlags& flags, World& world) {
  Resolution resolution;
  auto id = OperationOf(flags);
  if (!id.ok()) return id.status();
  resolution.operation = *std::move(id);
  auto attempt_id = AttemptId::Parse(flags.attempt_id);
  if (!attempt_id.ok()) return attempt_id.status();
  resolution.attempt_id = *attempt_id;
  resolution.fence = Fence{flags.fence};
  resolution.verdict = flags.verdict == "done"      ? Verdict::kDone
                       : flags.verdict == "refused" ? Verdict::kRefused
                                                    : Verdict::kNotDone;
  if (flags.result_string.has_value()) {
    resolution.result = *flags.result_string;
  } else if (!flags.result_file.empty()) {
    auto result = ReadInput(flags.result_file, world.in);
    if (!result.ok()) return result.status();
    resolution.result = *std::move(result);
  }
  resolution.content_type = flags.content_type;
  resolution.evidence = flags.evidence;
  return resolution;
}

ExitCode Resolve(const OperationFlags& flags, const Session& session,
                 const OperatorClient& client) {
  const auto resolution = ResolutionOf(flags, session.world);
  if (!resolution.ok()) return session.Fail(resolution.status());
  return session.Finish(client.Resolve(*resolution));
}

ExitCode Reset(const OperationFlags& flags, const Session& session, const OperatorClient& client) {
  const auto id = OperationOf(flags);
  if (!id.ok()) return session.Fail(id.status());
  CallOptions options;
  options.reason = flags.reason;
  return session.Finish(client.Reset(*id, Fence{flags.fence}, options));
}

CLI::App* AddOperation(CLI::App& group, Session& session, const std::string& name,
                       const std::string& description, const std::shared_ptr<OperationFlags>& flags,
                       ExitCode (*action)(const OperationFlags&, const Session&,
                                          const OperatorClient&)) {
  CLI::App* command = group.add_subcommand(name, description);
  command->fallthrough();
  command->add_option("handler", flags->handler, "kind of processing")->required();
  command->add_option("event-id", flags->event_id, "text, or hex:…")->required();
  command->callback([&session, flags, action] {
    session.action = [&session, flags, action] {
      const auto client = OperatorClientOf(session);
      if (!client.ok()) return session.Fail(client.status());
      return action(*flags, session, *client);
    };
  });
  return command;
}

}  // namespace

void AddOperationCommands(CLI::App& app, Session& session) {
  CLI::App* group =
      AddGroup(app, "operation", "What became of an operation, and its end (role operator)");
  auto flags = std::make_shared<OperationFlags>();
  AddOperation(*group, session, "show", "How it stands: claims, doubts, receipt", flags, Show);

  flags = std::make_shared<OperationFlags>();
  AddOperation(*group, session, "attempts", "Every delivery and try, and what it was told", flags,
               Attempts);

  flags = std::make_shared<OperationFlags>();
  CLI::App* resolve =
      AddOperation(*group, session, "resolve",
                   "End it with what was found out, where nobody finished it", flags, Resolve);
  resolve->add_option("verdict", flags->verdict, "done, refused or not-done")
      ->required()
      ->check(CLI::IsMember({"done", "refused", "not-done"}));
  resolve->add_option("--attempt-id", flags->attempt_id, "of the latest claim, from show")
      ->required();
  resolve->add_option("--fence", flags->fence, "of the latest claim, from show")->required();
  resolve
      ->add_option("--evidence", flags->evidence, "how it was found out, for the log and the audit")
      ->required();
  auto* text = resolve->add_option("--result-string", flags->result_string,
                                   "result of done or refused, as text");
  text->excludes(resolve->add_option("--result-file", flags->result_file,
                                     "file with the result; - is the standard input"));
  resolve->add_option("--content-type", flags->content_type, "media type of the result");

  flags = std::make_shared<OperationFlags>();
  CLI::App* reset = AddOperation(*group, session, "reset",
                                 "Let a completed one run again; its receipt is kept as a past one",
                                 flags, Reset);
  reset->add_option("--fence", flags->fence, "of the receipt, from show")->required();
  reset->add_option("--reason", flags->reason, "why, for the log and the audit")->required();
}

}  // namespace once::cli
