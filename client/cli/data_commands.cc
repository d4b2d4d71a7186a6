// begin, complete, abandon, renew, lookup: the data plane by hand.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "command.h"
#include "input.h"
#include "once/client.h"

namespace once::cli {
namespace {

// Flags as text; each command parses what it needs and reports the first value that is wrong.
struct DataFlags {
  std::string handler;
  std::string event_id;
  std::optional<std::string> content_string;
  std::string content_file;
  std::string digest;
  std::string scheme;
  std::string attempt_id;
  int64_t fence = 0;
  std::string lease = "0";
  std::string wait = "0";
  std::string consumer = "oncectl";
  std::string handler_version;
  std::string reference;
  std::string source;
  bool can_probe = false;
  std::string aggregate;
  int64_t aggregate_version = 0;
  bool rejected = false;
  std::optional<std::string> result_string;
  std::string result_file;
  std::string content_type;
  bool forget = false;
  std::string retry_delay = "0";
  std::string reason;
};

const std::map<std::string, DeliverySource>& Sources() {
  static const auto* sources =
      new std::map<std::string, DeliverySource>{{"first", DeliverySource::kFirst},
                                                {"redelivery", DeliverySource::kRedelivery},
                                                {"dead-letter", DeliverySource::kDeadLetter},
                                                {"compensation", DeliverySource::kCompensation},
                                                {"replay", DeliverySource::kReplay}};
  return *sources;
}

absl::StatusOr<OperationId> OperationOf(const DataFlags& flags) {
  auto event_id = ParseEventId(flags.event_id);
  if (!event_id.ok()) return event_id.status();
  return OperationId{flags.handler, *std::move(event_id)};
}

// Text, a file or standard input, of which at most one was given.
absl::StatusOr<std::optional<std::string>> BytesOf(const std::optional<std::string>& text,
                                                   const std::string& file, World& world) {
  if (text.has_value()) return text;
  if (file.empty()) return std::optional<std::string>();
  auto bytes = ReadInput(file, world.in);
  if (!bytes.ok()) return bytes.status();
  return std::optional<std::string>(*std::move(bytes));
}

DigestScheme SchemeOf(const std::string& name) {
  if (name == "json") return DigestScheme::kJsonJcsSha256;
  if (name == "raw") return DigestScheme::kRawSha256;
  return DigestScheme::kHandlerDefault;
}

absl::StatusOr<std::optional<Payload>> PayloadOf(const DataFlags& flags, World& world) {
  if (!flags.digest.empty()) {
    Digest digest;
    digest.scheme = SchemeOf(flags.scheme);
    const auto bytes = ParseEventId("hex:" + flags.digest);
    if (!bytes.ok() || bytes->size() != digest.sha256.size()) {
      return absl::InvalidArgumentError("--digest takes 64 hexadecimal digits");
    }
    if (digest.scheme == DigestScheme::kHandlerDefault) {
      return absl::InvalidArgumentError("--digest needs --scheme");
    }
    std::copy(bytes->begin(), bytes->end(), digest.sha256.begin());
    return std::optional<Payload>(digest);
  }
  auto bytes = BytesOf(flags.content_string, flags.content_file, world);
  if (!bytes.ok()) return bytes.status();
  if (!bytes->has_value()) return std::optional<Payload>();
  return std::optional<Payload>(Content{**std::move(bytes), SchemeOf(flags.scheme)});
}

absl::StatusOr<Client> ClientOf(const Session& session) {
  auto options = ToConnectionOptions(session.flags);
  if (!options.ok()) return options.status();
  auto connection = session.world.connect(*std::move(options));
  if (!connection.ok()) return connection.status();
  return Client(*std::move(connection));
}

absl::StatusOr<BeginRequest> BeginRequestOf(const DataFlags& flags, World& world) {
  BeginRequest request;
  auto operation = OperationOf(flags);
  if (!operation.ok()) return operation.status();
  request.operation = *std::move(operation);
  auto payload = PayloadOf(flags, world);
  if (!payload.ok()) return payload.status();
  if (!payload->has_value()) {
    return absl::InvalidArgumentError(
        "begin needs --content-string, --content-file (- is the standard input) or --digest");
  }
  request.payload = **std::move(payload);
  request.attempt_id = AttemptId::Generate();
  if (!flags.attempt_id.empty()) {
    auto attempt_id = AttemptId::Parse(flags.attempt_id);
    if (!attempt_id.ok()) return attempt_id.status();
    request.attempt_id = *attempt_id;
  }
  auto lease = ParseDuration(flags.lease);
  if (!lease.ok()) return lease.status();
  request.lease = *lease;
  auto wait = ParseDuration(flags.wait);
  if (!wait.ok()) return wait.status();
  request.wait = *wait;
  request.consumer = flags.consumer;
  request.handler_version = flags.handler_version;
  request.can_probe = flags.can_probe;
  if (!flags.aggregate.empty()) {
    request.aggregate = Aggregate{flags.aggregate, flags.aggregate_version};
  }
  if (!flags.reference.empty() || !flags.source.empty()) {
    request.delivery = Delivery{flags.reference, DeliverySource::kUnknown};
    if (!flags.source.empty()) request.delivery->source = Sources().at(flags.source);
  }
  return request;
}

ExitCode Begin(const DataFlags& flags, const Session& session) {
  auto request = BeginRequestOf(flags, session.world);
  if (!request.ok()) return session.Fail(request.status());
  auto client = ClientOf(session);
  if (!client.ok()) return session.Fail(client.status());
  const auto outcome = client->Begin(*request);
  const ExitCode code = session.Finish(outcome);
  if (code == ExitCode::kTryAgain && flags.attempt_id.empty() && !session.flags.json) {
    // Without it nobody could ask for the claim that this call may have got.
    session.world.err << "  repeat with: --attempt-id " << request->attempt_id.ToString() << "\n";
  }
  return code;
}

absl::StatusOr<CompleteRequest> CompleteRequestOf(const DataFlags& flags, World& world) {
  CompleteRequest request;
  auto operation = OperationOf(flags);
  if (!operation.ok()) return operation.status();
  request.operation = *std::move(operation);
  auto attempt_id = AttemptId::Parse(flags.attempt_id);
  if (!attempt_id.ok()) return attempt_id.status();
  request.attempt_id = *attempt_id;
  request.fence = Fence{flags.fence};
  request.status = flags.rejected ? ReceiptStatus::kRejected : ReceiptStatus::kSucceeded;
  auto result = BytesOf(flags.result_string, flags.result_file, world);
  if (!result.ok()) return result.status();
  request.result = result->value_or("");
  request.content_type = flags.content_type;
  return request;
}

ExitCode Complete(const DataFlags& flags, const Session& session) {
  auto request = CompleteRequestOf(flags, session.world);
  if (!request.ok()) return session.Fail(request.status());
  auto client = ClientOf(session);
  if (!client.ok()) return session.Fail(client.status());
  return session.Finish(client->Complete(*request));
}

ExitCode Abandon(const DataFlags& flags, const Session& session) {
  auto operation = OperationOf(flags);
  if (!operation.ok()) return session.Fail(operation.status());
  auto attempt_id = AttemptId::Parse(flags.attempt_id);
  if (!attempt_id.ok()) return session.Fail(attempt_id.status());
  auto delay = ParseDuration(flags.retry_delay);
  if (!delay.ok()) return session.Fail(delay.status());
  auto client = ClientOf(session);
  if (!client.ok()) return session.Fail(client.status());
  return session.Finish(client->Abandon(
      {*std::move(operation), *attempt_id, Fence{flags.fence},
       flags.forget ? AbandonMode::kForget : AbandonMode::kRelease, *delay, flags.reason}));
}

ExitCode Renew(const DataFlags& flags, const Session& session) {
  auto operation = OperationOf(flags);
  if (!operation.ok()) return session.Fail(operation.status());
  auto attempt_id = AttemptId::Parse(flags.attempt_id);
  if (!attempt_id.ok()) return session.Fail(attempt_id.status());
  auto lease = ParseDuration(flags.lease);
  if (!lease.ok()) return session.Fail(lease.status());
  auto client = ClientOf(session);
  if (!client.ok()) return session.Fail(client.status());
  return session.Finish(
      client->Renew({*std::move(operation), *attempt_id, Fence{flags.fence}, *lease}));
}

ExitCode Lookup(const DataFlags& flags, const Session& session) {
  auto operation = OperationOf(flags);
  if (!operation.ok()) return session.Fail(operation.status());
  auto payload = PayloadOf(flags, session.world);
  if (!payload.ok()) return session.Fail(payload.status());
  auto wait = ParseDuration(flags.wait);
  if (!wait.ok()) return session.Fail(wait.status());
  auto client = ClientOf(session);
  if (!client.ok()) return session.Fail(client.status());
  return session.Finish(client->Lookup({*std::move(operation), *std::move(payload), *wait}));
}

// ---- the command line ----

using Action = ExitCode (*)(const DataFlags&, const Session&);

CLI::App* AddCommand(CLI::App& app, Session& session, const std::string& name,
                     const std::string& description, const std::shared_ptr<DataFlags>& flags,
                     Action action) {
  CLI::App* command = app.add_subcommand(name, description);
  command->fallthrough();
  command->add_option("handler", flags->handler, "kind of processing, e.g. points.grant")
      ->required();
  command
      ->add_option("event", flags->event_id,
                   "event id: text, or hex:0a0b for bytes; text:… for text that starts like these")
      ->required();
  command->callback([&session, flags, action] {
    session.action = [&session, flags, action] { return action(*flags, session); };
  });
  return command;
}

void AddPayload(CLI::App& command, DataFlags& flags) {
  auto* text = command.add_option("--content-string,--content", flags.content_string,
                                  "the content, as text");
  auto* file = command.add_option("--content-file", flags.content_file,
                                  "file with the content; - is the standard input");
  auto* digest = command.add_option("--digest", flags.digest, "SHA-256 of the content instead");
  text->excludes(file)->excludes(digest);
  file->excludes(digest);
  command.add_option("--scheme", flags.scheme, "how content is digested; default: the handler's")
      ->check(CLI::IsMember({"raw", "json"}));
}

void AddClaim(CLI::App& command, DataFlags& flags) {
  command.add_option("--attempt-id", flags.attempt_id, "from begin")->required();
  command.add_option("--fence", flags.fence, "from begin")->required();
}

}  // namespace

void AddDataCommands(CLI::App& app, Session& session) {
  auto flags = std::make_shared<DataFlags>();
  CLI::App* begin = AddCommand(app, session, "begin", "Ask for the right to execute", flags, Begin);
  AddPayload(*begin, *flags);
  begin->add_option("--attempt-id", flags->attempt_id, "of an earlier try; default: a new one");
  begin->add_option("--lease", flags->lease, "how long the claim lives; default: the server's");
  begin->add_option("--wait", flags->wait, "how long to wait while another attempt holds it");
  begin->add_option("--consumer", flags->consumer, "name shown to others")->capture_default_str();
  begin->add_option("--handler-version", flags->handler_version, "kept with the receipt");
  begin->add_option("--reference", flags->reference, "the message's own id, for the attempt log");
  begin->add_option("--source", flags->source, "how the message came")
      ->check(CLI::IsMember(Sources()));
  auto* aggregate =
      begin->add_option("--aggregate", flags->aggregate, "the business object that it changes");
  begin->add_option("--aggregate-version", flags->aggregate_version, "that it leads to")
      ->needs(aggregate);
  begin->add_flag("--can-probe", flags->can_probe,
                  "you ask your own data what an earlier attempt did before you act");

  flags = std::make_shared<DataFlags>();
  CLI::App* complete = AddCommand(app, session, "complete", "Store the receipt", flags, Complete);
  AddClaim(*complete, *flags);
  auto* text = complete->add_option("--result-string", flags->result_string, "result, as text");
  text->excludes(complete->add_option("--result-file", flags->result_file,
                                      "file with the result; - is the standard input"));
  complete->add_option("--content-type", flags->content_type, "media type of the result");
  complete->add_flag("--rejected", flags->rejected, "a final refusal, not a success");

  flags = std::make_shared<DataFlags>();
  CLI::App* abandon = AddCommand(app, session, "abandon", "Give the claim back", flags, Abandon);
  AddClaim(*abandon, *flags);
  auto* forget = abandon->add_flag("--forget", flags->forget,
                                   "nothing happened: free the identity for other content");
  abandon->add_option("--retry-delay", flags->retry_delay, "how long nobody shall be granted")
      ->excludes(forget);
  abandon->add_option("--reason", flags->reason, "for the attempt log");

  flags = std::make_shared<DataFlags>();
  CLI::App* renew = AddCommand(app, session, "renew", "Extend the lease", flags, Renew);
  AddClaim(*renew, *flags);
  renew->add_option("--lease", flags->lease, "from now on; default: the server's");

  flags = std::make_shared<DataFlags>();
  CLI::App* lookup =
      AddCommand(app, session, "lookup", "Read the state; change nothing", flags, Lookup);
  AddPayload(*lookup, *flags);
  lookup->add_option("--wait", flags->wait, "how long to wait for completion");
}

}  // namespace once::cli
