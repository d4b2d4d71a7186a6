// The store: what the pipeline and the control plane need of a database, implemented by store/mysql
// and store/sqlite.
//
// Status codes of every function here, and what to do on each (the pipeline does):
//   ABORTED             deadlock, lock timeout or certification failure; rolled back. Run the same
//   batch again, here. UNAVAILABLE         the connection is lost, the server is read-only or
//   shutting down; nothing was committed. Drop the
//                       session, open another one (the store tries the next host), run the same
//                       batch again.
//   UNKNOWN             COMMIT was sent and its answer did not come. Drop the session and run the
//   same batch again on a
//                       fresh one: never a plain read, which may miss the dying transaction.
//   INVALID_ARGUMENT    the database refused the data of some row. Rolled back. Run the commands
//   one by one to find it. INTERNAL            a defect or a broken invariant; rolled back. Not
//   repeatable.
// A duplicate key is no error here: it is what TouchAndRead is for.
//
// All functions block on the database. Sessions are used by one thread at a time and may not
// outlive their store; a Store is thread-safe.
#ifndef ONCE_STORE_STORE_H_
#define ONCE_STORE_STORE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/operation.h"
#include "core/order.h"
#include "core/types.h"

namespace once::store {

// Stored numbers; never renumber.
enum class AttemptKind : uint8_t {
  kBegin = 1,
  kComplete = 2,
  kAbandon = 3,
  kRenew = 4,
  kResolve = 5,
  kReset = 6,
};

// Stored numbers; never renumber.
enum class AttemptOutcome : uint8_t {
  kGranted = 1,
  kTakenOver = 2,  // granted while an earlier attempt's outcome is unknown
  kReplayed = 3,   // answered with the stored receipt
  kInProgress = 4,
  kConflict = 5,
  kInDoubt = 6,
  kExpired = 7,
  kCompleted = 8,
  kClaimLost = 9,
  kReleased = 10,
  kForgotten = 11,
  kRegranted = 12,  // the holder's Begin again
  kNotFound = 13,
  kRecovery = 14,  // as kTakenOver, to a caller that asks its business data before it acts
  kStale = 15,     // a newer version of the aggregate is done
  // Of kResolve, where they say what the operator found out.
  kFoundDone = 16,
  kFoundRefused = 17,
  kFoundNotDone = 18,
  kReset = 19,
};

// What the caller told about this delivery; goes to the attempt log only.
struct DeliveryInfo {
  std::string reference;
  uint8_t source = 0;  // once.v1.DeliverySource
  std::string cause_handler;
  std::string cause_event_id;
  std::string cause_reason;
  std::string aggregate_id;
  int64_t aggregate_version = 0;
};

using EntryId = std::array<uint8_t, 16>;

// One row of the attempt log. The database's clock gives its time.
struct AttemptEntry {
  core::OperationKey key;
  EntryId entry{};  // made once per delivery, kept over repeats of the batch
  core::AttemptId attempt;
  AttemptKind kind = AttemptKind::kBegin;
  AttemptOutcome outcome = AttemptOutcome::kGranted;
  core::Fence fence;  // of the operation's latest claim, 0 where there is no operation
  int32_t attempt_number = 0;
  std::optional<core::Digest> digest;  // of the request, for Begin
  std::string consumer;
  std::string handler_version;
  std::string note;  // reason given with Abandon
  DeliveryInfo delivery;
};

// A row to insert where there is none. The store sets first_seen, begun, fence (all: the database's
// clock now) and lease_expires (now + lease), evaluated when this row is written, not when the
// statement started: a statement that waited for a lock must not give a fence from before the wait.
struct NewOperation {
  core::OperationKey key;
  core::Digest digest;
  core::AttemptId attempt;
  absl::Duration lease;
  std::string consumer;
  std::string handler_version;
  int64_t deliveries = 1;  // how many Begins of the batch name this key
};

struct RowSet {
  // The database's clock at the read, after the locks were taken. May be unset where no row was
  // asked for.
  core::DbTime now;
  // In the order asked for; unset where there is no row. Large results are not read
  // (Receipt::result unset).
  std::vector<std::optional<core::OperationRow>> inserts;
  std::vector<std::optional<core::OperationRow>> others;
};

// Who changes something, and why: what the audit records of it beside the change.
struct Author {
  std::string credential_id;  // empty: onced itself
  std::string reason;         // at most core::kMaxReasonBytes
};

// A change of one row, guarded: it applies only while the row is as `before` says (state, attempt,
// fence).
struct RowChange {
  enum class Kind : uint8_t {
    kClaim,       // writes state, claim, claims, unknown, unknown_attempts
    kLease,       // writes state, lease_expires
    kCompletion,  // writes state, receipt (a result above core::kMaxInlineResultBytes to the table
                  // of bodies)
    kDelete,      // removes the row
    kReset,       // writes state, lease_expires, unknown, unknown_attempts; the receipt goes to
                  // the past ones
  };
  Kind kind = Kind::kClaim;
  core::OperationKey key;
  core::RowState state_before = core::RowState::kClaimed;
  core::AttemptId attempt_before;
  core::Fence fence_before;
  core::OperationRow after;  // not for kDelete
  Author author;             // for kReset
};

// Stored numbers; never renumber. The same as once.v1.AuditAction.
enum class AuditAction : uint8_t {
  kCreateTenant = 1,
  kCreateCredential = 2,
  kExpireCredential = 3,
  kRevokeCredential = 4,
  kApplyPolicies = 5,
  kResolve = 6,
  kReset = 7,
};

// One change by an operator or an administrator, written in its transaction.
struct AuditRow {
  int64_t audit_id = 0;     // set by the store; grows, with gaps
  core::TenantId tenant;    // 0 where the change belongs to none
  std::string tenant_name;  // filled in by reads
  AuditAction action = AuditAction::kCreateTenant;
  // The tenant's name, the credential's id, "version 3", the handler and event id of an operation.
  std::string subject;
  std::string before;  // JSON; empty where there was nothing
  std::string after;
  Author author;
  core::DbTime created;  // set by the store
};

// What a row that LockAggregates has locked is to be.
struct AggregateChange {
  core::AggregateKey key;
  core::AggregateRow after;
};

struct WriteSet {
  std::vector<RowChange> changes;                // sorted by key, at most one a key
  std::vector<AggregateChange> aggregates = {};  // likewise
  std::vector<AttemptEntry> attempts;
  std::vector<AuditRow> audit = {};
  // True where this batch may have been committed before (after UNKNOWN): attempt rows that exist
  // are then left as they are.
  bool repeated = false;
};

// One connection that runs transactions of the claim path.
class WriteSession {
 public:
  virtual ~WriteSession() = default;

