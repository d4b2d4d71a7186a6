#include "support/memory_store.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/limits.h"
#include "support/memory_database.h"

namespace once::test {
namespace {

using core::DbTime;
using core::OperationKey;
using core::OperationRow;

const base::Clock& MachineClock() {
  static const base::RealClock clock;
  return clock;
}

absl::Status StatusOf(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return absl::OkStatus();
    case Fault::kAborted:
      return absl::AbortedError("memory store: deadlock (played)");
    case Fault::kUnavailable:
      return absl::UnavailableError("memory store: connection lost (played)");
    case Fault::kInvalidArgument:
      return absl::InvalidArgumentError("memory store: data refused (played)");
    case Fault::kInternal:
      return absl::InternalError("memory store: defect (played)");
    case Fault::kUnknownDone:
    case Fault::kUnknownLost:
    case Fault::kUnknownPending:
      return absl::UnknownError("memory store: no answer to COMMIT (played)");
  }
  return absl::OkStatus();
}

bool IsUnknown(Fault fault) {
  return fault == Fault::kUnknownDone || fault == Fault::kUnknownLost ||
         fault == Fault::kUnknownPending;
}

bool EndsSession(Fault fault) { return fault == Fault::kUnavailable || IsUnknown(fault); }

// Unknown outcomes belong to COMMIT; a statement before it that gets no answer was simply not
// committed.
Fault BeforeCommit(Fault fault) { return IsUnknown(fault) ? Fault::kUnavailable : fault; }

absl::Status CheckWidth(absl::string_view column, const std::string& value, size_t limit) {
  if (value.size() <= limit) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("memory store: ", column, " has ", value.size(),
                                                 " bytes, the column holds ", limit));
}

absl::Status CheckOperation(const store::NewOperation& row) {
  absl::Status status = CheckWidth("event_id", row.key.event_id, core::kMaxEventIdBytes);
  status.Update(CheckWidth("consumer", row.consumer, core::kMaxConsumerBytes));
  status.Update(CheckWidth("handler_version", row.handler_version, core::kMaxHandlerVersionBytes));
  return status;
}

absl::Status CheckAttempt(const store::AttemptEntry& row) {
  absl::Status status = CheckWidth("event_id", row.key.event_id, core::kMaxEventIdBytes);
  status.Update(CheckWidth("consumer", row.consumer, core::kMaxConsumerBytes));
  status.Update(CheckWidth("handler_version", row.handler_version, core::kMaxHandlerVersionBytes));
  status.Update(CheckWidth("note", row.note, core::kMaxReasonBytes));
  status.Update(CheckWidth("delivery_reference", row.delivery.reference, core::kMaxReferenceBytes));
  status.Update(CheckWidth("cause_handler", row.delivery.cause_handler, core::kMaxHandlerBytes));
  status.Update(CheckWidth("cause_event_id", row.delivery.cause_event_id, core::kMaxEventIdBytes));
  status.Update(CheckWidth("cause_reason", row.delivery.cause_reason, core::kMaxReasonBytes));
  status.Update(CheckWidth("aggregate_id", row.delivery.aggregate_id, core::kMaxAggregateIdBytes));
  return status;
}

OperationRow FreshRow(const store::NewOperation& insert, DbTime now) {
  OperationRow row;
  row.digest = insert.digest;
  row.claim.attempt = insert.attempt;
  row.claim.fence = {now.micros};
  row.claim.consumer = insert.consumer;
  row.claim.handler_version = insert.handler_version;
  row.claim.begun = now;
  row.claim.lease_expires = now + insert.lease;
  row.deliveries = insert.deliveries;
  row.first_seen = now;
  return row;
}

// What every kind of session has.
class SessionBase {
 public:
  SessionBase(MemoryDatabase* database, FaultScript* faults)
      : database_(database), faults_(faults), id_(database->OpenSession()) {}
  ~SessionBase() { database_->CloseSession(); }
  SessionBase(const SessionBase&) = delete;
  SessionBase& operator=(const SessionBase&) = delete;

  bool usable() const { return usable_; }

