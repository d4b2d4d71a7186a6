#include "pipeline/wait_spot.h"

#include <algorithm>
#include <utility>

#include "core/order.h"
#include "store/batch.h"

namespace once::pipeline {
namespace {

Judgement JudgeBegin(const core::BeginRequest& request, const core::OperationRow* row,
                     core::DbTime now) {
  if (row == nullptr) return Grantable{};
  core::BeginOutcome outcome = core::DecideBegin(*row, request, now).outcome;
  if (std::holds_alternative<core::Granted>(outcome)) return Grantable{};
  if (auto* state = std::get_if<core::InProgress>(&outcome)) return std::move(*state);
  return outcome;
}

Judgement JudgeLookup(const core::LookupRequest& request, const core::OperationRow* row,
                      core::DbTime now) {
  core::LookupOutcome outcome = core::DecideLookup(row, request, now);
  if (auto* state = std::get_if<core::InProgress>(&outcome)) return std::move(*state);
  return outcome;
}

}  // namespace

core::InProgress StateAt(const WaitSpot& spot, const WaitingCall& call, absl::Time now) {
  core::InProgress state = spot.state;
  if (WaitsForOther(call)) {
    state.reason = core::InProgress::Reason::kAggregateBusy;
    state.blocking_event_id = spot.key.event_id;
    state.first_digest.reset();
  }
  const absl::Duration gone = std::max(absl::ZeroDuration(), now - spot.state_at);
  state.lease_remaining = std::max(absl::ZeroDuration(), state.lease_remaining - gone);
  return state;
}

core::InProgress SpotState(const WaitSpot& spot, const WaitingCall& call, core::InProgress state) {
  if (WaitsForOther(call)) {
    state.reason = core::InProgress::Reason::kHeld;
    state.blocking_event_id.clear();
    state.first_digest = spot.state.first_digest;
  }
  return state;
}

bool WaitsForOther(const WaitingCall& call) {
  const auto* write = std::get_if<WriteCall>(&call);
  return write != nullptr && write->waits_for_other;
}

bool NothingNew(const WaitSpot& spot, const core::OperationRow* row, core::DbTime now) {
  if (spot.newcomers || row == nullptr || !spot.row.has_value()) return false;
  const bool live =
      row->state == core::RowState::kClaimed || row->state == core::RowState::kReleased;
  return live && spot.lapsed == (row->claim.lease_expires <= now) &&
         row->state == spot.row->state && row->claim == spot.row->claim &&
         row->digest == spot.row->digest;
}

Judgement JudgeWaiter(const WaitingCall& call, const core::OperationRow* row, core::DbTime now) {
  if (const auto* read = std::get_if<ReadCall>(&call)) return JudgeLookup(read->request, row, now);
  const auto& write = std::get<WriteCall>(call);
  if (write.waits_for_other) {
    // The state is told by the spot, which knows the name.
    auto blocked = core::BlockedBy(/*blocking_event_id=*/{}, row, now);
    return blocked.has_value() ? Judgement(*std::move(blocked)) : Judgement(Grantable{});
  }
  const store::Command& command = write.command;
  return JudgeBegin(std::get<store::BeginCommand>(command).request, row, now);
}

const Life& LifeOf(const WaitingCall& call) {
  return std::visit([](const auto& c) -> const Life& { return c.life; }, call);
}
Place& PlaceOf(WaitingCall& call) {
  return std::visit([](auto& c) -> Place& { return c.place; }, call);
}
absl::Time WaitUntilOf(const WaitingCall& call) {
  return std::visit([](const auto& c) { return c.wait_until; }, call);
}

}  // namespace once::pipeline