  // Starts a transaction whose TouchAndRead follows: makes the aggregates that do not exist, locks
  // and reads all. `keys` are sorted, without repeats. Aggregates are locked before operations, so
  // that transactions that share both do not deadlock.
  virtual absl::StatusOr<std::vector<core::AggregateRow>> LockAggregates(
      absl::Span<const core::AggregateKey> keys) = 0;

  // Starts the transaction, unless LockAggregates did. Inserts each row of `inserts`, or adds its
  // `deliveries` where the key exists; both lock the row. Then reads these rows and those of
  // `others` (not locked: their changes are guarded). Both spans are sorted by key, without repeats
  // and disjoint.
  virtual absl::StatusOr<RowSet> TouchAndRead(absl::Span<const NewOperation> inserts,
                                              absl::Span<const core::OperationKey> others) = 0;

  // After TouchAndRead: the newest committed rows of more keys (sorted, without repeats), not
  // locked, in their order.
  virtual absl::StatusOr<std::vector<std::optional<core::OperationRow>>> ReadAlso(
      absl::Span<const core::OperationKey> keys) = 0;

  // Applies the changes and writes the attempt rows. ABORTED where a guard did not hold.
  virtual absl::Status Write(const WriteSet& writes) = 0;

  virtual absl::Status Commit() = 0;

  // Ends an open transaction without effect; does nothing where none is open. On failure the
  // session becomes unusable.
  virtual void Rollback() = 0;

