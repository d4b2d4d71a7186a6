#include "store/batch.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "core/limits.h"
#include "store/batch_order.h"
#include "store/control_plane.h"

namespace once::store {
namespace {

using core::OperationKey;
using core::OperationRow;

// One key of the batch and its row: as read, and as the commands decided so far leave it.
struct KeyState {
  int64_t commands = 0;
  int64_t begins = 0;
  bool ordered = false;
  std::optional<OperationRow> before;
  std::optional<OperationRow> now;
  // `before` is what an earlier transaction left: not read, but guarded by the change.
  bool known = false;
  std::optional<Author> reset_by;
  // True until the Begin that inserted the row has been decided.
  bool fresh = false;
};

// std::map: the iteration order is the primary key's, which is the lock order.
using KeyStates = std::map<OperationKey, KeyState>;

NewOperation InsertFor(const BeginCommand& begin) {
  return NewOperation{.key = begin.key,
                      .digest = begin.request.digest,
                      .attempt = begin.request.attempt,
                      .lease = begin.request.lease,
                      .consumer = begin.request.consumer,
                      .handler_version = begin.request.handler_version,
                      .deliveries = 1};
}

// What the transaction touches, in key order.
struct Plan {
  KeyStates keys;
  std::vector<NewOperation> inserts;
  std::vector<OperationKey> others;
  BatchOrder order;
};

bool IsOwnClaim(const CompleteCommand& command) {
  if (command.known == nullptr) return false;
  const OperationRow& row = command.known->row;
  return row.state == core::RowState::kClaimed && row.claim.attempt == command.request.attempt &&
         row.claim.fence == command.request.fence;
}

Plan MakePlan(absl::Span<const Command> commands) {
  Plan plan;
  std::map<OperationKey, const BeginCommand*> first_begin;
  for (const Command& command : commands) {
    const auto* begin = std::get_if<BeginCommand>(&command);
    KeyState& state = plan.keys[KeyOf(command)];
    ++state.commands;
    if (begin != nullptr) {
      ++state.begins;
      first_begin.emplace(begin->key, begin);
      if (begin->request.order.has_value()) {
        state.ordered = true;
        plan.order.Add(begin->key, *begin->request.order);
      }
    }
    const auto* complete = std::get_if<CompleteCommand>(&command);
    if (complete != nullptr && IsOwnClaim(*complete)) {
      state.known = true;
      state.before = state.now = complete->known->row;
    }
  }
  for (const auto& [key, state] : plan.keys) {
    if (state.known) continue;
    if (state.begins == 0) {
      plan.others.push_back(key);
      continue;
    }
    plan.inserts.push_back(InsertFor(*first_begin.at(key)));
    plan.inserts.back().deliveries = state.begins;
  }
  // A row that is read brings the time along.
  if (plan.inserts.empty() && plan.others.empty() && !plan.keys.empty()) {
    plan.others.push_back(plan.keys.begin()->first);
  }
  return plan;
}

// A Begin beside another command would insert the row that the other one has to miss, or find none
// after a forget; beside one that its order refuses, it would find no row either.
absl::Status CheckSharedKeys(const Plan& plan) {
  for (const auto& [key, state] : plan.keys) {
    if (state.commands > 1 && (state.begins != state.commands || state.ordered)) {
      return absl::InternalError("only Begins without an order may share their key in a batch");
    }
  }
  return absl::OkStatus();
}

absl::Status TakeRows(RowSet rows, Plan& plan) {
  if (rows.inserts.size() != plan.inserts.size() || rows.others.size() != plan.others.size()) {
    return absl::InternalError("the store answered for another number of rows than asked");
  }
  for (size_t i = 0; i < rows.inserts.size(); ++i) {
    const NewOperation& insert = plan.inserts[i];
    KeyState& state = plan.keys[insert.key];
    if (!rows.inserts[i].has_value()) {
      return absl::InternalError("a row that was inserted or locked cannot be read");
    }
    state.before = std::move(rows.inserts[i]);
    state.fresh = state.before->deliveries == insert.deliveries &&
                  state.before->claim.attempt == insert.attempt;
    state.now = state.before;
  }
  for (size_t i = 0; i < rows.others.size(); ++i) {
    KeyState& state = plan.keys[plan.others[i]];
    state.before = std::move(rows.others[i]);
    state.now = state.before;
  }
  return absl::OkStatus();
}

template <typename Outcome>
Outcome Apply(core::Decision<Outcome> decision, KeyState& state) {
  if (decision.delete_row) {
    state.now.reset();
  } else if (decision.row_after.has_value()) {
    state.now = std::move(decision.row_after);
  }
  return std::move(decision.outcome);
}

AttemptOutcome LoggedOutcome(const core::BeginOutcome& outcome, bool new_claim) {
  struct Visitor {
    bool new_claim;
    AttemptOutcome operator()(const core::Granted& granted) const {
      if (!new_claim) return AttemptOutcome::kRegranted;
      if (granted.recovery) return AttemptOutcome::kRecovery;
      return granted.earlier_attempt.has_value() ? AttemptOutcome::kTakenOver
                                                 : AttemptOutcome::kGranted;
    }
    AttemptOutcome operator()(const core::Completed&) const { return AttemptOutcome::kReplayed; }
    AttemptOutcome operator()(const core::InProgress&) const { return AttemptOutcome::kInProgress; }
    AttemptOutcome operator()(const core::Conflict&) const { return AttemptOutcome::kConflict; }
    AttemptOutcome operator()(const core::InDoubt&) const { return AttemptOutcome::kInDoubt; }
    AttemptOutcome operator()(const core::Stale&) const { return AttemptOutcome::kStale; }
    AttemptOutcome operator()(const core::Expired&) const { return AttemptOutcome::kExpired; }
  };
  return std::visit(Visitor{new_claim}, outcome);
}

AttemptOutcome LoggedOutcome(const core::CompleteOutcome& outcome) {
  struct Visitor {
    AttemptOutcome operator()(const core::Completed& completed) const {
      return completed.replayed ? AttemptOutcome::kReplayed : AttemptOutcome::kCompleted;
    }
    AttemptOutcome operator()(const core::ClaimLost&) const { return AttemptOutcome::kClaimLost; }
    AttemptOutcome operator()(const core::CompletionConflict&) const {
      return AttemptOutcome::kConflict;
    }
    AttemptOutcome operator()(const core::NotFound&) const { return AttemptOutcome::kNotFound; }
  };
  return std::visit(Visitor{}, outcome);
}

AttemptOutcome LoggedOutcome(const core::ResolveOutcome& outcome, core::Verdict verdict) {
  struct Visitor {
    core::Verdict verdict;
    AttemptOutcome operator()(const core::Completed& completed) const {
      if (completed.replayed) return AttemptOutcome::kReplayed;
      return verdict == core::Verdict::kDone ? AttemptOutcome::kFoundDone
                                             : AttemptOutcome::kFoundRefused;
    }
    AttemptOutcome operator()(const core::Released&) const { return AttemptOutcome::kFoundNotDone; }
    AttemptOutcome operator()(const core::InProgress&) const { return AttemptOutcome::kInProgress; }
    AttemptOutcome operator()(const core::ClaimLost&) const { return AttemptOutcome::kClaimLost; }
    AttemptOutcome operator()(const core::CompletionConflict&) const {
      return AttemptOutcome::kConflict;
    }
    AttemptOutcome operator()(const core::NotFound&) const { return AttemptOutcome::kNotFound; }
  };
  return std::visit(Visitor{verdict}, outcome);
}

AttemptOutcome LoggedOutcome(const core::ResetOutcome& outcome) {
  struct Visitor {
    AttemptOutcome operator()(const core::Released&) const { return AttemptOutcome::kReset; }
    AttemptOutcome operator()(const core::InProgress&) const { return AttemptOutcome::kInProgress; }
    AttemptOutcome operator()(const core::ClaimLost&) const { return AttemptOutcome::kClaimLost; }
    AttemptOutcome operator()(const core::NotFound&) const { return AttemptOutcome::kNotFound; }
  };
  return std::visit(Visitor{}, outcome);
}

AttemptOutcome LoggedOutcome(const core::AbandonOutcome& outcome) {
  struct Visitor {
    AttemptOutcome operator()(const core::Abandoned& abandoned) const {
      return abandoned.forgotten ? AttemptOutcome::kForgotten : AttemptOutcome::kReleased;
    }
    AttemptOutcome operator()(const core::ClaimLost&) const { return AttemptOutcome::kClaimLost; }
    AttemptOutcome operator()(const core::NotFound&) const { return AttemptOutcome::kNotFound; }
  };
  return std::visit(Visitor{}, outcome);
}

// The part of a log entry that the operation's row gives.
AttemptEntry EntryFor(const OperationKey& key, const EntryId& entry, const OperationRow* row) {
  AttemptEntry log;
  log.key = key;
  log.entry = entry;
  if (row != nullptr) {
    log.fence = row->claim.fence;
    log.attempt_number = row->claims;
  }
  return log;
}

AttemptEntry EntryFor(const BeginCommand& command, const OperationRow* row,
                      AttemptOutcome outcome) {
  AttemptEntry log = EntryFor(command.key, command.entry, row);
  log.kind = AttemptKind::kBegin;
  log.outcome = outcome;
  log.attempt = command.request.attempt;
  log.digest = command.request.digest;
  log.consumer = command.request.consumer;
  log.handler_version = command.request.handler_version;
  log.delivery = command.delivery;
  return log;
}

// Rows that the commands do not touch, which their order depends on.
using OtherRows = std::map<OperationKey, std::optional<OperationRow>>;

// Decides one command on its key's state and appends its log entry.
class Decider {
 public:
  Decider(core::DbTime now, Plan& plan, const OtherRows& others, WriteSet& writes)
      : now_(now),
        keys_(plan.keys),
        order_(plan.order),
        others_(others),
        log_(writes.attempts),
        audit_(writes.audit) {}

