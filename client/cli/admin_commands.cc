// tenants, credentials: for operators.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "admin_session.h"
#include "input.h"

namespace once::cli {
namespace {

struct AdminFlags {
  std::string tenant;
  std::string role = "consumer";
  std::vector<std::string> handlers;
  std::string description;
  std::string ttl = "0";
  std::string credential_id;
  std::string overlap;
  std::string reason;
};

const std::map<std::string, Role>& Roles() {
  static const auto* roles = new std::map<std::string, Role>{
      {"consumer", Role::kConsumer}, {"operator", Role::kOperator}, {"admin", Role::kAdmin}};
  return *roles;
}

// Why, for the audit.
CallOptions BecauseOf(const AdminFlags& flags) {
  CallOptions options;
  options.reason = flags.reason;
  return options;
}

// The token alone goes to the standard output, so that it can go into a file; the rest is for eyes.
void PrintIssued(const IssuedCredential& issued, Json json, const Session& session) {
  if (session.flags.json) {
    json["token"] = issued.token;
    session.Print(json);
    return;
  }
  session.world.err << HumanText(json) << std::flush;
  session.world.out << issued.token << "\n" << std::flush;
}

ExitCode CreateTenant(const AdminFlags& flags, const Session& session, const AdminClient& client) {
  const auto tenant = client.CreateTenant(flags.tenant, BecauseOf(flags));
  if (!tenant.ok()) return session.Fail(tenant.status());
  session.Print({{"tenant", ToJson(*tenant)}});
  return ExitCode::kDone;
}

ExitCode ListTenants(const AdminFlags&, const Session& session, const AdminClient& client) {
  return PrintList(client.ListAllTenants(), "tenants", TenantTable, session);
}

ExitCode CreateCredential(const AdminFlags& flags, const Session& session,
                          const AdminClient& client) {
  auto ttl = ParseDuration(flags.ttl);
  if (!ttl.ok()) return session.Fail(ttl.status());
  const auto issued = client.CreateCredential(
      {flags.tenant, Roles().at(flags.role), flags.handlers, flags.description, *ttl},
      BecauseOf(flags));
  if (!issued.ok()) return session.Fail(issued.status());
  PrintIssued(*issued, {{"credential", ToJson(issued->credential)}}, session);
  return ExitCode::kDone;
}

ExitCode ListCredentials(const AdminFlags& flags, const Session& session,
                         const AdminClient& client) {
  return PrintList(client.ListAllCredentials(flags.tenant), "credentials", CredentialTable,
                   session);
}

ExitCode RotateCredential(const AdminFlags& flags, const Session& session,
                          const AdminClient& client) {
  std::optional<absl::Duration> overlap;
  if (!flags.overlap.empty()) {
    auto parsed = ParseDuration(flags.overlap);
    if (!parsed.ok()) return session.Fail(parsed.status());
    overlap = *parsed;
  }
  const auto rotated = client.RotateCredential(flags.credential_id, overlap, BecauseOf(flags));
  if (!rotated.ok()) return session.Fail(rotated.status());
  PrintIssued(
      rotated->issued,
      {{"credential", ToJson(rotated->issued.credential)}, {"replaced", ToJson(rotated->replaced)}},
      session);
  return ExitCode::kDone;
}

ExitCode RevokeCredential(const AdminFlags& flags, const Session& session,
                          const AdminClient& client) {
  const auto credential = client.RevokeCredential(flags.credential_id, BecauseOf(flags));
  if (!credential.ok()) return session.Fail(credential.status());
  session.Print({{"credential", ToJson(*credential)}});
  return ExitCode::kDone;
}

void AddReason(CLI::App* command, AdminFlags& flags) {
  command->add_option("--reason", flags.reason, "why, for the audit");
}

}  // namespace

void AddAdminCommands(CLI::App& app, Session& session) {
  CLI::App* tenants = AddGroup(app, "tenants", "Name spaces of operations (role admin)");
  auto flags = std::make_shared<AdminFlags>();
  CLI::App* make = AddCommand(*tenants, session, "create", "Make a tenant", flags, CreateTenant);
  make->add_option("name", flags->tenant, "1-128 bytes of [A-Za-z0-9._:/-]")->required();
  AddReason(make, *flags);
  AddCommand(*tenants, session, "list", "List tenants", flags, ListTenants);

  CLI::App* credentials = AddGroup(app, "credentials", "Rights to call (role admin)");
  flags = std::make_shared<AdminFlags>();
  CLI::App* create =
      AddCommand(*credentials, session, "create",
                 "Make a credential; its token is printed this once", flags, CreateCredential);
  create->add_option("tenant", flags->tenant, "its tenant; none for role admin");
  create->add_option("--role", flags->role, "what it may do")
      ->check(CLI::IsMember(Roles()))
      ->capture_default_str();
  create->add_option("--handler", flags->handlers,
                     "handlers it covers: a name, or a prefix that ends in *; may be repeated");
  create->add_option("--description", flags->description, "for people");
  create->add_option("--ttl", flags->ttl, "how long it is good; default: without end");
  AddReason(create, *flags);

  flags = std::make_shared<AdminFlags>();
  AddCommand(*credentials, session, "list", "List credentials, also revoked ones", flags,
             ListCredentials)
      ->add_option("tenant,--tenant", flags->tenant, "only this tenant's");

  flags = std::make_shared<AdminFlags>();
  CLI::App* rotate = AddCommand(*credentials, session, "rotate",
                                "Replace a credential; the old one stays good for a while", flags,
                                RotateCredential);
  rotate->add_option("credential-id", flags->credential_id, "16 hexadecimal digits")->required();
  rotate->add_option("--overlap", flags->overlap, "how long the old one stays good; default 24h");
  AddReason(rotate, *flags);

  flags = std::make_shared<AdminFlags>();
  CLI::App* revoke =
      AddCommand(*credentials, session, "revoke", "End a credential", flags, RevokeCredential);
  revoke->add_option("credential-id", flags->credential_id, "16 hexadecimal digits")->required();
  AddReason(revoke, *flags);
}

}  // namespace once::cli
