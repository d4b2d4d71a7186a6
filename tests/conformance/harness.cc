#include "conformance/harness.h"

#include <atomic>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"

namespace once::conformance {
namespace {

// The program's one database. Tests on rows do not meet in it, as each has a tenant of its own.
class SharedDatabase {
 public:
  static SharedDatabase& Get() {
    if (instance == nullptr) {
      instance = std::make_unique<SharedDatabase>();
    }
    return *instance;
  }
  // Before main ends, so that nothing is left behind.
  static void Destroy() { instance.reset(); }

  SharedDatabase() : database_(MakeStoreUnderTest()) { Open(); }

  void Reopen() {
    store_.reset();
    Open();
  }

  StoreUnderTest& database() { return *database_; }
  store::Store& store() { return *store_; }

 private:
  void Open() {
    store_ = database_->Open();
    if (auto steps = store_->Migrate(); !steps.ok()) {
      ADD_FAILURE() << steps.status();
    }
  }

  static std::unique_ptr<SharedDatabase> instance;

  const std::unique_ptr<StoreUnderTest> database_;
  std::unique_ptr<store::Store> store_;
};

std::unique_ptr<SharedDatabase> SharedDatabase::instance;

class DestroyAtEnd final : public ::testing::Environment {
 public:
  void TearDown() override { SharedDatabase::Destroy(); }
};

const ::testing::Environment* const kDestroyAtEnd =
    ::testing::AddGlobalTestEnvironment(new DestroyAtEnd);

std::atomic<uint64_t> last_number{0};

// Repeats of a batch after ABORTED; on one machine a handful is plenty.
constexpr int kMaxTries = 100;

struct OutcomeName {
  std::string operator()(const core::Granted&) const { return "Granted"; }
  std::string operator()(const core::Completed& completed) const {
    return completed.replayed ? "Completed (replayed)" : "Completed";
  }
  std::string operator()(const core::InProgress&) const { return "InProgress"; }
  std::string operator()(const core::Conflict&) const { return "Conflict"; }
  std::string operator()(const core::InDoubt&) const { return "InDoubt"; }
  std::string operator()(const core::Stale&) const { return "Stale"; }
  std::string operator()(const core::Expired&) const { return "Expired"; }
  std::string operator()(const core::Unclaimed&) const { return "Unclaimed"; }
  std::string operator()(const core::ClaimLost&) const { return "ClaimLost"; }
  std::string operator()(const core::CompletionConflict&) const { return "CompletionConflict"; }
  std::string operator()(const core::Abandoned&) const { return "Abandoned"; }
  std::string operator()(const core::Released&) const { return "Released"; }
  std::string operator()(const core::Renewed&) const { return "Renewed"; }
  std::string operator()(const core::NotFound&) const { return "NotFound"; }
};

}  // namespace

core::AttemptId AttemptNumber(uint64_t number) {
  core::AttemptId attempt;
  attempt.bytes[0] = 0xa7;
  for (size_t i = 0; i < 8; ++i) {
    attempt.bytes[15 - i] = static_cast<uint8_t>(number >> (8 * i));
  }
  return attempt;
}

core::Digest DigestOf(absl::string_view content, core::DigestScheme scheme) {
  return {.scheme = scheme, .sha256 = base::Sha256(content)};
}

std::string RandomBytes(size_t size, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(generator());
  }
  return bytes;
}

core::BeginRequest BeginOf(core::AttemptId attempt, absl::string_view content) {
  return {.digest = DigestOf(content),
          .attempt = attempt,
          .lease = absl::Minutes(10),
          .consumer = absl::StrCat("consumer-", attempt.bytes[15]),
          .handler_version = "v1",
          .on_lapse = core::LapsePolicy::kRetry};
}

core::CompleteRequest CompleteOf(const core::ClaimInfo& claim, std::string result,
                                 core::ReceiptStatus status, std::string content_type) {
  const core::Sha256 fingerprint = core::FingerprintOf(status, content_type, result);
  return {.attempt = claim.attempt,
          .fence = claim.fence,
          .status = status,
          .result = std::move(result),
          .content_type = std::move(content_type),
          .fingerprint = fingerprint};
}

core::AbandonRequest ReleaseOf(const core::ClaimInfo& claim, absl::Duration retry_delay) {
  return {
      .attempt = claim.attempt, .fence = claim.fence, .forget = false, .retry_delay = retry_delay};
}

core::AbandonRequest ForgetOf(const core::ClaimInfo& claim) {
  return {.attempt = claim.attempt, .fence = claim.fence, .forget = true, .retry_delay = {}};
}

core::RenewRequest RenewOf(const core::ClaimInfo& claim, absl::Duration lease) {
  return {.attempt = claim.attempt, .fence = claim.fence, .lease = lease};
}