  Answer operator()(const BeginCommand& command) {
    KeyState& state = keys_[command.key];
    core::Decision<core::BeginOutcome> decision =
        core::DecideBegin(*state.now, command.request, now_);
    bool new_claim = state.fresh || (decision.row_after.has_value() &&
                                     decision.row_after->claim.fence != state.now->claim.fence);
    if (new_claim && command.request.order.has_value()) {
      new_claim = !Refuse(command, state.fresh, decision);
    }
    core::BeginOutcome outcome = Apply(std::move(decision), state);
    state.fresh = false;
    log_.push_back(EntryFor(command, Row(state), LoggedOutcome(outcome, new_claim)));
    return outcome;
  }

  Answer operator()(const CompleteCommand& command) {
    KeyState& state = keys_[command.key];
    core::CompleteOutcome outcome =
        Apply(core::DecideComplete(Row(state), command.request, now_), state);
    AttemptEntry log = EntryFor(command.key, command.entry, Row(state));
    log.kind = AttemptKind::kComplete;
    log.outcome = LoggedOutcome(outcome);
    log.attempt = command.request.attempt;
    log_.push_back(std::move(log));
    return outcome;
  }

  Answer operator()(const AbandonCommand& command) {
    KeyState& state = keys_[command.key];
    AttemptEntry log = EntryFor(command.key, command.entry, Row(state));  // before a forget
    core::AbandonOutcome outcome =
        Apply(core::DecideAbandon(Row(state), command.request, now_), state);
    log.kind = AttemptKind::kAbandon;
    log.outcome = LoggedOutcome(outcome);
    log.attempt = command.request.attempt;
    log.note = command.note;
    log_.push_back(std::move(log));
    return outcome;
  }

