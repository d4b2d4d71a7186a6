// The suite on the store in memory, so that tests that use it test against the contract.
#include <algorithm>
#include <memory>
#include <utility>

#include "conformance/store_fixture.h"
#include "support/memory_store.h"

namespace once::conformance {
namespace {

// Another server on the same database.
class Server final : public store::Store {
 public:
  explicit Server(test::MemoryStore* store) : store_(store) {}
  absl::StatusOr<std::unique_ptr<store::WriteSession>> OpenWriteSession() override {
    return store_->OpenWriteSession();
  }
  absl::StatusOr<std::unique_ptr<store::ReadSession>> OpenReadSession() override {
    return store_->OpenReadSession();
  }
  absl::StatusOr<std::unique_ptr<store::ControlSession>> OpenControlSession() override {
    return store_->OpenControlSession();
  }
  absl::StatusOr<std::vector<std::string>> Migrate() override { return store_->Migrate(); }
  absl::StatusOr<std::vector<std::string>> Check(size_t max_result_bytes) override {
    return store_->Check(max_result_bytes);
  }
  int max_write_sessions() const override { return store_->max_write_sessions(); }
  absl::string_view engine() const override { return store_->engine(); }

 private:
  test::MemoryStore* const store_;
};

class MemoryUnderTest final : public StoreUnderTest {
 public:
  std::unique_ptr<store::Store> Open() override { return std::make_unique<Server>(&store_); }
  bool several_servers() const override { return true; }

  absl::StatusOr<std::vector<SqlRow>> Sql(const std::string&) override {
    return absl::UnimplementedError("no SQL in memory");
  }

  absl::StatusOr<std::vector<LoggedAttempt>> Attempts(const core::OperationKey& key) override {
    std::vector<LoggedAttempt> attempts;
    for (test::LoggedAttempt& attempt : store_.Attempts(key)) {
      attempts.push_back({std::move(attempt.entry), attempt.logged});
    }
    std::sort(attempts.begin(), attempts.end(),
              [](const auto& a, const auto& b) { return a.entry.entry < b.entry.entry; });
    return attempts;
  }

  absl::Status MoveBack(const core::OperationKey& key, absl::Duration by) override {
    std::optional<core::OperationRow> row = store_.Row(key);
    if (!row.has_value()) return absl::OkStatus();
    row->claim.begun = row->claim.begun + -by;
    row->claim.lease_expires = row->claim.lease_expires + -by;
    row->first_seen = row->first_seen + -by;
    if (row->receipt.has_value()) row->receipt->completed = row->receipt->completed + -by;
    store_.PutRow(key, *std::move(row));
    return absl::OkStatus();
  }

  absl::Status MakeTombstone(const core::OperationKey& key) override {
    std::optional<core::OperationRow> row = store_.Row(key);
    if (!row.has_value()) return absl::NotFoundError("no such operation");
    row->state = core::RowState::kTombstone;
    row->receipt->result.reset();
    store_.PutRow(key, *std::move(row));
    return absl::OkStatus();
  }

 private:
  test::MemoryStore store_;
};

}  // namespace

std::unique_ptr<StoreUnderTest> MakeStoreUnderTest() { return std::make_unique<MemoryUnderTest>(); }

}  // namespace once::conformance