store::EntryId NextEntry() {
  store::EntryId entry{};
  const uint64_t number = ++last_number;
  for (size_t i = 0; i < 8; ++i) {
    entry[i] = static_cast<uint8_t>(number >> (56 - 8 * i));
  }
  return entry;
}

store::Command BeginCommand(const core::OperationKey& key, const core::BeginRequest& request,
                            const store::DeliveryInfo& delivery) {
  return store::BeginCommand{
      .key = key, .entry = NextEntry(), .request = request, .delivery = delivery};
}

store::Command CompleteCommand(const core::OperationKey& key,
                               const core::CompleteRequest& request) {
  return store::CompleteCommand{.key = key, .entry = NextEntry(), .request = request};
}

store::Command AbandonCommand(const core::OperationKey& key, const core::AbandonRequest& request,
                              std::string note) {
  return store::AbandonCommand{
      .key = key, .entry = NextEntry(), .request = request, .note = std::move(note)};
}

store::Command RenewCommand(const core::OperationKey& key, const core::RenewRequest& request) {
  return store::RenewCommand{.key = key, .entry = NextEntry(), .request = request};
}

std::string NameOf(const store::Answer& answer) {
  return std::visit([](const auto& outcome) { return std::visit(OutcomeName{}, outcome); }, answer);
}

std::string NameOf(const core::LookupOutcome& outcome) {
  return std::visit(OutcomeName{}, outcome);
}

// ---- FreshDatabaseTest ----

std::unique_ptr<store::Store> FreshDatabaseTest::OpenMigrated() {
  std::unique_ptr<store::Store> store = database_->Open();
  auto steps = store->Migrate();
  EXPECT_TRUE(steps.ok()) << steps.status();
  return store;
}

// ---- OperationTest ----

OperationTest::OperationTest() {
  tenant_ = NewTenant();
  handler_ = NewHandler(tenant_);
}

OperationTest::~OperationTest() = default;

StoreUnderTest& OperationTest::database() { return SharedDatabase::Get().database(); }
store::Store& OperationTest::store() { return SharedDatabase::Get().store(); }

void OperationTest::RestartServer() {
  session_.reset();
  reader_.reset();
  SharedDatabase::Get().Reopen();
}

core::TenantId OperationTest::NewTenant() {
  auto control = store().OpenControlSession();
  if (!control.ok()) {
    ADD_FAILURE() << control.status();
    return {};
  }
  auto tenant = (*control)->CreateTenant(absl::StrCat("tenant-", ++last_number), {});
  EXPECT_TRUE(tenant.ok()) << tenant.status();
  return tenant.ok() ? tenant->id : core::TenantId{};
}

core::HandlerId OperationTest::NewHandler(core::TenantId tenant) {
  auto control = store().OpenControlSession();
  if (!control.ok()) {
    ADD_FAILURE() << control.status();
    return {};
  }
  auto handler = (*control)->InternHandler(tenant, absl::StrCat("handler-", ++last_number), true);
  EXPECT_TRUE(handler.ok()) << handler.status();
  return handler.ok() ? *handler : core::HandlerId{};
}

core::OperationKey OperationTest::Key(absl::string_view event_id) const {
  return {.tenant = tenant_, .handler = handler_, .event_id = std::string(event_id)};
}

core::AttemptId OperationTest::NewAttempt() { return AttemptNumber(++last_number); }

store::WriteSession& OperationTest::session() {
  if (session_ == nullptr || !session_->usable()) {
    auto opened = store().OpenWriteSession();
    EXPECT_TRUE(opened.ok()) << opened.status();
    session_ = *std::move(opened);
  }
  return *session_;
}

std::vector<store::Answer> OperationTest::Run(const std::vector<store::Command>& commands) {
  // What a server does whose COMMIT succeeded but whose connection broke before it knew.
  for (bool repeated : told_unknown() ? std::vector<bool>{false, true} : std::vector<bool>{false}) {
    for (int tries = 1;; ++tries) {
      auto answers = store::RunBatch(session(), commands, repeated);
      if (answers.ok()) {
        if (repeated == told_unknown()) return *std::move(answers);
        break;
      }
      if (!absl::IsAborted(answers.status()) || tries == kMaxTries) {
        ADD_FAILURE() << answers.status();
        return {};
      }
    }
  }
  return {};
}

absl::StatusOr<std::vector<store::Answer>> OperationTest::TryRun(
    const std::vector<store::Command>& commands) {
  return store::RunBatch(session(), commands, false);
}

core::BeginOutcome OperationTest::Begin(const core::OperationKey& key,
                                        const core::BeginRequest& request) {
  const auto answers = Run({BeginCommand(key, request)});
  return answers.empty() ? core::BeginOutcome{} : std::get<core::BeginOutcome>(answers[0]);
}

