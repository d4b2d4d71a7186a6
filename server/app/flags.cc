#include "app/flags.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "app/values.h"

namespace once::app {
namespace {

using Problem = std::optional<std::string>;

const CommandSet kServers = {Command::kServe, Command::kDev};
const CommandSet kWithStore = {Command::kServe, Command::kMigrate, Command::kBootstrap};

// What all flags have; the typed makers below add value, default and check.
struct Head {
  std::string name;
  std::string help;
  CommandSet commands = kServers;
};

// Builds the table group by group.
class Table {
 public:
  void Group(std::string title) { group_ = std::move(title); }

  template <typename Get>
  void Switch(Head head, Get get) {
    Flag& flag = Add(std::move(head), Flag::Kind::kSwitch, "");
    flag.default_text = get(defaults_) ? "true" : "false";
    flag.set = [get](absl::string_view value, Settings& settings) -> Problem {
      const std::optional<bool> parsed = ParseBool(value);
      if (!parsed.has_value()) return "must be true or false";
      get(settings) = *parsed;
      return std::nullopt;
    };
  }

  template <typename Get>
  void Text(Head head, std::string value_name, Get get) {
    Flag& flag = Add(std::move(head), Flag::Kind::kValue, std::move(value_name));
    flag.default_text = get(defaults_);
    flag.set = [get](absl::string_view value, Settings& settings) -> Problem {
      get(settings) = std::string(value);
      return std::nullopt;
    };
  }

  // Marks the flag added last: messages leave its value out.
  void Sensitive() { flags_.back().sensitive = true; }

  template <typename Get>
  void Integer(Head head, int64_t min, int64_t max, Get get) {
    Flag& flag = Add(std::move(head), Flag::Kind::kValue, "NUMBER");
    flag.default_text = absl::StrCat(get(defaults_));
    AddRange(flag, absl::StrCat(min), absl::StrCat(max));
    flag.set = [get, min, max](absl::string_view value, Settings& settings) -> Problem {
      int64_t parsed = 0;
      if (!absl::SimpleAtoi(value, &parsed)) return "must be a whole number";
      if (parsed < min || parsed > max) return absl::StrCat("must be ", min, " to ", max);
      auto& target = get(settings);
      target = static_cast<std::remove_reference_t<decltype(target)>>(parsed);
      return std::nullopt;
    };
  }

  template <typename Get>
  void Bytes(Head head, int64_t min, int64_t max, Get get) {
    Flag& flag = Add(std::move(head), Flag::Kind::kValue, "BYTES");
    flag.default_text = BytesText(static_cast<int64_t>(get(defaults_)));
    AddRange(flag, BytesText(min), BytesText(max));
    flag.set = [get, min, max](absl::string_view value, Settings& settings) -> Problem {
      const std::optional<int64_t> parsed = ParseBytes(value);
      if (!parsed.has_value()) return "must be a size such as 4096, 64KiB or 4MiB";
      if (*parsed < min || *parsed > max) {
        return absl::StrCat("must be ", BytesText(min), " to ", BytesText(max));
      }
      get(settings) = static_cast<size_t>(*parsed);
      return std::nullopt;
    };
  }

  template <typename Get>
  void Duration(Head head, absl::Duration min, absl::Duration max, Get get) {
    Flag& flag = Add(std::move(head), Flag::Kind::kValue, "DURATION");
    flag.default_text = DurationText(get(defaults_));
    AddRange(flag, DurationText(min), DurationText(max));
    flag.set = [get, min, max](absl::string_view value, Settings& settings) -> Problem {
      const std::optional<absl::Duration> parsed = ParseDuration(value);
      if (!parsed.has_value()) return "must be a duration with its unit, such as 500ms, 30s or 5m";
      if (*parsed < min || *parsed > max) {
        return absl::StrCat("must be ", DurationText(min), " to ", DurationText(max));
      }
      get(settings) = *parsed;
      return std::nullopt;
    };
  }

