// The suite's fixture: one command at a time or in batches, on rows of a tenant of the test's own.
//
// Every test on rows runs twice: plainly, and with each batch done but reported as UNKNOWN, so that
// it is run again (`told_unknown`). The answers have to be the same.
#ifndef ONCE_TESTS_CONFORMANCE_HARNESS_H_
#define ONCE_TESTS_CONFORMANCE_HARNESS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "conformance/store_fixture.h"
#include "core/decide.h"
#include "core/fingerprint.h"
#include "store/batch.h"
#include "store/store.h"

namespace once::conformance {

// ---- values ----

// The same number gives the same id.
core::AttemptId AttemptNumber(uint64_t number);
// Of content that differs where `content` does.
core::Digest DigestOf(absl::string_view content,
                      core::DigestScheme scheme = core::DigestScheme::kRawSha256);
// Bytes of all values, the same for the same seed.
std::string RandomBytes(size_t size, uint64_t seed);

core::BeginRequest BeginOf(core::AttemptId attempt, absl::string_view content = "content");
core::CompleteRequest CompleteOf(const core::ClaimInfo& claim, std::string result = "result",
                                 core::ReceiptStatus status = core::ReceiptStatus::kSucceeded,
                                 std::string content_type = "text/plain");
core::AbandonRequest ReleaseOf(const core::ClaimInfo& claim,
                               absl::Duration retry_delay = absl::ZeroDuration());
core::AbandonRequest ForgetOf(const core::ClaimInfo& claim);
core::RenewRequest RenewOf(const core::ClaimInfo& claim, absl::Duration lease);

// Entry ids grow with each call in this process.
store::EntryId NextEntry();

// The same as commands for a batch, each with an entry id of its own.
store::Command BeginCommand(const core::OperationKey& key, const core::BeginRequest& request,
                            const store::DeliveryInfo& delivery = {});
store::Command CompleteCommand(const core::OperationKey& key, const core::CompleteRequest& request);
store::Command AbandonCommand(const core::OperationKey& key, const core::AbandonRequest& request,
                              std::string note = "");
store::Command RenewCommand(const core::OperationKey& key, const core::RenewRequest& request);

// "Granted" and so on, for messages.
std::string NameOf(const store::Answer& answer);
std::string NameOf(const core::LookupOutcome& outcome);

// The alternative T of `outcome`; a failure of the test, and an empty T, where it is another one.
template <typename T, typename... Ts>
T Get(const std::variant<Ts...>& outcome,
      const std::source_location& where = std::source_location::current()) {
  if (const T* value = std::get_if<T>(&outcome)) {
    return *value;
  }
  ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line()))
      << "the outcome is " << NameOf(outcome);
  return T{};
}

// ---- fixtures ----

// A database of its own, for tests of what all rows share.
class FreshDatabaseTest : public ::testing::Test {
 protected:
  FreshDatabaseTest() : database_(MakeStoreUnderTest()) {}

  // Migrated.
  std::unique_ptr<store::Store> OpenMigrated();

  const std::unique_ptr<StoreUnderTest> database_;
};

// The program's one database, and a tenant of the test's own.
class OperationTest : public ::testing::TestWithParam<bool> {
 protected:
  OperationTest();
  ~OperationTest() override;

  static bool told_unknown() { return GetParam(); }
  static StoreUnderTest& database();
  static store::Store& store();

  // Lets the process's store go and opens it again: a restart of the server.
  void RestartServer();

  core::TenantId NewTenant();
  core::HandlerId NewHandler(core::TenantId tenant);
  core::OperationKey Key(absl::string_view event_id) const;
  core::AttemptId NewAttempt();

  // Runs them as one batch, with the repeats that the status codes ask for.
  std::vector<store::Answer> Run(const std::vector<store::Command>& commands);
  // Without repeats, and without expecting success.
  absl::StatusOr<std::vector<store::Answer>> TryRun(const std::vector<store::Command>& commands);

  core::BeginOutcome Begin(const core::OperationKey& key, const core::BeginRequest& request);
  core::CompleteOutcome Complete(const core::OperationKey& key,
                                 const core::CompleteRequest& request);
  core::AbandonOutcome Abandon(const core::OperationKey& key, const core::AbandonRequest& request,
                               std::string note = "");
  core::RenewOutcome Renew(const core::OperationKey& key, const core::RenewRequest& request);
  // Reads the row, and the body where it lies apart.
  core::LookupOutcome Lookup(const core::OperationKey& key,
                             std::optional<core::Digest> digest = std::nullopt,
                             core::LapsePolicy on_lapse = core::LapsePolicy::kRetry);

  // A new attempt's claim of an operation that may be claimed.
  core::ClaimInfo Claim(const core::OperationKey& key, absl::string_view content = "content");
  // The receipt of an operation that is done, with its body.
  core::Receipt ReceiptOf(const core::OperationKey& key);
  std::optional<std::string> BodyOf(const core::OperationKey& key);

  std::optional<core::OperationRow> Row(const core::OperationKey& key);
  std::vector<std::optional<core::OperationRow>> Rows(const std::vector<core::OperationKey>& keys);
  std::vector<store::AttemptEntry> Attempts(const core::OperationKey& key);
  std::vector<store::AttemptOutcome> LoggedOutcomes(const core::OperationKey& key);
  void MoveBack(const core::OperationKey& key, absl::Duration by);
  // Ends the lease (or the delay) of the operation.
  void Lapse(const core::OperationKey& key);
  void MakeTombstone(const core::OperationKey& key);
  // The first column of the only row.
  std::string SqlValue(const std::string& statement);

  store::WriteSession& session();

  core::TenantId tenant_;
  core::HandlerId handler_;

 private:
  std::unique_ptr<store::WriteSession> session_;
  std::unique_ptr<store::ReadSession> reader_;
};

#define ONCE_OPERATION_SUITE(suite)                                                             \
  INSTANTIATE_TEST_SUITE_P(, suite, ::testing::Bool(),                                          \
                           [](const ::testing::TestParamInfo<bool>& parameter) -> std::string { \
                             return parameter.param ? "told_unknown" : "plain";                 \
                           })

}  // namespace once::conformance

#endif  // ONCE_TESTS_CONFORMANCE_HARNESS_H_