  // False after UNAVAILABLE and UNKNOWN, or where the state of the connection is in doubt.
  virtual bool usable() const = 0;
};

// One connection that reads; never in a transaction that stays open.
class ReadSession {
 public:
  virtual ~ReadSession() = default;

  // Newest committed rows of `keys` (sorted, without repeats) in RowSet::others.
  virtual absl::StatusOr<RowSet> Read(absl::Span<const core::OperationKey> keys) = 0;

  // Large result bodies, in the order of `keys`; unset where there is none.
  virtual absl::StatusOr<std::vector<std::optional<std::string>>> ReadBodies(
      absl::Span<const core::OperationKey> keys) = 0;

  virtual bool usable() const = 0;
};

// ---- control plane ----

// Stored numbers; never renumber. The same as once.v1.Role.
enum class Role : uint8_t { kConsumer = 1, kOperator = 2, kAdmin = 3 };

struct TenantRow {
  core::TenantId id;
  std::string name;
  core::DbTime created;
};

struct CredentialRow {
  std::string credential_id;  // 16 lower-case hexadecimal digits
  core::TenantId tenant;      // 0 for kAdmin
  std::string tenant_name;    // filled in by reads
  Role role = Role::kConsumer;
  core::Sha256 secret_sha256{};
  std::vector<std::string> handler_patterns;
  std::string description;
  core::DbTime created;                 // set by the store
  std::optional<core::DbTime> expires;  // reads only; inserts give `ttl`
  std::optional<core::DbTime> revoked;
  // Reads only: neither expired nor revoked by the database's clock at the read.
  bool active = true;
};

// One version of a tenant's handler policies. Versions are never changed and never removed.
struct PolicyVersionRow {
  int64_t change_id = 0;  // grows with each version of any tenant, in the order of the commits
  core::TenantId tenant;
  int32_t version = 0;   // of this tenant: 1, 2, …
  std::string document;  // all policies, as server/policy writes them; at most kMaxPolicyBytes
  Author author;
  core::DbTime created;
};

// An entry of the attempt log as it was written.
struct LoggedAttempt {
  AttemptEntry entry;
  core::DbTime logged;
};

// A receipt that an operation had before it was reset.
struct PastReceipt {
  core::Receipt receipt;
  core::AttemptId attempt;
  core::Fence fence;
  std::string handler_version;
  core::DbTime reset;
  Author author;
};

// Of one operation, at most, that are shown.
inline constexpr int kMaxPastReceipts = 10;

// An operation as it is; the row is unset where there is none, a large result is not read.
struct OperationRead {
  core::DbTime now;
  std::optional<core::OperationRow> row;
  std::vector<PastReceipt> past = {};  // newest first, with their results
};

// One connection for tenants, credentials, policies, handler names, the audit of all these, and
// looks at single operations. Each
// call is a transaction of its own; those that take an author also write what they changed, if
// anything, to the audit.
class ControlSession {
 public:
  virtual ~ControlSession() = default;

  // ALREADY_EXISTS where the name is taken.
  virtual absl::StatusOr<TenantRow> CreateTenant(absl::string_view name, const Author& author) = 0;
  // NOT_FOUND where there is none.
  virtual absl::StatusOr<TenantRow> GetTenant(absl::string_view name) = 0;
  // At most `limit` tenants with names after `after`, by name.
  virtual absl::StatusOr<std::vector<TenantRow>> ListTenants(absl::string_view after,
                                                             int limit) = 0;

  virtual absl::StatusOr<CredentialRow> CreateCredential(const CredentialRow& row,
                                                         std::optional<absl::Duration> ttl,
                                                         const Author& author) = 0;
  // Inserts `row` only where no active admin credential exists; ALREADY_EXISTS otherwise. Safe
  // against two servers at once.
  virtual absl::StatusOr<CredentialRow> BootstrapAdmin(const CredentialRow& row,
                                                       const Author& author) = 0;
  // NOT_FOUND where there is none.
  virtual absl::StatusOr<CredentialRow> GetCredential(absl::string_view credential_id) = 0;
  // At most `limit` with ids after `after`, by id; all tenants where `tenant` is unset.
  virtual absl::StatusOr<std::vector<CredentialRow>> ListCredentials(
      std::optional<core::TenantId> tenant, absl::string_view after, int limit) = 0;
  // Lets it end after `in` at the latest (never later than it would have). NOT_FOUND where there is
  // none.
  virtual absl::StatusOr<CredentialRow> ExpireCredential(absl::string_view credential_id,
                                                         absl::Duration in,
                                                         const Author& author) = 0;
  // Repeatable: keeps the first time. NOT_FOUND where there is none.
  virtual absl::StatusOr<CredentialRow> RevokeCredential(absl::string_view credential_id,
                                                         const Author& author) = 0;