  template <typename Get, typename Value>
  void Choice(Head head, std::vector<std::pair<std::string, Value>> choices, Get get) {
    std::vector<std::string> names;
    for (const auto& [name, value] : choices) names.push_back(name);
    Flag& flag = Add(std::move(head), Flag::Kind::kValue, absl::StrJoin(names, "|"));
    for (const auto& [name, value] : choices) {
      if (value == get(defaults_)) flag.default_text = name;
    }
    flag.set = [get, choices, names](absl::string_view value, Settings& settings) -> Problem {
      for (const auto& [name, choice] : choices) {
        if (name != value) continue;
        get(settings) = choice;
        return std::nullopt;
      }
      return absl::StrCat("must be one of ", absl::StrJoin(names, ", "));
    };
  }

  template <typename Get>
  void List(Head head, std::string value_name, Get get) {
    Flag& flag = Add(std::move(head), Flag::Kind::kList, std::move(value_name));
    flag.default_text = absl::StrJoin(get(defaults_), ",");
    flag.clear = [get](Settings& settings) { get(settings).clear(); };
    flag.set = [get](absl::string_view value, Settings& settings) -> Problem {
      get(settings).emplace_back(value);
      return std::nullopt;
    };
  }

  std::vector<Flag> Take() { return std::move(flags_); }

 private:
  Flag& Add(Head head, Flag::Kind kind, std::string value_name) {
    flags_.push_back(Flag{.name = std::move(head.name),
                          .group = group_,
                          .kind = kind,
                          .value_name = std::move(value_name),
                          .help = std::move(head.help),
                          .commands = head.commands,
                          .sensitive = false,
                          .default_text = {},
                          .set = {},
                          .clear = {}});
    return flags_.back();
  }

  static void AddRange(Flag& flag, absl::string_view min, absl::string_view max) {
    absl::StrAppend(&flag.help, " From ", min, " to ", max, ".");
  }

