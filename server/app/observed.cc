#include "app/observed.h"

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace once::app {
namespace {

// Says once, when a session goes, that it went.
class OpenSession {
 public:
  OpenSession(StoreObserver* observer, absl::string_view kind) : observer_(observer), kind_(kind) {}
  OpenSession(const OpenSession&) = delete;
  OpenSession& operator=(const OpenSession&) = delete;
  ~OpenSession() { observer_->OnSessionClosed(kind_); }

 private:
  StoreObserver* const observer_;
  const absl::string_view kind_;
};

class ObservedWriteSession final : public store::WriteSession {
 public:
  static constexpr absl::string_view kKind = "write";
  ObservedWriteSession(std::unique_ptr<store::WriteSession> inner, StoreObserver* observer)
      : open_(observer, kKind), inner_(std::move(inner)) {}

  absl::StatusOr<std::vector<core::AggregateRow>> LockAggregates(
      absl::Span<const core::AggregateKey> keys) override {
    return inner_->LockAggregates(keys);
  }
  absl::StatusOr<std::vector<std::optional<core::OperationRow>>> ReadAlso(
      absl::Span<const core::OperationKey> keys) override {
    return inner_->ReadAlso(keys);
  }
  absl::StatusOr<store::RowSet> TouchAndRead(absl::Span<const store::NewOperation> inserts,
                                             absl::Span<const core::OperationKey> others) override {
    return inner_->TouchAndRead(inserts, others);
  }
  absl::Status Write(const store::WriteSet& writes) override { return inner_->Write(writes); }
  absl::Status Commit() override { return inner_->Commit(); }
  void Rollback() override { inner_->Rollback(); }
  bool usable() const override { return inner_->usable(); }

 private:
  OpenSession open_;
  std::unique_ptr<store::WriteSession> inner_;
};

class ObservedReadSession final : public store::ReadSession {
 public:
  static constexpr absl::string_view kKind = "read";
  ObservedReadSession(std::unique_ptr<store::ReadSession> inner, StoreObserver* observer)
      : open_(observer, kKind), inner_(std::move(inner)) {}

  absl::StatusOr<store::RowSet> Read(absl::Span<const core::OperationKey> keys) override {
    return inner_->Read(keys);
  }
  absl::StatusOr<std::vector<std::optional<std::string>>> ReadBodies(
      absl::Span<const core::OperationKey> keys) override {
    return inner_->ReadBodies(keys);
  }
  bool usable() const override { return inner_->usable(); }

 private:
  OpenSession open_;
  std::unique_ptr<store::ReadSession> inner_;
};

class ObservedControlSession final : public store::ControlSession {
 public:
  static constexpr absl::string_view kKind = "control";
  ObservedControlSession(std::unique_ptr<store::ControlSession> inner, StoreObserver* observer)
      : open_(observer, kKind), inner_(std::move(inner)) {}

  absl::StatusOr<store::TenantRow> CreateTenant(absl::string_view name,
                                                const store::Author& author) override {
    return inner_->CreateTenant(name, author);
  }
  absl::StatusOr<store::TenantRow> GetTenant(absl::string_view name) override {
    return inner_->GetTenant(name);
  }
  absl::StatusOr<std::vector<store::TenantRow>> ListTenants(absl::string_view after,
                                                            int limit) override {
    return inner_->ListTenants(after, limit);
  }
  absl::StatusOr<store::CredentialRow> CreateCredential(const store::CredentialRow& row,
                                                        std::optional<absl::Duration> ttl,
                                                        const store::Author& author) override {
    return inner_->CreateCredential(row, ttl, author);
  }
  absl::StatusOr<store::CredentialRow> BootstrapAdmin(const store::CredentialRow& row,
                                                      const store::Author& author) override {
    return inner_->BootstrapAdmin(row, author);
  }
  absl::StatusOr<store::CredentialRow> GetCredential(absl::string_view credential_id) override {
    return inner_->GetCredential(credential_id);
  }
  absl::StatusOr<std::vector<store::CredentialRow>> ListCredentials(
      std::optional<core::TenantId> tenant, absl::string_view after, int limit) override {
    return inner_->ListCredentials(tenant, after, limit);
  }
  absl::StatusOr<store::CredentialRow> ExpireCredential(absl::string_view credential_id,
                                                        absl::Duration in,
                                                        const store::Author& author) override {
    return inner_->ExpireCredential(credential_id, in, author);
  }
  absl::StatusOr<store::CredentialRow> RevokeCredential(absl::string_view credential_id,
                                                        const store::Author& author) override {
    return inner_->RevokeCredential(credential_id, author);
  }
  absl::StatusOr<store::PolicyVersionRow> ApplyPolicies(core::TenantId tenant,
                                                        int32_t expected_version,
                                                        absl::string_view document,
                                                        const store::Author& author) override {
    return inner_->ApplyPolicies(tenant, expected_version, document, author);
  }
  absl::StatusOr<store::PolicyVersionRow> GetPolicies(core::TenantId tenant,
                                                      int32_t version) override {
    return inner_->GetPolicies(tenant, version);
  }
  absl::StatusOr<std::vector<store::PolicyVersionRow>> ListPolicyVersions(core::TenantId tenant,
                                                                          int32_t before,
                                                                          int limit) override {
    return inner_->ListPolicyVersions(tenant, before, limit);
  }
  absl::StatusOr<std::vector<store::PolicyVersionRow>> ReadPolicyChanges(
      int64_t change_id) override {
    return inner_->ReadPolicyChanges(change_id);
  }
  absl::StatusOr<std::vector<store::AuditRow>> ListAudit(std::optional<core::TenantId> tenant,
                                                         int64_t before, int limit) override {
    return inner_->ListAudit(tenant, before, limit);
  }
  absl::StatusOr<core::HandlerId> InternHandler(core::TenantId tenant, absl::string_view name,
                                                bool create) override {
    return inner_->InternHandler(tenant, name, create);
  }
  absl::StatusOr<store::OperationRead> ReadOperation(const core::OperationKey& key) override {
    return inner_->ReadOperation(key);
  }
  absl::StatusOr<std::vector<store::LoggedAttempt>> ListAttempts(
      const core::OperationKey& key, const std::optional<store::EntryId>& after,
      int limit) override {
    return inner_->ListAttempts(key, after, limit);
  }
  bool usable() const override { return inner_->usable(); }

 private:
  OpenSession open_;
  std::unique_ptr<store::ControlSession> inner_;
};

class ObservedStore final : public store::Store {
 public:
  ObservedStore(std::unique_ptr<store::Store> inner, StoreObserver* observer)
      : inner_(std::move(inner)), observer_(observer) {}

  absl::StatusOr<std::unique_ptr<store::WriteSession>> OpenWriteSession() override {
    return Wrap<ObservedWriteSession, store::WriteSession>(inner_->OpenWriteSession());
  }
  absl::StatusOr<std::unique_ptr<store::ReadSession>> OpenReadSession() override {
    return Wrap<ObservedReadSession, store::ReadSession>(inner_->OpenReadSession());
  }
  absl::StatusOr<std::unique_ptr<store::ControlSession>> OpenControlSession() override {
    return Wrap<ObservedControlSession, store::ControlSession>(inner_->OpenControlSession());
  }
  absl::StatusOr<std::vector<std::string>> Migrate() override { return inner_->Migrate(); }
  absl::StatusOr<std::vector<std::string>> Check(size_t max_result_bytes) override {
    return inner_->Check(max_result_bytes);
  }
  int max_write_sessions() const override { return inner_->max_write_sessions(); }
  absl::string_view engine() const override { return inner_->engine(); }

 private:
  template <typename Observed, typename Session>
  absl::StatusOr<std::unique_ptr<Session>> Wrap(absl::StatusOr<std::unique_ptr<Session>> session) {
    observer_->OnSessionOpened(Observed::kKind, session.status().code());
    if (!session.ok()) return session.status();
    return std::make_unique<Observed>(*std::move(session), observer_);
  }

  std::unique_ptr<store::Store> inner_;
  StoreObserver* const observer_;
};

class ObservedAuthenticator final : public auth::Authenticator {
 public:
  ObservedAuthenticator(std::unique_ptr<auth::Authenticator> inner,
                        AuthenticationObserver* observer)
      : inner_(std::move(inner)), observer_(observer) {}

  void Authenticate(absl::string_view token, Done done) override {
    const std::thread::id caller = std::this_thread::get_id();
    inner_->Authenticate(
        token, [observer = observer_, caller, done = std::move(done)](
                   absl::StatusOr<std::shared_ptr<const auth::Principal>> principal) mutable {
          observer->OnAuthentication(std::this_thread::get_id() == caller,
                                     principal.status().code());
          std::move(done)(std::move(principal));
        });
  }

 private:
  std::unique_ptr<auth::Authenticator> inner_;
  AuthenticationObserver* const observer_;
};

}  // namespace

std::unique_ptr<store::Store> ObserveStore(std::unique_ptr<store::Store> store,
                                           StoreObserver* observer) {
  return std::make_unique<ObservedStore>(std::move(store), observer);
}

std::unique_ptr<auth::Authenticator> ObserveAuthenticator(
    std::unique_ptr<auth::Authenticator> authenticator, AuthenticationObserver* observer) {
  return std::make_unique<ObservedAuthenticator>(std::move(authenticator), observer);
}

}  // namespace once::app
