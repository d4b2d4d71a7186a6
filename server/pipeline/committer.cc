#include "pipeline/committer.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"

namespace once::pipeline {
namespace {

absl::StatusOr<std::vector<store::Answer>> RunCalls(store::WriteSession& session,
                                                    std::vector<WriteCall>& calls,
                                                    store::CompletedOperations* completed) {
  std::vector<store::Command> commands;
  commands.reserve(calls.size());
  bool repeated = false;
  for (WriteCall& call : calls) {
    commands.push_back(std::move(call.command));
    repeated = repeated || call.maybe_committed;
  }
  absl::StatusOr<std::vector<store::Answer>> answers =
      store::RunBatch(session, commands, repeated, completed);
  for (size_t i = 0; i < calls.size(); ++i) calls[i].command = std::move(commands[i]);
  return answers;
}

}  // namespace

Committer::Committer(const Shared& shared, int shard, uint64_t seed, Deliverer* deliverer)
    : Worker(shared,
             {.calls = shared.options->max_queue_calls, .bytes = shared.options->max_queue_bytes},
             {.calls = shared.options->max_batch_calls, .bytes = shared.options->max_batch_bytes},
             seed),
      shard_(shard),
      deliverer_(deliverer),
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
  store::CompletedOperations completed;
  absl::StatusOr<std::vector<store::Answer>> answers =
      RunCalls(**session, calls, shared().receipts->enabled() ? &completed : nullptr);
  if (!answers.ok()) {
    if (absl::IsUnknown(answers.status())) {
      for (WriteCall& call : calls) call.maybe_committed = true;
    }
    session_.DropAfter(answers.status());
    return answers.status();
  }
  shared().observer->OnBatch(calls.size(), shared().timing->Now() - start);
  for (auto& [index, operation] : completed) {
    shared().receipts->Put(calls[index].key, std::move(operation), shared().timing->Now());
  }
  deliverer_->Deliver({std::exchange(calls, {}), *std::move(answers)}, /*busy=*/queued() > 0);
  return absl::OkStatus();
}

}  // namespace once::pipeline