  // Renewals that succeed are no deliveries and would drown the log; refused ones are kept.
  Answer operator()(const RenewCommand& command) {
    KeyState& state = keys_[command.key];
    core::RenewOutcome outcome = Apply(core::DecideRenew(Row(state), command.request, now_), state);
    if (!std::holds_alternative<core::Renewed>(outcome)) {
      AttemptEntry log = EntryFor(command.key, command.entry, Row(state));
      log.kind = AttemptKind::kRenew;
      log.outcome = std::holds_alternative<core::ClaimLost>(outcome) ? AttemptOutcome::kClaimLost
                                                                     : AttemptOutcome::kNotFound;
      log.attempt = command.request.attempt;
      log_.push_back(std::move(log));
    }
    return outcome;
  }

  Answer operator()(const ResolveCommand& command) {
    KeyState& state = keys_[command.key];
    core::Decision<core::ResolveOutcome> decision =
        core::DecideResolve(Row(state), command.request, now_);
    if (decision.row_after.has_value()) {
      audit_.push_back(AuditOf(AuditAction::kResolve, command.key, command.handler, *state.now,
                               *decision.row_after, command.author));
    }
    core::ResolveOutcome outcome = Apply(std::move(decision), state);
    AttemptEntry log = EntryFor(command.key, command.entry, Row(state));
    log.kind = AttemptKind::kResolve;
    log.outcome = LoggedOutcome(outcome, command.request.verdict);
    log.attempt = command.request.attempt;
    log.note = command.author.reason;
    log_.push_back(std::move(log));
    return outcome;
  }

