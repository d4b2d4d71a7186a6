// policy, audit: what operators say about handlers, and who changed what.
#include <algorithm>
#include <istream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "admin_session.h"
#include "input.h"
#include "policy_diff.h"

namespace once::cli {
namespace {

struct PolicyFlags {
  std::string tenant;
  std::string file;
  int version = 0;
  std::string reason;
  bool accept_digest_change = false;
  int limit = 100;
};

std::string NameOf(const std::string& tenant, const VersionedPolicies& policies) {
  return policies.version.has_value() ? absl::StrCat(tenant, " version ", policies.version->version)
                                      : absl::StrCat(tenant, " without policies");
}

int32_t NumberOf(const VersionedPolicies& policies) {
  return policies.version.has_value() ? policies.version->version : 0;
}

// A file's faults name it, as compilers do: "policies.textproto:3:7: …".
absl::StatusOr<HandlerPolicies> ReadPolicies(const std::string& file, std::istream& in) {
  auto text = ReadInput(file, in);
  if (!text.ok()) return text.status();
  auto policies = HandlerPolicies::Parse(*text);
  if (policies.ok()) return policies;
  std::string faults;
  for (const absl::string_view line : absl::StrSplit(policies.status().message(), '\n')) {
    absl::StrAppend(&faults, faults.empty() ? "" : "\n", file, ":", line);
  }
  return absl::InvalidArgumentError(faults);
}

ExitCode Show(const PolicyFlags& flags, const Session& session, const AdminClient& client) {
  const auto policies = client.GetPolicies(flags.tenant, flags.version);
  if (!policies.ok()) return session.Fail(policies.status());
  if (session.flags.json) {
    Json json = {{"tenant", flags.tenant}, {"policies", policies->policies.ToText()}};
    if (policies->version.has_value()) json["version"] = ToJson(*policies->version);
    session.Print(json);
    return ExitCode::kDone;
  }
  // Comments, so that this is a file to go on with.
  session.world.out << "# " << NameOf(flags.tenant, *policies) << "\n";
  if (policies->version.has_value()) {
    session.world.out << "# " << SafeText(VersionLine(*policies->version)) << "\n";
  }
  session.world.out << policies->policies.ToText() << std::flush;
  return ExitCode::kDone;
}

// The file, the policies in force, and the difference, which is printed.
struct Comparison {
  HandlerPolicies wanted;
  int32_t current_version = 0;
  std::string difference;
};

absl::StatusOr<Comparison> Compare(const PolicyFlags& flags, const Session& session,
                                   const AdminClient& client) {
  Comparison comparison;
  auto wanted = ReadPolicies(flags.file, session.world.in);
  if (!wanted.ok()) return wanted.status();
  comparison.wanted = *std::move(wanted);
  const auto current = client.GetPolicies(flags.tenant);
  if (!current.ok()) return current.status();
  comparison.current_version = NumberOf(*current);
  comparison.difference = DiffPolicies(NameOf(flags.tenant, *current), current->policies,
                                       flags.file, comparison.wanted);
  if (!session.flags.json) session.world.out << comparison.difference << std::flush;
  return comparison;
}

// As diff(1): 1 says that there is a difference, trouble is 2 or more.
ExitCode Diff(const PolicyFlags& flags, const Session& session, const AdminClient& client) {
  const auto comparison = Compare(flags, session, client);
  if (!comparison.ok()) {
    const ExitCode code = session.Fail(comparison.status());
    return code == ExitCode::kError ? ExitCode::kUsage : code;
  }
  if (session.flags.json) {
    session.Print({{"tenant", flags.tenant},
                   {"current_version", comparison->current_version},
                   {"difference", comparison->difference}});
  }
  return comparison->difference.empty() ? ExitCode::kDone : ExitCode::kDiffers;
}

// What was shown is what is applied: after the version that it was compared with.
ExitCode Apply(const PolicyFlags& flags, const Session& session, const AdminClient& client) {
  const auto comparison = Compare(flags, session, client);
  if (!comparison.ok()) return session.Fail(comparison.status());
  PolicyChange change;
  change.tenant = flags.tenant;
  change.policies = comparison->wanted;
  change.expected_version = comparison->current_version;
  change.reason = flags.reason;
  change.accept_digest_change = flags.accept_digest_change;
  const auto applied = client.ApplyPolicies(change);
  if (!applied.ok()) return session.Fail(applied.status());
  if (session.flags.json) {
    session.Print({{"tenant", flags.tenant},
                   {"version", ToJson(applied->version.value_or(PolicyVersion()))},
                   {"difference", comparison->difference}});
    return ExitCode::kDone;
  }
  session.world.out << NameOf(flags.tenant, *applied)
                    << (comparison->difference.empty() ? " says this already\n" : " is current\n")
                    << std::flush;
  return ExitCode::kDone;
}

ExitCode History(const PolicyFlags& flags, const Session& session, const AdminClient& client) {
  return PrintList(client.ListAllPolicyVersions(flags.tenant), "versions", PolicyVersionTable,
                   session);
}

// The newest ones, page by page until there are enough.
absl::StatusOr<std::vector<AuditRecord>> NewestRecords(const PolicyFlags& flags,
                                                       const AdminClient& client) {
  constexpr int kMaxPage = 1000;
  std::vector<AuditRecord> records;
  PageRequest request;
  while (static_cast<int>(records.size()) < flags.limit) {
    // The size may change from page to page; the token is bound to the query, not to it.
    request.page_size = std::min(flags.limit - static_cast<int>(records.size()), kMaxPage);
    auto page = client.ListAuditRecords(flags.tenant, request);
    if (!page.ok()) return page.status();
    for (AuditRecord& record : page->items) records.push_back(std::move(record));
    if (page->next_page_token.empty()) break;
    request.page_token = page->next_page_token;
  }
  return records;
}

ExitCode ListAudit(const PolicyFlags& flags, const Session& session, const AdminClient& client) {
  return PrintList(NewestRecords(flags, client), "records", AuditTable, session);
}

}  // namespace

void AddPolicyCommands(CLI::App& app, Session& session) {
  CLI::App* policy = AddGroup(app, "policy", "What handlers may do and are promised (role admin)");
  auto flags = std::make_shared<PolicyFlags>();
  CLI::App* show =
      AddCommand(*policy, session, "show", "Print a tenant's policies as a file", flags, Show);
  show->add_option("tenant", flags->tenant, "whose")->required();
  show->add_option("--version", flags->version, "which version; default: the current one");

  flags = std::make_shared<PolicyFlags>();
  CLI::App* diff =
      AddCommand(*policy, session, "diff",
                 "Print what a file would change; exit code 1 where it would", flags, Diff);
  diff->add_option("tenant", flags->tenant, "whose")->required();
  diff->add_option("file", flags->file, "policies in text format; - for the standard input")
      ->required();

  flags = std::make_shared<PolicyFlags>();
  CLI::App* apply = AddCommand(*policy, session, "apply",
                               "Print what a file changes, and replace the tenant's policies by it",
                               flags, Apply);
  apply->add_option("tenant", flags->tenant, "whose")->required();
  apply->add_option("file", flags->file, "policies in text format; - for the standard input")
      ->required();
  apply->add_option("--reason", flags->reason, "why, for the history and the audit")->required();
  apply->add_flag("--accept-digest-change", flags->accept_digest_change,
                  "accept that repeats of operations begun before look like other content");

  flags = std::make_shared<PolicyFlags>();
  AddCommand(*policy, session, "history", "Who changed a tenant's policies, when and why", flags,
             History)
      ->add_option("tenant", flags->tenant, "whose")
      ->required();

  CLI::App* audit = AddGroup(app, "audit", "Who changed what (role admin)");
  flags = std::make_shared<PolicyFlags>();
  CLI::App* list = AddCommand(*audit, session, "list", "Changes, newest first", flags, ListAudit);
  list->add_option("tenant", flags->tenant, "only this tenant's");
  list->add_option("--limit", flags->limit, "how many")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
}

}  // namespace once::cli
