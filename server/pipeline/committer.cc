#include "pipeline/committer.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace once::pipeline {
namespace {

bool ChangesRow(const store::Answer& answer) {
  struct Visitor {
    bool operator()(const core::BeginOutcome& outcome) const {
      return std::holds_alternative<core::Granted>(outcome);
    }
    bool operator()(const core::CompleteOutcome& outcome) const {
      return std::holds_alternative<core::Completed>(outcome);
    }
    bool operator()(const core::AbandonOutcome& outcome) const {
      return std::holds_alternative<core::Abandoned>(outcome);
    }
    bool operator()(const core::RenewOutcome& outcome) const {
      return std::holds_alternative<core::Renewed>(outcome);
    }
    bool operator()(const core::ResolveOutcome& outcome) const {
      return std::holds_alternative<core::Completed>(outcome) ||
             std::holds_alternative<core::Released>(outcome);
    }
    bool operator()(const core::ResetOutcome& outcome) const {
      return std::holds_alternative<core::Released>(outcome);
    }
  };
  return std::visit(Visitor{}, answer);
}

absl::StatusOr<std::vector<store::Answer>> RunCalls(store::WriteSession& session,
                                                    std::vector<WriteCall>& calls,
                                                    store::KnownOperations* known,
                                                    absl::FunctionRef<void()> before_commit) {
  std::vector<store::Command> commands;
  commands.reserve(calls.size());
  bool repeated = false;
  for (WriteCall& call : calls) {
    commands.push_back(std::move(call.command));
    repeated = repeated || call.maybe_committed;
  }
  absl::StatusOr<std::vector<store::Answer>> answers =
      store::RunBatch(session, commands, repeated, known, before_commit);
  for (size_t i = 0; i < calls.size(); ++i) calls[i].command = std::move(commands[i]);
  return answers;
}

// What was known may be why the transaction failed.
void ForgetKnownClaims(std::vector<WriteCall>& calls) {
  for (WriteCall& call : calls) {
    if (auto* complete = std::get_if<store::CompleteCommand>(&call.command))
      complete->known.reset();
  }
}

}  // namespace

Committer::Committer(const Shared& shared, int shard, std::shared_ptr<Lane<WriteCall>> lane,
                     uint64_t seed, WaitRoom* room, BodyReader* bodies)
    : Worker(shared, std::move(lane),
             {.calls = shared.options->max_batch_calls, .bytes = shared.options->max_batch_bytes},
             seed),
      shard_(shard),
      room_(room),
      bodies_(bodies),
      session_(shared.store, &store::Store::OpenWriteSession),
      control_(shared.store, &store::Store::OpenControlSession) {}

void Committer::OnTaken() { shared().observer->OnQueueDepth(shard_, queued()); }

absl::Status Committer::Connect() { return session_.Get().status(); }

absl::Status Committer::Intern(std::vector<WriteCall>& calls) {
  absl::Status status;
  const auto settled = [this, &status](WriteCall& call) {
    core::OperationKey& key = store::MutableKeyOf(call.command);
    if (key.handler.value != 0 || !status.ok()) return false;
    const bool create = std::holds_alternative<store::BeginCommand>(call.command);
    const absl::StatusOr<core::HandlerId> id =
        InternHandler(shared(), control_, call.key.tenant, call.key.handler, create);
    if (id.ok()) {
      key.handler = *id;
      return false;
    }
    if (absl::IsNotFound(id.status())) {
      AnswerNotFound(call);
      return true;
    }
    // Interning can be repeated, so an unknown outcome is no more than a lost connection here.
    status =
        absl::IsUnknown(id.status()) ? absl::UnavailableError(id.status().message()) : id.status();
    return false;
  };
  calls.erase(std::remove_if(calls.begin(), calls.end(), settled), calls.end());
  return status;
}

absl::Status Committer::Try(std::vector<WriteCall>& calls) {
  if (absl::Status status = Intern(calls); !status.ok() || calls.empty()) return status;
  absl::StatusOr<store::WriteSession*> session = session_.Get();
  if (!session.ok()) return session.status();

  const absl::Time start = shared().timing->Now();
  absl::Time worked = start;
  const bool remembers = shared().receipts->enabled() || shared().claims->enabled();
  store::KnownOperations known;
  absl::StatusOr<std::vector<store::Answer>> answers =
      RunCalls(**session, calls, remembers ? &known : nullptr, [this, &worked] {
        worked = shared().timing->Now();
        BeforeCommit();
      });
  if (!answers.ok()) {
    if (absl::IsUnknown(answers.status())) {
      for (WriteCall& call : calls) call.maybe_committed = true;
    }
    ForgetKnownClaims(calls);
    session_.DropAfter(answers.status());
    return answers.status();
  }
  const absl::Time committed = shared().timing->Now();
  Committed(worked - start, committed - worked);
  shared().observer->OnBatch(calls.size(), committed - start);
  for (auto& [index, operation] : known) {
    RowCache* const cache =
        operation.row.state == core::RowState::kCompleted ? shared().receipts : shared().claims;
    cache->Put(calls[index].key, std::move(operation), shared().timing->Now());
  }
  // After the commit: a duplicate in front of it may have put the receipt there.
  for (const WriteCall& call : calls) {
    if (std::holds_alternative<store::ResetCommand>(call.command)) {
      shared().receipts->Take(call.key, shared().timing->Now());
    }
  }
  Deliver(std::exchange(calls, {}), *std::move(answers));
  return absl::OkStatus();
}

void Committer::Deliver(std::vector<WriteCall> calls, std::vector<store::Answer> answers) {
  std::vector<core::OperationKey> changed;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (ChangesRow(answers[i])) changed.push_back(store::KeyOf(calls[i].command));
  }
  // Before those of this very batch begin to wait: they know already.
  if (!changed.empty()) room_->Changed(changed);
  for (size_t i = 0; i < calls.size(); ++i) {
    DeliverOne(std::move(calls[i]), std::move(answers[i]));
  }
}

void Committer::DeliverOne(WriteCall call, store::Answer answer) {
  call.maybe_committed = false;
  const core::OperationKey key = store::KeyOf(call.command);
  if (auto* begin = std::get_if<core::BeginOutcome>(&answer)) {
    auto* state = std::get_if<core::InProgress>(begin);
    if (state != nullptr && shared().timing->Now() < call.wait_until) {
      core::OperationKey awaited = key;
      call.waits_for_other = !state->blocking_event_id.empty();
      if (call.waits_for_other) awaited.event_id = state->blocking_event_id;
      room_->Park(awaited, std::move(call), std::move(*state));
      return;
    }
  }
  std::visit(
      [&](auto&& outcome) {
        using Outcome = std::decay_t<decltype(outcome)>;
        bodies_->Deliver(key, call.life, std::get<std::shared_ptr<Reply<Outcome>>>(call.reply),
                         std::move(outcome));
      },
      std::move(answer));
}

}  // namespace once::pipeline
