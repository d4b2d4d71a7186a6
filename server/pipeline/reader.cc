#include "pipeline/reader.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"

namespace once::pipeline {

Reader::Reader(const Shared& shared, uint64_t seed, WaitRoom* room, BodyReader* bodies)
    : Worker(shared,
             {.calls = shared.options->max_queue_calls, .bytes = shared.options->max_queue_bytes},
             {.calls = shared.options->max_batch_calls, .bytes = shared.options->max_batch_bytes},
             seed),
      room_(room),
      bodies_(bodies),
      session_(shared.store, &store::Store::OpenReadSession),
      control_(shared.store, &store::Store::OpenControlSession) {}

absl::Status Reader::Connect() { return session_.Get().status(); }

absl::Status Reader::Intern(std::vector<ReadCall>& calls) {
  absl::Status status;
  const auto settled = [this, &status](ReadCall& call) {
    if (call.operation.handler.value != 0 || !status.ok()) return false;
    const absl::StatusOr<core::HandlerId> id =
        InternHandler(shared(), control_, call.key.tenant, call.key.handler, /*create=*/false);
    if (id.ok()) {
      call.operation.handler = *id;
      return false;
    }
    if (absl::IsNotFound(id.status())) {
      call.reply->Answer(core::LookupOutcome(core::NotFound{}));
      return true;
    }
    status = id.status();
    return false;
  };
  calls.erase(std::remove_if(calls.begin(), calls.end(), settled), calls.end());
  return status;
}

absl::Status Reader::Try(std::vector<ReadCall>& calls) {
  if (absl::Status status = Intern(calls); !status.ok() || calls.empty()) return status;
  absl::StatusOr<store::ReadSession*> session = session_.Get();
  if (!session.ok()) return session.status();
  std::vector<core::OperationKey> keys;
  keys.reserve(calls.size());
  for (const ReadCall& call : calls) keys.push_back(call.operation);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());

  const absl::Time start = shared().timing->Now();
  absl::StatusOr<store::RowSet> rows = (*session)->Read(keys);
  if (!rows.ok()) {
    session_.DropAfter(rows.status());
    return rows.status();
  }
  if (rows->others.size() != keys.size())
    return absl::InternalError("rows of other keys than asked");
  shared().observer->OnReadBatch(keys.size(), shared().timing->Now() - start);
  for (ReadCall& call : std::exchange(calls, {})) {
    const auto at = std::lower_bound(keys.begin(), keys.end(), call.operation) - keys.begin();
    const std::optional<core::OperationRow>& row = rows->others[static_cast<size_t>(at)];
    if (row.has_value() && row->state == core::RowState::kCompleted &&
        row->receipt->result.has_value()) {
      shared().receipts->Put(call.key, {.key = call.operation, .row = *row}, start);
    }
    core::LookupOutcome outcome =
        core::DecideLookup(row.has_value() ? &*row : nullptr, call.request, rows->now);
    Deliver(std::move(call), std::move(outcome));
  }
  return absl::OkStatus();
}

void Reader::Deliver(ReadCall call, core::LookupOutcome outcome) {
  const core::OperationKey key = call.operation;
  auto* state = std::get_if<core::InProgress>(&outcome);
  if (state != nullptr && shared().timing->Now() < call.wait_until) {
    room_->Park(key, std::move(call), std::move(*state));
    return;
  }
  bodies_->Deliver(key, call.life, call.reply, std::move(outcome));
}

}  // namespace once::pipeline
