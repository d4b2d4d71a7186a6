// One short transaction for a whole batch of commands: the one home of the claim algorithm, over
// any store.
//
//   0. where a handler's policy wants an order: lock the aggregates of its Begins
//   1. insert the Begins' rows in primary-key order, or count the delivery where the key exists
//   (this locks the rows)
//   2. read our own locked rows and those of the other commands
//   3. decide each command in order with `core`, on the row as the commands before it left it
//   4. write the changed rows, guarded by state, attempt and fence; write one attempt row per
//   command
//   5. COMMIT
//
// Thread-safety: as the session's (one thread at a time).
#ifndef ONCE_STORE_BATCH_H_
#define ONCE_STORE_BATCH_H_

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/decide.h"
#include "core/types.h"
#include "store/store.h"

namespace once::store {

// An operation as a transaction of this server left or found it.
struct KnownOperation {
  core::OperationKey key;
  core::OperationRow row;
};

struct BeginCommand {
  core::OperationKey key;
  EntryId entry{};
  core::BeginRequest request;
  DeliveryInfo delivery;
};
struct CompleteCommand {
  core::OperationKey key;
  EntryId entry{};
  core::CompleteRequest request;
  // The claim that an earlier transaction granted: decided on that without a read, as the guard of
  // the change is the claim itself. Ignored where it is not the claim of the request; to be cleared
  // before a batch is run again.
  std::shared_ptr<const KnownOperation> known = nullptr;
};
struct AbandonCommand {
  core::OperationKey key;
  EntryId entry{};
  core::AbandonRequest request;
  std::string note;
};
struct RenewCommand {
  core::OperationKey key;
  EntryId entry{};
  core::RenewRequest request;
};

struct ResolveCommand {
  core::OperationKey key;
  EntryId entry{};
  core::ResolveRequest request;
  std::string handler;  // its name, for the audit
  Author author;        // its reason is the evidence
};

struct ResetCommand {
  core::OperationKey key;
  EntryId entry{};
  core::ResetRequest request;
  std::string handler;  // its name, for the audit
  Author author;
};

using Command = std::variant<BeginCommand, CompleteCommand, AbandonCommand, RenewCommand,
                             ResolveCommand, ResetCommand>;
// The alternative with the index of the command's.
using Answer = std::variant<core::BeginOutcome, core::CompleteOutcome, core::AbandonOutcome,
                            core::RenewOutcome, core::ResolveOutcome, core::ResetOutcome>;

const core::OperationKey& KeyOf(const Command& command);
core::OperationKey& MutableKeyOf(Command& command);

// Runs `commands` in one transaction and returns their answers in order, all durable. On error
// nothing was committed, but for UNKNOWN (see store.h); the transaction is rolled back. `repeated`
// says that an earlier run of the same batch ended in UNKNOWN. Begins without an order may share a
// key and are decided one after another; any other command has its key alone (INTERNAL otherwise).
// Receipts with large bodies come back without `result`. `known` (may be null) gets the operations
// that this transaction completed, found completed or granted, with the index of their command; not
// those whose result is large.
using KnownOperations = std::vector<std::pair<size_t, KnownOperation>>;
// `before_commit` is called when nothing but the COMMIT is left.
absl::StatusOr<std::vector<Answer>> RunBatch(
    WriteSession& session, absl::Span<const Command> commands, bool repeated,
    KnownOperations* known = nullptr, absl::FunctionRef<void()> before_commit = [] {});

// What a Begin is told of an operation that is known to be completed, and its entry in the log.
// Pure.
struct RepeatedBegin {
  core::BeginOutcome outcome;
  AttemptEntry entry;
};
RepeatedBegin DecideRepeated(const BeginCommand& command, const core::OperationRow& completed);

// Writes entries of the log in a transaction of their own. Errors as RunBatch's.
absl::Status LogAttempts(WriteSession& session, absl::Span<const AttemptEntry> entries,
                         bool repeated);

}  // namespace once::store

#endif  // ONCE_STORE_BATCH_H_