  // Makes the version after `expected_version` (0: the first one). FAILED_PRECONDITION where
  // another one is current, so that of two who change at once one is told. Repeatable: a document
  // that is the current one already, as version `expected_version` or the one after it, is answered
  // with that, and nothing is written.
  virtual absl::StatusOr<PolicyVersionRow> ApplyPolicies(core::TenantId tenant,
                                                         int32_t expected_version,
                                                         absl::string_view document,
                                                         const Author& author) = 0;
  // A version, 0: the current one. NOT_FOUND where there is none.
  virtual absl::StatusOr<PolicyVersionRow> GetPolicies(core::TenantId tenant, int32_t version) = 0;
  // At most `limit` versions below `before`, newest first, without their documents.
  virtual absl::StatusOr<std::vector<PolicyVersionRow>> ListPolicyVersions(core::TenantId tenant,
                                                                           int32_t before,
                                                                           int limit) = 0;
  // The current versions of those tenants that changed after `change_id`, in the order of the
  // changes: of all tenants for 0, none where nothing changed.
  virtual absl::StatusOr<std::vector<PolicyVersionRow>> ReadPolicyChanges(int64_t change_id) = 0;

  // At most `limit` records with ids below `before`, newest first; of all tenants where `tenant` is
  // unset.
  virtual absl::StatusOr<std::vector<AuditRow>> ListAudit(std::optional<core::TenantId> tenant,
                                                          int64_t before, int limit) = 0;

  // Id of a handler name, made where `create` says so; NOT_FOUND otherwise. Ids never change.
  virtual absl::StatusOr<core::HandlerId> InternHandler(core::TenantId tenant,
                                                        absl::string_view name, bool create) = 0;

  virtual absl::StatusOr<OperationRead> ReadOperation(const core::OperationKey& key) = 0;
  // At most `limit` entries of an operation's log after `after` (unset: from the first), in the
  // order of their ids: of their arrival, where one server wrote them.
  virtual absl::StatusOr<std::vector<LoggedAttempt>> ListAttempts(
      const core::OperationKey& key, const std::optional<EntryId>& after, int limit) = 0;

  virtual bool usable() const = 0;
};

class Store {
 public:
  virtual ~Store() = default;

  // Each opens a connection, asserts the session's settings (see store/mysql) and the schema's
  // version.
  virtual absl::StatusOr<std::unique_ptr<WriteSession>> OpenWriteSession() = 0;
  virtual absl::StatusOr<std::unique_ptr<ReadSession>> OpenReadSession() = 0;
  virtual absl::StatusOr<std::unique_ptr<ControlSession>> OpenControlSession() = 0;

  // Applies missing schema steps under a database lock; several at once are fine.
  // FAILED_PRECONDITION on a schema newer than this program. Returns the steps applied, "0001 first
  // schema" and so on.
  virtual absl::StatusOr<std::vector<std::string>> Migrate() = 0;

  // FAILED_PRECONDITION with the fault where the database cannot give what the contract needs
  // (settings, packet size for results of `max_result_bytes`, schema version). Otherwise warnings
  // to be logged loudly, for example weak durability.
  virtual absl::StatusOr<std::vector<std::string>> Check(size_t max_result_bytes) = 0;

  // How many write sessions may usefully run at once (1 for SQLite).
  virtual int max_write_sessions() const = 0;

  // "mysql" or "sqlite"; for logs and metrics.
  virtual absl::string_view engine() const = 0;
};

}  // namespace once::store

#endif  // ONCE_STORE_STORE_H_