  Answer operator()(const ResetCommand& command) {
    KeyState& state = keys_[command.key];
    core::Decision<core::ResetOutcome> decision =
        core::DecideReset(Row(state), command.request, now_);
    if (decision.row_after.has_value()) {
      state.reset_by = command.author;
      audit_.push_back(AuditOf(AuditAction::kReset, command.key, command.handler, *state.now,
                               *decision.row_after, command.author));
    }
    core::ResetOutcome outcome = Apply(std::move(decision), state);
    AttemptEntry log = EntryFor(command.key, command.entry, Row(state));
    log.kind = AttemptKind::kReset;
    log.outcome = LoggedOutcome(outcome);
    if (state.now.has_value()) log.attempt = state.now->claim.attempt;
    log.note = command.author.reason;
    log_.push_back(std::move(log));
    return outcome;
  }

 private:
  static const OperationRow* Row(const KeyState& state) {
    return state.now.has_value() ? &*state.now : nullptr;
  }

  // Turns a grant that would be out of order into what keeps it back; false where nothing does. A
  // row that was inserted for it goes again: nothing of the operation has happened.
  bool Refuse(const BeginCommand& command, bool fresh,
              core::Decision<core::BeginOutcome>& decision) {
    const auto find = [this](const OperationKey& key) -> const OperationRow* {
      if (const auto own = keys_.find(key); own != keys_.end()) return Row(own->second);
      const auto other = others_.find(key);
      return other != others_.end() && other->second.has_value() ? &*other->second : nullptr;
    };
    auto kept = order_.Admit(command.key, *command.request.order, find, now_);
    if (!kept.has_value()) return false;
    decision = {
        .outcome = std::visit([](auto&& outcome) { return core::BeginOutcome(std::move(outcome)); },
                              *std::move(kept)),
        .row_after = std::nullopt,
        .delete_row = fresh};
    return true;
  }

