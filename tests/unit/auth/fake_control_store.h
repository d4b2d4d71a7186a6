// A store with tenants and credentials in memory and nothing else, which fails, hangs and forgets
// connections when told. Thread-safe.
#ifndef ONCE_TESTS_UNIT_AUTH_FAKE_CONTROL_STORE_H_
#define ONCE_TESTS_UNIT_AUTH_FAKE_CONTROL_STORE_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "store/store.h"
#include "support/memory_history.h"

namespace once::testing {

class FakeControlStore final : public store::Store {
 public:
  // ---- what tests set and see ----

  // Each of the next calls of a session (or of OpenControlSession) fails with the next of these; OK
  // lets one pass.
  void FailNext(std::vector<absl::Status> failures) {
    absl::MutexLock lock(&mutex_);
    failures_.assign(failures.begin(), failures.end());
  }
  // All calls fail until SetDown(absl::OkStatus()).
  void SetDown(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    down_ = std::move(status);
  }
  // Calls block until Release().
  void Hold() {
    absl::MutexLock lock(&mutex_);
    held_ = true;
  }
  void Release() {
    absl::MutexLock lock(&mutex_);
    held_ = false;
    changed_.SignalAll();
  }
  // Returns when `calls` calls have arrived since the start (they may be blocked by Hold).
  void AwaitCalls(int calls) {
    absl::MutexLock lock(&mutex_);
    while (calls_ < calls) {
      changed_.Wait(&mutex_);
    }
  }
  int calls() const {
    absl::MutexLock lock(&mutex_);
    return calls_;
  }
  int sessions_opened() const {
    absl::MutexLock lock(&mutex_);
    return sessions_opened_;
  }
  // Of the database's clock.
  void Advance(absl::Duration by) {
    absl::MutexLock lock(&mutex_);
    now_ = now_ + by;
  }
  core::DbTime now() const {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  // As another server would.
  void PutCredential(store::CredentialRow row) {
    absl::MutexLock lock(&mutex_);
    credentials_[row.credential_id] = std::move(row);
  }
  void Revoke(const std::string& id) {
    absl::MutexLock lock(&mutex_);
    credentials_.at(id).revoked = now_;
  }
  std::vector<store::CredentialRow> credentials() const {
    absl::MutexLock lock(&mutex_);
    std::vector<store::CredentialRow> rows;
    for (const auto& [id, row] : credentials_) {
      rows.push_back(Seen(row));
    }
    return rows;
  }

  // ---- Store ----

  absl::StatusOr<std::unique_ptr<store::WriteSession>> OpenWriteSession() override {
    return absl::UnimplementedError("control plane only");
  }
  absl::StatusOr<std::unique_ptr<store::ReadSession>> OpenReadSession() override {
    return absl::UnimplementedError("control plane only");
  }
  absl::StatusOr<std::unique_ptr<store::ControlSession>> OpenControlSession() override {
    absl::MutexLock lock(&mutex_);
    if (!down_.ok()) {
      return down_;
    }
    ++sessions_opened_;
    return std::make_unique<Session>(this);
  }
  absl::StatusOr<std::vector<std::string>> Migrate() override { return std::vector<std::string>(); }
  absl::StatusOr<std::vector<std::string>> Check(size_t) override {
    return std::vector<std::string>();
  }
  int max_write_sessions() const override { return 1; }
  absl::string_view engine() const override { return "fake"; }

 private:
  class Session final : public store::ControlSession {
   public:
    explicit Session(FakeControlStore* store) : store_(store) {}

    absl::StatusOr<store::TenantRow> CreateTenant(absl::string_view name,
                                                  const store::Author& author) override {
      return Run<store::TenantRow>(
          [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return store_->CreateTenant(name, author); });
    }
    absl::StatusOr<store::TenantRow> GetTenant(absl::string_view name) override {
      return Run<store::TenantRow>(
          [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return store_->GetTenant(name); });
    }
    absl::StatusOr<std::vector<store::TenantRow>> ListTenants(absl::string_view after,
                                                              int limit) override {
      return Run<std::vector<store::TenantRow>>(
          [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return store_->ListTenants(after, limit); });
    }
    absl::StatusOr<store::CredentialRow> CreateCredential(const store::CredentialRow& row,
                                                          std::optional<absl::Duration> ttl,
                                                          const store::Author&) override {
      return Run<store::CredentialRow>(
          [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return store_->CreateCredential(row, ttl); });
    }
    absl::StatusOr<store::CredentialRow> BootstrapAdmin(const store::CredentialRow&,
                                                        const store::Author&) override {
      return absl::UnimplementedError("not needed here");
    }
    absl::StatusOr<store::CredentialRow> GetCredential(absl::string_view id) override {
      return Run<store::CredentialRow>(
          [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return store_->GetCredential(id); });
    }
    absl::StatusOr<std::vector<store::CredentialRow>> ListCredentials(
        std::optional<core::TenantId> tenant, absl::string_view after, int limit) override {
      return Run<std::vector<store::CredentialRow>>([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return store_->ListCredentials(tenant, after, limit);
      });
    }
    absl::StatusOr<store::CredentialRow> ExpireCredential(absl::string_view id, absl::Duration in,
                                                          const store::Author&) override {
      return Run<store::CredentialRow>(
          [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return store_->ExpireCredential(id, in); });
    }
    absl::StatusOr<store::CredentialRow> RevokeCredential(absl::string_view id,
                                                          const store::Author& author) override {
      return Run<store::CredentialRow>([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        auto row = store_->RevokeCredential(id);
        if (row.ok()) {
          store_->history_.Record(
              store::AuditOf(store::AuditAction::kRevokeCredential, nullptr, *row, author),
              store_->now_);
        }
        return row;
      });
    }
    absl::StatusOr<store::PolicyVersionRow> ApplyPolicies(core::TenantId tenant,
                                                          int32_t expected_version,
                                                          absl::string_view document,
                                                          const store::Author& author) override {
      return Run<store::PolicyVersionRow>([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return store_->history_.Apply(tenant, expected_version, document, author, store_->now_);
      });
    }
    absl::StatusOr<store::PolicyVersionRow> GetPolicies(core::TenantId tenant,
                                                        int32_t version) override {
      return Run<store::PolicyVersionRow>([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return store_->history_.Version(tenant, version);
      });
    }
    absl::StatusOr<std::vector<store::PolicyVersionRow>> ListPolicyVersions(core::TenantId tenant,
                                                                            int32_t before,
                                                                            int limit) override {
      return Run<std::vector<store::PolicyVersionRow>>([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return store_->history_.VersionsBefore(tenant, before, limit);
      });
    }
    absl::StatusOr<std::vector<store::PolicyVersionRow>> ReadPolicyChanges(
        int64_t change_id) override {
      return Run<std::vector<store::PolicyVersionRow>>([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return store_->history_.ChangesAfter(change_id);
      });
    }
    absl::StatusOr<std::vector<store::AuditRow>> ListAudit(std::optional<core::TenantId> tenant,
                                                           int64_t before, int limit) override {
      return Run<std::vector<store::AuditRow>>([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return store_->history_.AuditBefore(tenant, before, limit);
      });
    }
    absl::StatusOr<store::OperationRead> ReadOperation(const core::OperationKey&) override {
      return absl::UnimplementedError("not needed here");
    }
    absl::StatusOr<std::vector<store::LoggedAttempt>> ListAttempts(
        const core::OperationKey&, const std::optional<store::EntryId>&, int) override {
      return absl::UnimplementedError("not needed here");
    }
    absl::StatusOr<core::HandlerId> InternHandler(core::TenantId, absl::string_view,
                                                  bool) override {
      return absl::UnimplementedError("not needed here");
    }
    bool usable() const override { return usable_; }

   private:
    template <typename Row, typename Body>
    absl::StatusOr<Row> Run(Body body) {
      absl::MutexLock lock(&store_->mutex_);
      if (absl::Status failure = store_->Enter(); !failure.ok()) {
        usable_ = absl::IsAborted(failure);
        return failure;
      }
      return body();
    }

    FakeControlStore* const store_;
    bool usable_ = true;
  };

  absl::Status Enter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++calls_;
    changed_.SignalAll();
    while (held_) {
      changed_.Wait(&mutex_);
    }
    if (!down_.ok()) {
      return down_;
    }
    if (failures_.empty()) {
      return absl::OkStatus();
    }
    absl::Status failure = failures_.front();
    failures_.pop_front();
    return failure;
  }

