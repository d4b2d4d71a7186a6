#include "app/dev.h"

#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "app/files.h"
#include "auth/credential.h"
#include "store/sqlite/sqlite_store.h"

namespace once::app {
namespace {

constexpr absl::string_view kTenant = "dev";

// Who makes what a new store needs.
store::Author Dev() { return {.credential_id = {}, .reason = "onced dev"}; }

absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  const int error = errno;
  return absl::ErrnoToStatus(error,
                             absl::StrCat("--data-dir=", path, ": the folder cannot be made"));
}

absl::StatusOr<core::TenantId> EnsureTenant(store::ControlSession& session) {
  absl::StatusOr<store::TenantRow> tenant = session.GetTenant(kTenant);
  if (absl::IsNotFound(tenant.status())) tenant = session.CreateTenant(kTenant, Dev());
  if (!tenant.ok()) return tenant.status();
  return tenant->id;
}

// The file may be from another store, for example when only the database was deleted.
bool IsGood(store::ControlSession& session, const std::string& file) {
  const absl::StatusOr<base::Secret> token = ReadSecret(file);
  if (!token.ok()) return false;
  const std::optional<auth::ParsedToken> parsed = auth::ParseToken(token->Reveal());
  if (!parsed.has_value()) return false;
  const absl::StatusOr<store::CredentialRow> row = session.GetCredential(parsed->credential_id);
  return row.ok() && row->active && row->secret_sha256 == parsed->secret_sha256;
}

absl::Status EnsureCredential(store::ControlSession& session, store::CredentialRow row,
                              const std::string& file) {
  if (IsGood(session, file)) return absl::OkStatus();
  const auth::NewCredential credential = auth::MakeCredential();
  row.credential_id = credential.credential_id;
  row.secret_sha256 = credential.secret_sha256;
  row.description = "made by onced dev";
  const absl::Status written =
      ReplaceFile(file, absl::StrCat(credential.token.Reveal(), "\n"), 0600);
  if (!written.ok()) {
    return absl::Status(written.code(), absl::StrCat(file, ": ", written.message()));
  }
  return session.CreateCredential(row, std::nullopt, Dev()).status();
}

absl::Status EnsureCredentials(const DevStore& dev) {
  absl::StatusOr<std::unique_ptr<store::ControlSession>> session = dev.store->OpenControlSession();
  if (!session.ok()) return session.status();
  const absl::StatusOr<core::TenantId> tenant = EnsureTenant(**session);
  if (!tenant.ok()) return tenant.status();
  store::CredentialRow consumer;
  consumer.tenant = *tenant;
  consumer.role = store::Role::kConsumer;
  consumer.handler_patterns = {"*"};
  absl::Status status = EnsureCredential(**session, consumer, dev.credential_file);
  if (!status.ok()) return status;
  store::CredentialRow admin;
  admin.role = store::Role::kAdmin;
  return EnsureCredential(**session, admin, dev.admin_credential_file);
}

}  // namespace

absl::StatusOr<DevStore> OpenDevStore(const std::string& data_dir, const base::Clock* clock) {
  if (absl::Status made = MakeFolder(data_dir); !made.ok()) return made;
  DevStore dev;
  dev.data_dir = data_dir;
  dev.credential_file = absl::StrCat(data_dir, "/credential");
  dev.admin_credential_file = absl::StrCat(data_dir, "/admin-credential");
  store::SqliteOptions options;
  options.path = absl::StrCat(data_dir, "/once.db");
  options.clock = clock;
  absl::StatusOr<std::unique_ptr<store::Store>> store = store::OpenSqliteStore(options);
  if (!store.ok()) return store.status();
  dev.store = *std::move(store);
  const absl::StatusOr<std::vector<std::string>> steps = dev.store->Migrate();
  if (!steps.ok()) return steps.status();
  if (absl::Status status = EnsureCredentials(dev); !status.ok()) return status;
  return dev;
}

std::string DevInstructions(const DevStore& dev, absl::string_view grpc_address,
                            absl::string_view http_address) {
  std::string text = absl::Substitute(
      "\nOnce runs for development. Nothing but this machine can reach it.\n\n"
      "  gRPC         $0, without TLS\n"
      "  credential   $1 (tenant \"$2\", all handlers)\n"
      "  admin        $3\n",
      grpc_address, dev.credential_file, kTenant, dev.admin_credential_file);
  if (!http_address.empty()) {
    absl::StrAppend(&text, "  HTTP         http://", http_address, "/metrics\n");
  }
  absl::StrAppend(
      &text, absl::Substitute(
                 "\nAsk for the right to act; run it twice to see the second caller being told:\n\n"
                 "  oncectl --server=$0 --token-file=$1 begin points.grant evt-1 "
                 "--content-string='{\"points\":7}'\n\n"
                 "The same with any gRPC tool:\n\n"
                 "  grpcurl -plaintext -H \"authorization: Bearer $$(cat $1)\" \\\n"
                 "    -d '{\"handler\":\"points.grant\",\"event_id\":\"ZXZ0LTE=\","
                 "\"content\":{\"data\":\"eyJwb2ludHMiOjd9\"},\"attempt_id\":"
                 "\"AAECAwQFBgcICQoLDA0ODw==\"}' \\\n"
                 "    $0 once.v1.IdempotencyService/Begin\n\n"
                 "From Python, after generating stubs from proto/once/v1:\n\n"
                 "  token = open(\"$1\").read().strip()\n"
                 "  stub = IdempotencyServiceStub(grpc.insecure_channel(\"$0\"))\n"
                 "  stub.Begin(BeginRequest(handler=\"points.grant\", event_id=b\"evt-1\", "
                 "attempt_id=uuid.uuid4().bytes,\n"
                 "                          content=Content(data=b'{\"points\":7}')),\n"
                 "             metadata=[(\"authorization\", \"Bearer \" + token)])\n\n"
                 "Ctrl-C ends it; the data stays in $2.\n\n",
                 grpc_address, dev.credential_file, dev.data_dir));
  return text;
}

}  // namespace once::app