  const core::DbTime now_;
  KeyStates& keys_;
  BatchOrder& order_;
  const OtherRows& others_;
  std::vector<AttemptEntry>& log_;
  std::vector<AuditRow>& audit_;
};

// The narrowest change that leads from `before` to `after`; unset where they are equal. A
// completion never comes together with a new claim: the pipeline gives a Complete its key alone.
std::optional<RowChange> ChangeFor(const OperationKey& key, const KeyState& state) {
  if (state.before == state.now) {
    return std::nullopt;
  }
  RowChange change;
  change.key = key;
  change.state_before = state.before->state;
  change.attempt_before = state.before->claim.attempt;
  change.fence_before = state.before->claim.fence;
  if (!state.now.has_value()) {
    change.kind = RowChange::Kind::kDelete;
    return change;
  }
  change.after = *state.now;
  if (state.reset_by.has_value()) {
    change.kind = RowChange::Kind::kReset;
    change.author = *state.reset_by;
  } else if (state.now->receipt != state.before->receipt) {
    change.kind = RowChange::Kind::kCompletion;
  } else if (state.now->claim.fence != state.before->claim.fence ||
             state.now->unknown != state.before->unknown ||
             state.now->unknown_attempts != state.before->unknown_attempts) {
    change.kind = RowChange::Kind::kClaim;
  } else {
    change.kind = RowChange::Kind::kLease;
  }
  return change;
}

bool IsCompleted(const Answer& answer) {
  struct Visitor {
    bool operator()(const core::BeginOutcome& outcome) const {
      return std::holds_alternative<core::Completed>(outcome);
    }
    bool operator()(const core::CompleteOutcome& outcome) const {
      return std::holds_alternative<core::Completed>(outcome);
    }
    bool operator()(const core::AbandonOutcome&) const { return false; }
    bool operator()(const core::RenewOutcome&) const { return false; }
    bool operator()(const core::ResolveOutcome& outcome) const {
      return std::holds_alternative<core::Completed>(outcome);
    }
    bool operator()(const core::ResetOutcome&) const { return false; }
  };
  return std::visit(Visitor{}, answer);
}

// What is worth to be known later of the operation that a command is about: its receipt, or the
// claim that it was granted.
bool WorthKnowing(const Command& command, const Answer& answer, const OperationRow& row) {
  const auto* begin = std::get_if<BeginCommand>(&command);
  if (begin != nullptr && row.state == core::RowState::kClaimed) {
    return row.claim.attempt == begin->request.attempt;
  }
  return IsCompleted(answer) && row.receipt.has_value() && row.receipt->result.has_value() &&
         row.receipt->result->size() <= core::kMaxInlineResultBytes;
}

KnownOperations KnownAfter(absl::Span<const Command> commands, absl::Span<const Answer> answers,
                           const KeyStates& keys) {
  KnownOperations known;
  for (size_t i = 0; i < commands.size(); ++i) {
    const OperationKey& key = KeyOf(commands[i]);
    const auto state = keys.find(key);
    if (state == keys.end() || !state->second.now.has_value()) continue;
    const OperationRow& row = *state->second.now;
    if (WorthKnowing(commands[i], answers[i], row)) {
      known.emplace_back(i, KnownOperation{.key = key, .row = row});
    }
  }
  return known;
}

// The changes that the decisions made; they have filled in the logs already.
void AddChanges(const Plan& plan, WriteSet& writes) {
  writes.aggregates = plan.order.Changes();
  std::stable_sort(writes.attempts.begin(), writes.attempts.end(),
                   [](const AttemptEntry& a, const AttemptEntry& b) { return a.key < b.key; });
  for (const auto& [key, state] : plan.keys) {
    if (auto change = ChangeFor(key, state)) {
      writes.changes.push_back(*std::move(change));
    }
  }
}

// How the operations that are open in the batch's aggregates stand.
absl::StatusOr<OtherRows> ReadOpenOperations(WriteSession& session, const Plan& plan) {
  OtherRows others;
  std::vector<OperationKey> keys = plan.order.OpenOperations();
  std::erase_if(keys, [&](const OperationKey& key) { return plan.keys.count(key) > 0; });
  if (keys.empty()) return others;
  absl::StatusOr<std::vector<std::optional<OperationRow>>> rows = session.ReadAlso(keys);
  if (!rows.ok()) return rows.status();
  for (size_t i = 0; i < keys.size(); ++i) others.emplace(keys[i], std::move(rows->at(i)));
  return others;
}

absl::StatusOr<std::vector<Answer>> RunOpenBatch(WriteSession& session,
                                                 absl::Span<const Command> commands, bool repeated,
                                                 KnownOperations* known,
                                                 absl::FunctionRef<void()> before_commit) {
  Plan plan = MakePlan(commands);
  if (absl::Status status = CheckSharedKeys(plan); !status.ok()) return status;
  if (!plan.order.empty()) {
    if (absl::Status status = plan.order.Lock(session); !status.ok()) return status;
  }
  absl::StatusOr<RowSet> rows = session.TouchAndRead(plan.inserts, plan.others);
  if (!rows.ok()) return rows.status();
  const core::DbTime now = rows->now;
  if (absl::Status status = TakeRows(*std::move(rows), plan); !status.ok()) return status;
  const absl::StatusOr<OtherRows> others = ReadOpenOperations(session, plan);
  if (!others.ok()) return others.status();

  WriteSet writes;
  writes.repeated = repeated;
  std::vector<Answer> answers;
  answers.reserve(commands.size());
  Decider decider(now, plan, *others, writes);
  for (const Command& command : commands) {
    answers.push_back(std::visit(decider, command));
  }
  AddChanges(plan, writes);
  if (absl::Status status = session.Write(writes); !status.ok()) return status;
  before_commit();
  if (absl::Status status = session.Commit(); !status.ok()) return status;
  if (known != nullptr) *known = KnownAfter(commands, answers, plan.keys);
  return answers;
}

}  // namespace

const OperationKey& KeyOf(const Command& command) {
  return std::visit([](const auto& c) -> const OperationKey& { return c.key; }, command);
}

OperationKey& MutableKeyOf(Command& command) {
  return std::visit([](auto& c) -> OperationKey& { return c.key; }, command);
}

absl::StatusOr<std::vector<Answer>> RunBatch(WriteSession& session,
                                             absl::Span<const Command> commands, bool repeated,
                                             KnownOperations* known,
                                             absl::FunctionRef<void()> before_commit) {
  absl::StatusOr<std::vector<Answer>> answers =
      RunOpenBatch(session, commands, repeated, known, before_commit);
  if (!answers.ok()) {
    session.Rollback();
  }
  return answers;
}

RepeatedBegin DecideRepeated(const BeginCommand& command, const OperationRow& completed) {
  // Nothing that is said of a completed operation depends on the time.
  core::Decision<core::BeginOutcome> decision =
      core::DecideBegin(completed, command.request, core::DbTime{});
  const AttemptOutcome logged = LoggedOutcome(decision.outcome, /*new_claim=*/false);
  return {.outcome = std::move(decision.outcome), .entry = EntryFor(command, &completed, logged)};
}

absl::Status LogAttempts(WriteSession& session, absl::Span<const AttemptEntry> entries,
                         bool repeated) {
  WriteSet writes;
  writes.repeated = repeated;
  writes.attempts.assign(entries.begin(), entries.end());
  absl::Status status = session.TouchAndRead({}, {}).status();
  if (status.ok()) status = session.Write(writes);
  if (status.ok()) status = session.Commit();
  if (!status.ok()) session.Rollback();
  return status;
}

}  // namespace once::store