core::CompleteOutcome OperationTest::Complete(const core::OperationKey& key,
                                              const core::CompleteRequest& request) {
  const auto answers = Run({CompleteCommand(key, request)});
  return answers.empty() ? core::CompleteOutcome{} : std::get<core::CompleteOutcome>(answers[0]);
}

core::AbandonOutcome OperationTest::Abandon(const core::OperationKey& key,
                                            const core::AbandonRequest& request, std::string note) {
  const auto answers = Run({AbandonCommand(key, request, std::move(note))});
  return answers.empty() ? core::AbandonOutcome{} : std::get<core::AbandonOutcome>(answers[0]);
}

core::RenewOutcome OperationTest::Renew(const core::OperationKey& key,
                                        const core::RenewRequest& request) {
  const auto answers = Run({RenewCommand(key, request)});
  return answers.empty() ? core::RenewOutcome{} : std::get<core::RenewOutcome>(answers[0]);
}

core::LookupOutcome OperationTest::Lookup(const core::OperationKey& key,
                                          std::optional<core::Digest> digest,
                                          core::LapsePolicy on_lapse) {
  (void)Row(key);  // opens the reader
  auto rows = reader_->Read({&key, 1});
  if (!rows.ok() || rows->others.size() != 1) {
    ADD_FAILURE() << rows.status();
    return core::NotFound{};
  }
  std::optional<core::OperationRow>& row = rows->others[0];
  core::LookupOutcome outcome = core::DecideLookup(
      row.has_value() ? &*row : nullptr, {.digest = digest, .on_lapse = on_lapse}, rows->now);
  if (auto* completed = std::get_if<core::Completed>(&outcome);
      completed != nullptr && !completed->receipt.result.has_value()) {
    completed->receipt.result = BodyOf(key);
  }
  return outcome;
}

core::ClaimInfo OperationTest::Claim(const core::OperationKey& key, absl::string_view content) {
  return Get<core::Granted>(Begin(key, BeginOf(NewAttempt(), content))).claim;
}

core::Receipt OperationTest::ReceiptOf(const core::OperationKey& key) {
  return Get<core::Completed>(Lookup(key)).receipt;
}

std::optional<std::string> OperationTest::BodyOf(const core::OperationKey& key) {
  (void)Row(key);
  auto bodies = reader_->ReadBodies({&key, 1});
  if (!bodies.ok() || bodies->size() != 1) {
    ADD_FAILURE() << bodies.status();
    return std::nullopt;
  }
  return (*bodies)[0];
}

std::optional<core::OperationRow> OperationTest::Row(const core::OperationKey& key) {
  return Rows({key})[0];
}

std::vector<std::optional<core::OperationRow>> OperationTest::Rows(
    const std::vector<core::OperationKey>& keys) {
  if (reader_ == nullptr) {
    auto opened = store().OpenReadSession();
    EXPECT_TRUE(opened.ok()) << opened.status();
    reader_ = *std::move(opened);
  }
  auto rows = reader_->Read(keys);
  if (!rows.ok() || rows->others.size() != keys.size()) {
    ADD_FAILURE() << rows.status();
    return std::vector<std::optional<core::OperationRow>>(keys.size());
  }
  return std::move(rows->others);
}

std::vector<store::AttemptEntry> OperationTest::Attempts(const core::OperationKey& key) {
  auto logged = database().Attempts(key);
  EXPECT_TRUE(logged.ok()) << logged.status();
  std::vector<store::AttemptEntry> entries;
  if (logged.ok()) {
    for (LoggedAttempt& attempt : *logged) {
      entries.push_back(std::move(attempt.entry));
    }
  }
  return entries;
}

std::vector<store::AttemptOutcome> OperationTest::LoggedOutcomes(const core::OperationKey& key) {
  std::vector<store::AttemptOutcome> outcomes;
  for (const store::AttemptEntry& entry : Attempts(key)) {
    outcomes.push_back(entry.outcome);
  }
  return outcomes;
}

void OperationTest::MoveBack(const core::OperationKey& key, absl::Duration by) {
  absl::Status status = database().MoveBack(key, by);
  EXPECT_TRUE(status.ok()) << status;
}

void OperationTest::Lapse(const core::OperationKey& key) { MoveBack(key, absl::Hours(1)); }

void OperationTest::MakeTombstone(const core::OperationKey& key) {
  absl::Status status = database().MakeTombstone(key);
  EXPECT_TRUE(status.ok()) << status;
}

std::string OperationTest::SqlValue(const std::string& statement) {
  auto rows = database().Sql(statement);
  if (!rows.ok() || rows->size() != 1 || rows->front().empty()) {
    ADD_FAILURE() << statement << ": " << rows.status();
    return "";
  }
  return rows->front()[0].value_or("NULL");
}

}  // namespace once::conformance