  Settings defaults_;
  std::string group_;
  std::vector<Flag> flags_;
};

// Shorthand for "a reference to this member, const or not".
#define ONCE_FIELD(member) [](auto& settings) -> auto& { return settings.member; }

void AddStoreFlags(Table& table) {
  table.Group("Store");
  table.Text({"mysql-uri",
              "MySQL or MariaDB: "
              "mysql://USER@HOST[:PORT][,HOST...]/DATABASE[?tls=verify-identity&tls-ca=FILE]. "
              "The hosts are tried in order. The password comes from --mysql-password-file.",
              kWithStore},
             "URI", ONCE_FIELD(store.mysql_uri));
  table.Sensitive();
  table.Text({"mysql-password-file",
              "File that holds the database password, or fd:NUMBER for an open file descriptor. "
              "One line end is cut off.",
              kWithStore},
             "FILE", ONCE_FIELD(store.mysql_password_file));
  table.Text({"store", "sqlite:PATH for the embedded store of one process, instead of --mysql-uri.",
              kWithStore},
             "STORE", ONCE_FIELD(store.store));
  table.Duration(
      {"mysql-connect-timeout", "Time for a connection to one database host.", kWithStore},
      absl::Seconds(1), absl::Minutes(5), ONCE_FIELD(store.connect_timeout));
  table.Duration({"mysql-io-timeout",
                  "Time for the database to answer a statement before its connection is given up.",
                  kWithStore},
                 absl::Seconds(1), absl::Minutes(10), ONCE_FIELD(store.io_timeout));
  table.Duration({"lock-wait-timeout",
                  "Time that a transaction waits for a lock of another one before it is repeated.",
                  kWithStore},
                 absl::Seconds(1), absl::Minutes(5), ONCE_FIELD(store.lock_wait_timeout));
  table.Switch({"migrate",
                "Apply missing schema steps at start. Several servers that do so at once are fine.",
                {Command::kServe}},
               ONCE_FIELD(migrate));
  table.Duration(
      {"startup-timeout",
       "How long to wait for a database that cannot be reached. The server is not ready meanwhile.",
       kWithStore},
      absl::ZeroDuration(), absl::Hours(24), ONCE_FIELD(startup_timeout));
}

void AddListenFlags(Table& table) {
  table.Group("Network");
  table.List(
      {"listen", "Addresses of the gRPC listeners, also unix:/PATH. Port 0 takes any free one."},
      "HOST:PORT,...", ONCE_FIELD(rpc.listen_addresses));
  table.Text({"http-listen",
              "Address of /metrics, /healthz and /readyz (plain HTTP). Empty: none. Metrics hold "
              "names of tenants.",
              {Command::kServe, Command::kDev, Command::kHealth}},
             "HOST:PORT", ONCE_FIELD(http_listen));
  table.Text({"ports-file",
              "File that is written once calls are answered, with the bound ports, as JSON: "
              "{\"grpc\":\"127.0.0.1:7447\",\"http\":\"127.0.0.1:7448\"}."},
             "FILE", ONCE_FIELD(ports_file));
  table.Switch({"insecure-plaintext",
                "Allow gRPC listeners without TLS on addresses that are not loopback. Bearer "
                "tokens then cross the network "
                "in the clear.",
                {Command::kServe}},
               ONCE_FIELD(insecure_plaintext));
  table.Text({"tls-cert", "Certificate chain of the gRPC listeners, PEM.", {Command::kServe}},
             "FILE", ONCE_FIELD(tls.certificate_file));
  table.Text({"tls-key", "Private key of --tls-cert, PEM.", {Command::kServe}}, "FILE",
             ONCE_FIELD(tls.key_file));
  table.Text({"tls-client-ca",
              "Certificates that client certificates have to be signed by, PEM.",
              {Command::kServe}},
             "FILE", ONCE_FIELD(tls.client_ca_file));
  table.Choice<>({"tls-client-auth",
                  "Whether clients are asked for a certificate; `request` checks one that is "
                  "given. Needs --tls-client-ca.",
                  {Command::kServe}},
                 std::vector<std::pair<std::string, rpc::ClientCertificates>>{
                     {"none", rpc::ClientCertificates::kNone},
                     {"request", rpc::ClientCertificates::kRequest},
                     {"require", rpc::ClientCertificates::kRequire}},
                 ONCE_FIELD(tls.client_certificates));
  table.Duration({"tls-reload-interval",
                  "How often the files of the TLS flags are read again.",
                  {Command::kServe}},
                 absl::Seconds(1), absl::Hours(24), ONCE_FIELD(tls.reload_interval));
  table.Switch({"reflection",
                "Offer gRPC server reflection (needs no credential), for tools such as grpcurl."},
               ONCE_FIELD(rpc.reflection));
}

void AddTransportFlags(Table& table) {
  table.Group("Transport");
  table.Integer({"rpc-threads", "Threads that read requests and write answers."}, 1, 256,
                ONCE_FIELD(rpc.threads));
  table.Integer({"max-concurrent-streams", "Calls at once on one connection."}, 1, 1'000'000,
                ONCE_FIELD(rpc.max_concurrent_streams));
  table.Bytes({"max-metadata-bytes", "Metadata of one call."}, 8 << 10, 1 << 20,
              ONCE_FIELD(rpc.max_metadata_bytes));
  table.Bytes({"memory-quota", "Memory that gRPC may use for buffers before it pushes back."},
              16 << 20, int64_t{64} << 30, ONCE_FIELD(rpc.memory_quota_bytes));
  table.Duration({"keepalive-time", "Idle time after which the server pings a client."},
                 absl::Seconds(10), absl::Hours(2), ONCE_FIELD(rpc.keepalive_time));
  table.Duration(
      {"keepalive-timeout", "Time for the answer to a ping before the connection is given up."},
      absl::Seconds(1), absl::Minutes(5), ONCE_FIELD(rpc.keepalive_timeout));
  table.Duration({"max-connection-age",
                  "Age at which a client is asked to connect again, so that connections spread "
                  "over new servers."},
                 absl::Seconds(10), absl::Hours(24 * 30), ONCE_FIELD(rpc.max_connection_age));
  table.Duration(
      {"max-connection-age-grace", "Time for the calls on a connection that is too old."},
      absl::Seconds(1), absl::Hours(1), ONCE_FIELD(rpc.max_connection_age_grace));
  table.Duration({"handshake-timeout", "Time for a new connection to finish its handshakes."},
                 absl::Seconds(1), absl::Minutes(5), ONCE_FIELD(rpc.handshake_timeout));
}

void AddLimitFlags(Table& table) {
  table.Group("Limits");
  table.Bytes({"max-content-bytes", "Content of one request."}, 1, 64 << 20,
              ONCE_FIELD(rpc.limits.max_content_bytes));
  table.Bytes(
      {"max-result-bytes", "Result of one operation. The database's packet size has to fit it."}, 1,
      64 << 20, ONCE_FIELD(rpc.limits.max_result_bytes));
  table.Bytes({"max-message-bytes",
               "One gRPC message, so a whole batch. At least 64KiB above --max-content-bytes and "
               "--max-result-bytes."},
              64 << 10, 256 << 20, ONCE_FIELD(rpc.limits.max_message_bytes));
  table.Duration({"default-lease", "Lease where the caller asks for none."}, absl::Milliseconds(1),
                 absl::Hours(24 * 30), ONCE_FIELD(rpc.limits.default_lease));
  table.Duration({"min-lease", "Shortest lease to ask for."}, absl::Milliseconds(1),
                 absl::Hours(24 * 30), ONCE_FIELD(rpc.limits.min_lease));
  table.Duration({"max-lease", "Longest lease to ask for."}, absl::Milliseconds(1),
                 absl::Hours(24 * 30), ONCE_FIELD(rpc.limits.max_lease));
  table.Duration({"max-wait", "Longest wait for an outcome."}, absl::ZeroDuration(),
                 absl::Minutes(10), ONCE_FIELD(rpc.limits.max_wait));
  table.Duration({"max-retry-delay", "Longest delay to ask for when a claim is released."},
                 absl::ZeroDuration(), absl::Hours(24 * 30),
                 ONCE_FIELD(rpc.limits.max_retry_delay));
  table.Integer({"max-batch-items", "Items of one batch call."}, 1, 10'000,
                ONCE_FIELD(rpc.limits.max_batch_items));
  table.Integer({"default-page-size", "Entries of a page where the caller asks for no number."}, 1,
                10'000, ONCE_FIELD(rpc.limits.default_page_size));
  table.Integer({"max-page-size", "Entries of a page at most."}, 1, 10'000,
                ONCE_FIELD(rpc.limits.max_page_size));
  table.Integer({"max-json-depth", "Levels of JSON content."}, 1, 10'000,
                ONCE_FIELD(rpc.limits.max_json_depth));
}

void AddPipelineFlags(Table& table) {
  table.Group("Pipeline");
  table.Integer({"committers",
                 "Connections that write, each with its share of the keys. One gathers the largest "
                 "transactions; more help where it keeps a processor of the database busy."},
                1, 256, ONCE_FIELD(pipeline.committers));
  table.Integer({"readers", "Connections that read."}, 1, 256, ONCE_FIELD(pipeline.readers));
  table.Integer(
      {"max-queue-calls", "Calls that wait for one committer or reader. Beyond: OVERLOADED."}, 1,
      10'000'000, ONCE_FIELD(pipeline.max_queue_calls));
  table.Bytes({"max-queue-bytes", "The same in bytes of content and results."}, 64 << 10,
              int64_t{16} << 30, ONCE_FIELD(pipeline.max_queue_bytes));
  table.Integer({"max-commit-calls", "Calls of one transaction."}, 1, 10'000,
                ONCE_FIELD(pipeline.max_batch_calls));
  table.Bytes(
      {"max-commit-bytes", "Bytes of one transaction; a single larger call still runs, alone."},
      64 << 10, 256 << 20, ONCE_FIELD(pipeline.max_batch_bytes));
  table.Bytes(
      {"claim-cache-bytes",
       "Claims that this server granted kept in memory, by estimate; 0 for none. They spare "
       "their completion a read; the database still guards it."},
      0, int64_t{64} << 30, ONCE_FIELD(pipeline.claim_cache_bytes));
  table.Bytes({"receipt-cache-bytes",
               "Receipts of completed operations kept in memory, by estimate; 0 for none. They "
               "answer look-ups (and duplicates, see --attempt-log), and never grant a claim."},
              0, int64_t{64} << 30, ONCE_FIELD(pipeline.receipt_cache_bytes));
  table.Duration({"receipt-cache-ttl",
                  "Time after which a receipt is read from the database again: what an operator "
                  "changes there is seen within this time."},
                 absl::Seconds(1), absl::Hours(24), ONCE_FIELD(pipeline.receipt_cache_ttl));
  table.Choice<>(
      {"attempt-log",
       "When duplicates of completed operations are in the attempt log: durable before "
       "their answer, or buffered: answered from the receipt cache, and written within "
       "--attempt-log-window. Claims, completions and all else are logged in their own "
       "transaction in both cases. For handlers whose policy does not say it."},
      std::vector<std::pair<std::string, core::AttemptLog>>{
          {"durable", core::AttemptLog::kDurable}, {"buffered", core::AttemptLog::kBuffered}},
      ONCE_FIELD(pipeline.attempt_log));
  table.Duration({"attempt-log-window",
                  "Age at which buffered entries are written: what a killed server loses at most, "
                  "while the database answers."},
                 absl::Milliseconds(10), absl::Minutes(1), ONCE_FIELD(pipeline.attempt_log_window));
  table.Integer({"max-waiters", "Calls that wait for an outcome. Beyond: OVERLOADED."}, 0,
                10'000'000, ONCE_FIELD(pipeline.max_waiters));
  table.Integer({"max-waiters-per-tenant", "The same for one tenant. Beyond: QUOTA_EXCEEDED."}, 0,
                10'000'000, ONCE_FIELD(pipeline.max_waiters_per_tenant));
  table.Duration(
      {"wait-poll-interval",
       "How often keys that are waited for are read, to see what other servers completed."},
      absl::Milliseconds(5), absl::Seconds(10), ONCE_FIELD(pipeline.wait_poll_interval));
  table.Duration({"retry-window",
                  "How long a transaction is repeated after deadlocks and lost connections before "
                  "its callers are told."},
                 absl::ZeroDuration(), absl::Minutes(10), ONCE_FIELD(pipeline.retry_window));
}

void AddAuthFlags(Table& table) {
  table.Group("Credentials");
  table.Duration({"credential-cache-ttl",
                  "How long a credential is trusted before it is read again: a revoked one is "
                  "refused within this time."},
                 absl::ZeroDuration(), absl::Hours(1), ONCE_FIELD(auth.cache_ttl));
  table.Duration(
      {"credential-stale-ttl",
       "How much longer a known credential is trusted while the database cannot be reached."},
      absl::ZeroDuration(), absl::Hours(24), ONCE_FIELD(auth.stale_ttl));
  table.Integer({"max-cached-credentials", "Credentials kept in memory, known and unknown ones."},
                1, 10'000'000, ONCE_FIELD(auth.max_cached));
  table.Integer({"max-pending-credentials",
                 "Calls that wait for a credential to be read. Beyond: OVERLOADED."},
                1, 1'000'000, ONCE_FIELD(auth.max_pending));
}

void AddPolicyFlags(Table& table) {
  table.Group("Policies");
  table.Duration({"policy-refresh-interval",
                  "How often the server asks the database whether handler policies have changed: a "
                  "change is in force on every server within this time."},
                 absl::Milliseconds(10), absl::Hours(1), ONCE_FIELD(policies.refresh_interval));
}

void AddRunFlags(Table& table) {
  table.Group("Shutdown");
  table.Duration(
      {"shutdown-grace",
       "Time to answer what is under way after SIGTERM. Keep it below the supervisor's."},
      absl::ZeroDuration(), absl::Hours(1), ONCE_FIELD(shutdown_grace));
  table.Duration({"drain-delay",
                  "How long to keep accepting calls after /readyz turned bad, for load balancers "
                  "that need to notice; part of "
                  "--shutdown-grace."},
                 absl::ZeroDuration(), absl::Hours(1), ONCE_FIELD(drain_delay));

  const CommandSet all = {Command::kServe, Command::kDev, Command::kMigrate, Command::kBootstrap};
  table.Group("Logs and metrics");
  table.Choice<>({"log-format", "Logs go to the standard error stream, one record a line.", all},
                 std::vector<std::pair<std::string, LogFormat>>{{"text", LogFormat::kText},
                                                                {"json", LogFormat::kJson}},
                 ONCE_FIELD(log.format));
  table.Choice<>({"log-level",
                  "Least level to log. Calls that were answered or refused are logged at info, "
                  "failures of the server at error.",
                  all},
                 std::vector<std::pair<std::string, LogLevel>>{{"debug", LogLevel::kDebug},
                                                               {"info", LogLevel::kInfo},
                                                               {"warn", LogLevel::kWarn},
                                                               {"error", LogLevel::kError}},
                 ONCE_FIELD(log.level));
  table.Choice<>(
      {"log-calls", "Which calls leave a record: all, those that ended in an error, or none.",
       kServers},
      std::vector<std::pair<std::string, LogCalls>>{
          {"all", LogCalls::kAll}, {"problems", LogCalls::kProblems}, {"none", LogCalls::kNone}},
      ONCE_FIELD(log.calls));
  table.Integer({"log-queue-records",
                 "Records that wait to be written. Beyond, the oldest is dropped and counted: "
                 "calls never wait for a log."},
                16, 1'000'000, ONCE_FIELD(log.queue_records));
  table.Integer(
      {"metrics-max-tenants",
       "Tenants with a metric of their own; the calls of later ones are counted under `~other`."},
      0, 100'000, ONCE_FIELD(metrics_max_tenants));

  table.Group("Commands");
  table.Text({"data-dir", "Folder of the development store and its credentials.", {Command::kDev}},
             "DIR", ONCE_FIELD(data_dir));
  table.Text({"output",
              "File to write the token to, made with mode 0600; refused where it exists. Without "
              "it the token is printed.",
              {Command::kBootstrap}},
             "FILE", ONCE_FIELD(output));
}

#undef ONCE_FIELD

void AppendCommands(const Flag& flag, std::string* out) {
  std::vector<absl::string_view> names;
  for (Command command :
       {Command::kServe, Command::kDev, Command::kMigrate, Command::kBootstrap, Command::kHealth}) {
    if (flag.commands.Contains(command)) names.push_back(CommandName(command));
  }
  absl::StrAppend(out, absl::StrJoin(names, ", "));
}

std::string EscapeCell(absl::string_view text) { return absl::StrReplaceAll(text, {{"|", "\\|"}}); }

}  // namespace

std::vector<Flag> AllFlags() {
  Table table;
  AddStoreFlags(table);
  AddListenFlags(table);
  AddTransportFlags(table);
  AddLimitFlags(table);
  AddPipelineFlags(table);
  AddAuthFlags(table);
  AddPolicyFlags(table);
  AddRunFlags(table);
  return table.Take();
}

std::string EnvironmentName(absl::string_view flag) {
  return absl::StrCat("ONCED_", absl::AsciiStrToUpper(absl::StrReplaceAll(flag, {{"-", "_"}})));
}

absl::string_view CommandName(Command command) {
  switch (command) {
    case Command::kServe:
      return "serve";
    case Command::kDev:
      return "dev";
    case Command::kMigrate:
      return "migrate";
    case Command::kBootstrap:
      return "bootstrap";
    case Command::kHealth:
      return "health";
  }
  return "";
}

std::string FlagsMarkdown() {
  std::string out =
      "# Flags of onced\n\n"
      "<!-- Made by `onced help-markdown flags`; a test compares this page with the program. "
      "-->\n\n"
      "Every flag can also be given as an environment variable (`--max-wait` is `ONCED_MAX_WAIT`) "
      "or as a line `max-wait=10s` of "
      "a flag file\n"
      "(`--flagfile FILE`; `#` starts a comment line). A flag beats the variable, the variable "
      "beats the file. Lists are not "
      "merged: the\n"
      "strongest place that names one gives all of it. Names that do not exist are refused on the "
      "command line and in the file, and "
      "warned\n"
      "about in the environment. All problems are reported at once, with exit code 2.\n\n"
      "Secrets are never flag values: flags name files.\n\n"
      "Exit codes: 0 done (also a shutdown within the grace time); 1 failed, or the grace time ran "
      "out; 2 wrong flags; 128 + N after "
      "a second\n"
      "signal N.\n";
  std::string group;
  for (const Flag& flag : AllFlags()) {
    if (flag.group != group) {
      group = flag.group;
      absl::StrAppend(&out, "\n## ", group,
                      "\n\n| flag | default | commands | meaning |\n| --- | --- | --- | --- |\n");
    }
    absl::StrAppend(
        &out, "| `--", flag.name,
        flag.value_name.empty() ? "" : absl::StrCat("=", EscapeCell(flag.value_name)), "` | ",
        flag.default_text.empty() ? "" : absl::StrCat("`", flag.default_text, "`"), " | ");
    AppendCommands(flag, &out);
    absl::StrAppend(&out, " | ", EscapeCell(flag.help), " |\n");
  }
  return out;
}

}  // namespace once::app