 protected:
  // Plays the fault of a point before COMMIT.
  absl::Status Pass(FaultPoint point, std::vector<OperationKey> keys) {
    if (!usable_) {
      return absl::UnavailableError("memory store: the session is lost");
    }
    const Fault fault = BeforeCommit(faults_->At({point, id_, std::move(keys)}));
    usable_ = !EndsSession(fault);
    return StatusOf(fault);
  }

  MemoryDatabase* const database_;
  FaultScript* const faults_;
  const int id_;
  bool usable_ = true;
};

class MemoryWriteSession final : public store::WriteSession, private SessionBase {
 public:
  MemoryWriteSession(MemoryDatabase* database, FaultScript* faults, absl::Duration lock_timeout)
      : SessionBase(database, faults), lock_timeout_(lock_timeout) {}
  ~MemoryWriteSession() override { MemoryWriteSession::Rollback(); }

  absl::StatusOr<std::vector<core::AggregateRow>> LockAggregates(
      absl::Span<const core::AggregateKey> keys) override {
    if (open_) {
      return absl::InternalError("memory store: a transaction is open already");
    }
    Start();
    has_locked_aggregates_ = true;
    std::vector<core::AggregateRow> rows;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i > 0 && !(keys[i - 1] < keys[i])) {
        return absl::InternalError("memory store: aggregates are not in strict key order");
      }
      auto row = database_->LockAggregate(id_, keys[i], lock_timeout_);
      if (!row.ok()) {
        Rollback();
        return row.status();
      }
      rows.push_back(*std::move(row));
    }
    return rows;
  }

  absl::StatusOr<std::vector<std::optional<OperationRow>>> ReadAlso(
      absl::Span<const OperationKey> keys) override {
    std::vector<std::optional<OperationRow>> rows;
    for (const OperationKey& key : keys) {
      rows.push_back(database_->Read(key));
      read_.push_back(key);
    }
    return rows;
  }

  absl::StatusOr<store::RowSet> TouchAndRead(absl::Span<const store::NewOperation> inserts,
                                             absl::Span<const OperationKey> others) override {
    if (!std::exchange(has_locked_aggregates_, false)) {
      if (open_) {
        return absl::InternalError("memory store: a transaction is open already");
      }
      Start();
    }
    if (absl::Status status = CheckOrder(inserts, others); !status.ok()) {
      Rollback();
      return status;
    }
    absl::StatusOr<store::RowSet> rows = TouchAndReadRows(inserts, others);
    if (!rows.ok()) {
      Rollback();
    }
    return rows;
  }

  absl::Status Write(const store::WriteSet& writes) override {
    if (!open_) {
      return absl::InternalError("memory store: Write without TouchAndRead");
    }
    absl::Status status = WriteRows(writes);
    if (!status.ok()) {
      Rollback();
    }
    return status;
  }

  absl::Status Commit() override {
    if (!open_) {
      return absl::InternalError("memory store: Commit without TouchAndRead");
    }
    const Fault fault = faults_->At({FaultPoint::kCommit, id_, Keys()});
    switch (fault) {
      case Fault::kNone:
      case Fault::kUnknownDone:
        database_->Commit(id_, std::move(transaction_));
        break;
      case Fault::kUnknownPending:
        database_->CommitLater(id_, std::move(transaction_));
        break;
      case Fault::kAborted:
      case Fault::kUnavailable:
      case Fault::kInvalidArgument:
      case Fault::kInternal:
      case Fault::kUnknownLost:
        database_->Unlock(id_);
        break;
    }
    Close();
    usable_ = !EndsSession(fault);
    return StatusOf(fault);
  }

  void Rollback() override {
    if (open_) {
      database_->Unlock(id_);
      Close();
    }
  }

  bool usable() const override { return SessionBase::usable(); }

 private:
  void Start() {
    open_ = true;
    database_->AddOpenTransactions(1);
  }

  void Close() {
    transaction_ = {};
    read_.clear();
    open_ = has_locked_aggregates_ = false;
    database_->AddOpenTransactions(-1);
  }

  std::vector<OperationKey> Keys() const {
    std::vector<OperationKey> keys = read_;
    for (const auto& [key, row] : transaction_.rows) {
      keys.push_back(key);
    }
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    return keys;
  }

  static absl::Status CheckOrder(absl::Span<const store::NewOperation> inserts,
                                 absl::Span<const OperationKey> others) {
    for (size_t i = 1; i < inserts.size(); ++i) {
      if (!(inserts[i - 1].key < inserts[i].key)) {
        return absl::InternalError("memory store: inserts are not in strict key order");
      }
    }
    for (size_t i = 1; i < others.size(); ++i) {
      if (!(others[i - 1] < others[i])) {
        return absl::InternalError("memory store: other keys are not in strict key order");
      }
    }
    for (const store::NewOperation& insert : inserts) {
      if (std::binary_search(others.begin(), others.end(), insert.key)) {
        return absl::InternalError("memory store: a key is both inserted and read");
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<store::RowSet> TouchAndReadRows(absl::Span<const store::NewOperation> inserts,
                                                 absl::Span<const OperationKey> others) {
    std::vector<OperationKey> keys(others.begin(), others.end());
    for (const store::NewOperation& insert : inserts) {
      keys.push_back(insert.key);
    }
    if (absl::Status status = Pass(FaultPoint::kTouchAndRead, std::move(keys)); !status.ok()) {
      return status;
    }
    store::RowSet rows;
    for (const store::NewOperation& insert : inserts) {
      if (absl::Status status = CheckOperation(insert); !status.ok()) return status;
      auto row = database_->LockRow(id_, insert.key, lock_timeout_);
      if (!row.ok()) return row.status();
      if (row->has_value()) {
        (*row)->deliveries += insert.deliveries;
      } else {
        *row = FreshRow(insert, database_->Tick());
      }
      transaction_.rows[insert.key] = *row;
      rows.inserts.push_back(*std::move(row));
    }
    rows.now = database_->Tick();
    for (const OperationKey& key : others) {
      rows.others.push_back(database_->Read(key));
      read_.push_back(key);
    }
    return rows;
  }

  absl::Status WriteRows(const store::WriteSet& writes) {
    if (absl::Status status = Pass(FaultPoint::kWrite, Keys()); !status.ok()) return status;
    for (const store::RowChange& change : writes.changes) {
      if (absl::Status status = ApplyChange(change); !status.ok()) return status;
    }
    for (const store::AggregateChange& change : writes.aggregates) {
      transaction_.aggregates[change.key] = change.after;
    }
    transaction_.audit = writes.audit;
    const DbTime now = database_->Now();
    for (const store::AttemptEntry& entry : writes.attempts) {
      if (absl::Status status = CheckAttempt(entry); !status.ok()) return status;
      if (database_->HasAttempt(entry.key, entry.entry)) {
        if (writes.repeated) continue;
        return absl::InternalError("memory store: the attempt row exists");
      }
      transaction_.attempts.push_back({entry, now});
    }
    return absl::OkStatus();
  }

  absl::Status ApplyChange(const store::RowChange& change) {
    if (!transaction_.rows.contains(change.key)) {
      auto locked = database_->LockRow(id_, change.key, absl::ZeroDuration());
      if (!locked.ok()) return locked.status();
      transaction_.rows[change.key] = *std::move(locked);
    }
    std::optional<OperationRow>& row = transaction_.rows[change.key];
    if (!row.has_value() || row->state != change.state_before ||
        row->claim.attempt != change.attempt_before || row->claim.fence != change.fence_before) {
      return absl::AbortedError("memory store: the row is not as it was read");
    }
    switch (change.kind) {
      case store::RowChange::Kind::kClaim:
        row->state = change.after.state;
        row->claim = change.after.claim;
        row->claims = change.after.claims;
        row->unknown = change.after.unknown;
        row->unknown_attempts = change.after.unknown_attempts;
        return absl::OkStatus();
      case store::RowChange::Kind::kLease:
        row->state = change.after.state;
        row->claim.lease_expires = change.after.claim.lease_expires;
        return absl::OkStatus();
      case store::RowChange::Kind::kCompletion:
        row->state = change.after.state;
        return ApplyReceipt(change, *row);
      case store::RowChange::Kind::kDelete:
        row.reset();
        return absl::OkStatus();
      case store::RowChange::Kind::kReset:
        transaction_.past.emplace_back(
            change.key, store::PastReceipt{.receipt = *row->receipt,
                                           .attempt = row->claim.attempt,
                                           .fence = row->claim.fence,
                                           .handler_version = row->claim.handler_version,
                                           .reset = {},
                                           .author = change.author});
        *row = change.after;
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  absl::Status ApplyReceipt(const store::RowChange& change, OperationRow& row) {
    if (!change.after.receipt.has_value() || !change.after.receipt->result.has_value()) {
      return absl::InternalError("memory store: a completion without its result");
    }
    row.receipt = change.after.receipt;
    if (row.receipt->result->size() > core::kMaxInlineResultBytes) {
      transaction_.bodies[change.key] = *std::move(row.receipt->result);
      row.receipt->result.reset();
    }
    return CheckWidth("content_type", row.receipt->content_type, core::kMaxContentTypeBytes);
  }

  const absl::Duration lock_timeout_;
  bool open_ = false;
  bool has_locked_aggregates_ = false;  // and TouchAndRead has still to come
  Transaction transaction_;
  std::vector<OperationKey> read_;
};

class MemoryReadSession final : public store::ReadSession, private SessionBase {
 public:
  using SessionBase::SessionBase;

  absl::StatusOr<store::RowSet> Read(absl::Span<const OperationKey> keys) override {
    if (absl::Status status = Pass(FaultPoint::kRead, {keys.begin(), keys.end()}); !status.ok()) {
      return status;
    }
    store::RowSet rows;
    rows.now = database_->Now();
    for (const OperationKey& key : keys) {
      rows.others.push_back(database_->Read(key));
    }
    return rows;
  }

  absl::StatusOr<std::vector<std::optional<std::string>>> ReadBodies(
      absl::Span<const OperationKey> keys) override {
    if (absl::Status status = Pass(FaultPoint::kReadBodies, {keys.begin(), keys.end()});
        !status.ok()) {
      return status;
    }
    std::vector<std::optional<std::string>> bodies;
    for (const OperationKey& key : keys) {
      bodies.push_back(database_->ReadBody(key));
    }
    return bodies;
  }

  bool usable() const override { return SessionBase::usable(); }
};

class MemoryControlSession final : public store::ControlSession, private SessionBase {
 public:
  using Control = MemoryDatabase::Control;
  using SessionBase::SessionBase;

  absl::StatusOr<store::TenantRow> CreateTenant(absl::string_view name,
                                                const store::Author& author) override {
    if (absl::Status status = CheckWidth("name", std::string(name), core::kMaxTenantNameBytes);
        !status.ok()) {
      return status;
    }
    return Run<store::TenantRow>([&](Control& tables, DbTime now) {
      if (tables.tenants.contains(std::string(name))) {
        return absl::StatusOr<store::TenantRow>(absl::AlreadyExistsError("tenant exists"));
      }
      store::TenantRow row{.id = {++tables.last_tenant}, .name = std::string(name), .created = now};
      tables.tenants.emplace(row.name, row);
      tables.history.Record(store::AuditOf(row, author), now);
      return absl::StatusOr<store::TenantRow>(row);
    });
  }

  absl::StatusOr<store::TenantRow> GetTenant(absl::string_view name) override {
    return Run<store::TenantRow>([&](Control& tables, DbTime) {
      const auto found = tables.tenants.find(std::string(name));
      return found == tables.tenants.end()
                 ? absl::StatusOr<store::TenantRow>(absl::NotFoundError("no such tenant"))
                 : absl::StatusOr<store::TenantRow>(found->second);
    });
  }

  absl::StatusOr<std::vector<store::TenantRow>> ListTenants(absl::string_view after,
                                                            int limit) override {
    return Run<std::vector<store::TenantRow>>([&](Control& tables, DbTime) {
      std::vector<store::TenantRow> page;
      for (auto it = tables.tenants.upper_bound(std::string(after));
           it != tables.tenants.end() && static_cast<int>(page.size()) < limit; ++it) {
        page.push_back(it->second);
      }
      return absl::StatusOr<std::vector<store::TenantRow>>(std::move(page));
    });
  }

  absl::StatusOr<store::CredentialRow> CreateCredential(const store::CredentialRow& row,
                                                        std::optional<absl::Duration> ttl,
                                                        const store::Author& author) override {
    return Run<store::CredentialRow>(
        [&](Control& tables, DbTime now) { return Insert(tables, row, ttl, author, now); });
  }

  absl::StatusOr<store::CredentialRow> BootstrapAdmin(const store::CredentialRow& row,
                                                      const store::Author& author) override {
    return Run<store::CredentialRow>([&](Control& tables, DbTime now) {
      for (const auto& [id, other] : tables.credentials) {
        if (other.role == store::Role::kAdmin && Active(other, now)) {
          return absl::StatusOr<store::CredentialRow>(
              absl::AlreadyExistsError("an active admin credential exists"));
        }
      }
      return Insert(tables, row, std::nullopt, author, now);
    });
  }

  absl::StatusOr<store::CredentialRow> GetCredential(absl::string_view credential_id) override {
    return Run<store::CredentialRow>(
        [&](Control& tables, DbTime now) -> absl::StatusOr<store::CredentialRow> {
          const auto found = tables.credentials.find(std::string(credential_id));
          if (found == tables.credentials.end()) return absl::NotFoundError("no such credential");
          store::CredentialRow row = found->second;
          row.active = Active(row, now);
          return row;
        });
  }

  absl::StatusOr<std::vector<store::CredentialRow>> ListCredentials(
      std::optional<core::TenantId> tenant, absl::string_view after, int limit) override {
    return Run<std::vector<store::CredentialRow>>([&](Control& tables, DbTime now) {
      std::vector<store::CredentialRow> page;
      for (auto it = tables.credentials.upper_bound(std::string(after));
           it != tables.credentials.end() && static_cast<int>(page.size()) < limit; ++it) {
        if (!tenant.has_value() || it->second.tenant == *tenant) {
          page.push_back(it->second);
          page.back().active = Active(page.back(), now);
        }
      }
      return absl::StatusOr<std::vector<store::CredentialRow>>(std::move(page));
    });
  }

  absl::StatusOr<store::CredentialRow> ExpireCredential(absl::string_view credential_id,
                                                        absl::Duration in,
                                                        const store::Author& author) override {
    return Change(credential_id, store::AuditAction::kExpireCredential, author,
                  [in](store::CredentialRow& row, DbTime now) {
                    row.expires =
                        row.expires.has_value() ? std::min(*row.expires, now + in) : now + in;
                  });
  }

  absl::StatusOr<store::CredentialRow> RevokeCredential(absl::string_view credential_id,
                                                        const store::Author& author) override {
    return Change(credential_id, store::AuditAction::kRevokeCredential, author,
                  [](store::CredentialRow& row, DbTime now) {
                    if (!row.revoked.has_value()) row.revoked = now;
                  });
  }

  absl::StatusOr<store::PolicyVersionRow> ApplyPolicies(core::TenantId tenant,
                                                        int32_t expected_version,
                                                        absl::string_view document,
                                                        const store::Author& author) override {
    for (absl::Status status :
         {CheckWidth("document", std::string(document), core::kMaxPolicyBytes),
          CheckWidth("reason", author.reason, core::kMaxReasonBytes)}) {
      if (!status.ok()) return status;
    }
    return Run<store::PolicyVersionRow>([&](Control& tables, DbTime now) {
      return tables.history.Apply(tenant, expected_version, document, author, now);
    });
  }
  absl::StatusOr<store::PolicyVersionRow> GetPolicies(core::TenantId tenant,
                                                      int32_t version) override {
    return Run<store::PolicyVersionRow>(
        [&](Control& tables, DbTime) { return tables.history.Version(tenant, version); });
  }
  absl::StatusOr<std::vector<store::PolicyVersionRow>> ListPolicyVersions(core::TenantId tenant,
                                                                          int32_t before,
                                                                          int limit) override {
    using Rows = std::vector<store::PolicyVersionRow>;
    return Run<Rows>([&](Control& tables, DbTime) {
      return absl::StatusOr<Rows>(tables.history.VersionsBefore(tenant, before, limit));
    });
  }
  absl::StatusOr<std::vector<store::PolicyVersionRow>> ReadPolicyChanges(
      int64_t change_id) override {
    using Rows = std::vector<store::PolicyVersionRow>;
    return Run<Rows>([&](Control& tables, DbTime) {
      return absl::StatusOr<Rows>(tables.history.ChangesAfter(change_id));
    });
  }
  absl::StatusOr<store::OperationRead> ReadOperation(const OperationKey& key) override {
    if (absl::Status status = Pass(FaultPoint::kControl, {key}); !status.ok()) return status;
    return store::OperationRead{
        .now = database_->Now(), .row = database_->Read(key), .past = database_->ReadPast(key)};
  }
  absl::StatusOr<std::vector<store::LoggedAttempt>> ListAttempts(
      const OperationKey& key, const std::optional<store::EntryId>& after, int limit) override {
    if (absl::Status status = Pass(FaultPoint::kControl, {key}); !status.ok()) return status;
    std::vector<LoggedAttempt> rows = database_->Attempts(key);
    std::sort(rows.begin(), rows.end(), [](const LoggedAttempt& a, const LoggedAttempt& b) {
      return a.entry.entry < b.entry.entry;
    });
    std::erase_if(rows, [&](const LoggedAttempt& row) {
      return after.has_value() && row.entry.entry <= *after;
    });
    rows.resize(std::min(rows.size(), static_cast<size_t>(limit)));
    return rows;
  }
  absl::StatusOr<std::vector<store::AuditRow>> ListAudit(std::optional<core::TenantId> tenant,
                                                         int64_t before, int limit) override {
    using Rows = std::vector<store::AuditRow>;
    return Run<Rows>([&](Control& tables, DbTime) {
      Rows rows = tables.history.AuditBefore(tenant, before, limit);
      for (store::AuditRow& row : rows) {
        for (const auto& [name, owner] : tables.tenants) {
          if (owner.id == row.tenant) row.tenant_name = name;
        }
      }
      return absl::StatusOr<Rows>(std::move(rows));
    });
  }

  absl::StatusOr<core::HandlerId> InternHandler(core::TenantId tenant, absl::string_view name,
                                                bool create) override {
    if (absl::Status status = CheckWidth("name", std::string(name), core::kMaxHandlerBytes);
        !status.ok()) {
      return status;
    }
    return Run<core::HandlerId>([&](Control& tables, DbTime) -> absl::StatusOr<core::HandlerId> {
      const std::pair<uint32_t, std::string> key(tenant.value, name);
      const auto found = tables.handlers.find(key);
      if (found != tables.handlers.end()) {
        return core::HandlerId{found->second};
      }
      if (!create) {
        return absl::NotFoundError("no such handler");
      }
      tables.handlers.emplace(key, ++tables.last_handler);
      return core::HandlerId{tables.last_handler};
    });
  }

  bool usable() const override { return SessionBase::usable(); }

 private:
  static bool Active(const store::CredentialRow& row, DbTime now) {
    return !row.revoked.has_value() && (!row.expires.has_value() || now < *row.expires);
  }

  static absl::StatusOr<store::CredentialRow> Insert(Control& tables, store::CredentialRow row,
                                                     std::optional<absl::Duration> ttl,
                                                     const store::Author& author, DbTime now) {
    absl::Status status = CheckWidth("description", row.description, core::kMaxDescriptionBytes);
    if (!status.ok()) return status;
    row.tenant_name.clear();
    for (const auto& [name, tenant] : tables.tenants) {
      if (tenant.id == row.tenant) row.tenant_name = name;
    }
    row.created = now;
    row.expires.reset();
    if (ttl.has_value()) row.expires = now + *ttl;
    row.revoked.reset();
    row.active = Active(row, now);
    if (!tables.credentials.emplace(row.credential_id, row).second) {
      return absl::AlreadyExistsError("credential exists");
    }
    tables.history.Record(
        store::AuditOf(store::AuditAction::kCreateCredential, nullptr, row, author), now);
    return row;
  }

  template <typename Body>
  absl::StatusOr<store::CredentialRow> Change(absl::string_view id, store::AuditAction action,
                                              const store::Author& author, Body body) {
    return Run<store::CredentialRow>(
        [&](Control& tables, DbTime now) -> absl::StatusOr<store::CredentialRow> {
          const auto found = tables.credentials.find(std::string(id));
          if (found == tables.credentials.end()) {
            return absl::NotFoundError("no such credential");
          }
          const store::CredentialRow before = found->second;
          body(found->second, now);
          store::CredentialRow row = found->second;
          row.active = Active(row, now);
          if (row.expires != before.expires || row.revoked != before.revoked) {
            tables.history.Record(store::AuditOf(action, &before, row, author), now);
          }
          return row;
        });
  }

  // One transaction, with its fault.
  template <typename Result, typename Body>
  absl::StatusOr<Result> Run(Body body) {
    if (!usable_) {
      return absl::UnavailableError("memory store: the session is lost");
    }
    Fault fault = faults_->At({FaultPoint::kControl, id_, {}});
    usable_ = !EndsSession(fault);
    if (fault != Fault::kNone && !IsUnknown(fault)) {
      return StatusOf(fault);
    }
    const DbTime now = database_->Tick();
    absl::StatusOr<Result> result = absl::InternalError("not run");
    (void)database_->RunControl(fault != Fault::kUnknownLost, [&](Control& tables) {
      result = body(tables, now);
      return result.status();
    });
    if (result.ok() && fault != Fault::kNone) {
      return StatusOf(fault);
    }
    return result;
  }
};

}  // namespace

MemoryStore::MemoryStore(const MemoryStoreOptions& options)
    : options_(options),
      database_(std::make_unique<MemoryDatabase>(options.clock == nullptr ? &MachineClock()
                                                                          : options.clock)) {}

MemoryStore::~MemoryStore() = default;

absl::StatusOr<std::unique_ptr<store::WriteSession>> MemoryStore::OpenWriteSession() {
  if (faults_.At({FaultPoint::kOpen, 0, {}}) != Fault::kNone) {
    return StatusOf(Fault::kUnavailable);
  }
  return std::make_unique<MemoryWriteSession>(database_.get(), &faults_, options_.lock_timeout);
}

absl::StatusOr<std::unique_ptr<store::ReadSession>> MemoryStore::OpenReadSession() {
  if (faults_.At({FaultPoint::kOpen, 0, {}}) != Fault::kNone) {
    return StatusOf(Fault::kUnavailable);
  }
  return std::make_unique<MemoryReadSession>(database_.get(), &faults_);
}

absl::StatusOr<std::unique_ptr<store::ControlSession>> MemoryStore::OpenControlSession() {
  if (faults_.At({FaultPoint::kOpen, 0, {}}) != Fault::kNone) {
    return StatusOf(Fault::kUnavailable);
  }
  return std::make_unique<MemoryControlSession>(database_.get(), &faults_);
}

absl::StatusOr<std::vector<std::string>> MemoryStore::Migrate() {
  return std::vector<std::string>();
}

absl::StatusOr<std::vector<std::string>> MemoryStore::Check(size_t max_result_bytes) {
  (void)max_result_bytes;
  return std::vector<std::string>();
}

std::optional<OperationRow> MemoryStore::Row(const OperationKey& key) const {
  std::optional<OperationRow> row = database_->Read(key);
  if (row.has_value() && row->receipt.has_value() && !row->receipt->result.has_value()) {
    row->receipt->result = database_->ReadBody(key);
  }
  return row;
}

void MemoryStore::PutRow(const OperationKey& key, OperationRow row) {
  database_->Put(key, std::move(row));
}

void MemoryStore::DeleteRow(const OperationKey& key) { database_->Put(key, std::nullopt); }

std::vector<LoggedAttempt> MemoryStore::Attempts(const OperationKey& key) const {
  return database_->Attempts(key);
}

core::DbTime MemoryStore::now() const { return database_->Now(); }
int64_t MemoryStore::commits() const { return database_->commits(); }
int MemoryStore::open_sessions() const { return database_->open_sessions(); }
int MemoryStore::open_transactions() const { return database_->open_transactions(); }
int64_t MemoryStore::sessions_opened() const { return database_->sessions_opened(); }

}  // namespace once::test