  store::CredentialRow Seen(store::CredentialRow row) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    row.active = !row.revoked.has_value() && (!row.expires.has_value() || *row.expires > now_);
    for (const auto& [name, tenant] : tenants_) {
      if (tenant.id == row.tenant) {
        row.tenant_name = name;
      }
    }
    return row;
  }

  absl::StatusOr<store::TenantRow> CreateTenant(absl::string_view name, const store::Author& author)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto id = static_cast<uint32_t>(tenants_.size() + 1);
    const auto [place, added] =
        tenants_.try_emplace(std::string(name), store::TenantRow{{id}, std::string(name), now_});
    if (!added) {
      return absl::AlreadyExistsError("tenant");
    }
    history_.Record(store::AuditOf(place->second, author), now_);
    return place->second;
  }

  absl::StatusOr<store::TenantRow> GetTenant(absl::string_view name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = tenants_.find(std::string(name));
    if (found == tenants_.end()) {
      return absl::NotFoundError("tenant");
    }
    return found->second;
  }

  std::vector<store::TenantRow> ListTenants(absl::string_view after, int limit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<store::TenantRow> rows;
    for (auto it = tenants_.upper_bound(std::string(after));
         it != tenants_.end() && static_cast<int>(rows.size()) < limit; ++it) {
      rows.push_back(it->second);
    }
    return rows;
  }

  store::CredentialRow CreateCredential(store::CredentialRow row, std::optional<absl::Duration> ttl)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    row.created = now_;
    if (ttl.has_value()) {
      row.expires = now_ + *ttl;
    }
    credentials_[row.credential_id] = row;
    return Seen(row);
  }

  absl::StatusOr<store::CredentialRow> GetCredential(absl::string_view id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = credentials_.find(std::string(id));
    if (found == credentials_.end()) {
      return absl::NotFoundError("credential");
    }
    return Seen(found->second);
  }

  std::vector<store::CredentialRow> ListCredentials(std::optional<core::TenantId> tenant,
                                                    absl::string_view after, int limit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<store::CredentialRow> rows;
    for (auto it = credentials_.upper_bound(std::string(after));
         it != credentials_.end() && static_cast<int>(rows.size()) < limit; ++it) {
      if (!tenant.has_value() || it->second.tenant == *tenant) {
        rows.push_back(Seen(it->second));
      }
    }
    return rows;
  }

  absl::StatusOr<store::CredentialRow> ExpireCredential(absl::string_view id, absl::Duration in)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = credentials_.find(std::string(id));
    if (found == credentials_.end()) {
      return absl::NotFoundError("credential");
    }
    const core::DbTime end = now_ + in;
    if (!found->second.expires.has_value() || *found->second.expires > end) {
      found->second.expires = end;
    }
    return Seen(found->second);
  }

  absl::StatusOr<store::CredentialRow> RevokeCredential(absl::string_view id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = credentials_.find(std::string(id));
    if (found == credentials_.end()) {
      return absl::NotFoundError("credential");
    }
    if (!found->second.revoked.has_value()) {
      found->second.revoked = now_;
    }
    return Seen(found->second);
  }

  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  std::map<std::string, store::TenantRow> tenants_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, store::CredentialRow> credentials_ ABSL_GUARDED_BY(mutex_);
  test::MemoryHistory history_ ABSL_GUARDED_BY(mutex_);
  std::deque<absl::Status> failures_ ABSL_GUARDED_BY(mutex_);
  absl::Status down_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int sessions_opened_ ABSL_GUARDED_BY(mutex_) = 0;
  core::DbTime now_ ABSL_GUARDED_BY(mutex_){1'700'000'000'000'000};
};

}  // namespace once::testing

#endif  // ONCE_TESTS_UNIT_AUTH_FAKE_CONTROL_STORE_H_
