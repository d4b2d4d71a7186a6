#include "pipeline/wait_room.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>
#include <variant>

namespace once::pipeline {
namespace {

// Callers that went away leave no note; their calls are looked for this often.
constexpr absl::Duration kSearchInterval = absl::Milliseconds(100);

// A look that is due when a lease ends comes a moment later, so that the database agrees that it
// ended.
constexpr absl::Duration kAfterLease = absl::Milliseconds(1);

std::shared_ptr<PendingReply> PendingOf(const WaitingCall& call) {
  return std::visit([](const auto& c) { return pipeline::PendingOf(c); }, call);
}

const std::shared_ptr<Reply<core::BeginOutcome>>& BeginReply(const WriteCall& call) {
  return std::get<std::shared_ptr<Reply<core::BeginOutcome>>>(call.reply);
}

void AnswerInProgress(const WaitingCall& call, core::InProgress state) {
  if (const auto* write = std::get_if<WriteCall>(&call)) {
    BeginReply(*write)->Answer(core::BeginOutcome(std::move(state)));
  } else {
    std::get<ReadCall>(call).reply->Answer(core::LookupOutcome(std::move(state)));
  }
}

}  // namespace

Place::~Place() {
  if (room_ != nullptr) room_->Leave(*this);
}

WaitRoom::WaitRoom(const Options* options, Timing* timing, Observer* observer,
                   Timekeeper* timekeeper, BodyReader* bodies)
    : options_(options),
      timing_(timing),
      observer_(observer),
      timekeeper_(timekeeper),
      bodies_(bodies) {}

WaitRoom::~WaitRoom() { assert(spots_.empty()); }

// ---- places ----

absl::Status WaitRoom::TakePlace(const core::OperationKey& key, Place& place) {
  if (places_ >= options_->max_waiters) {
    return OverloadedError("waiting calls", options_->max_waiters);
  }
  size_t& of_tenant = places_by_tenant_[key.tenant.value];
  if (of_tenant >= options_->max_waiters_per_tenant) {
    return TenantWaitersError(options_->max_waiters_per_tenant);
  }
  ++places_;
  ++of_tenant;
  place.room_ = this;
  place.key_ = key;
  place.arrival_ = ++arrivals_;
  return absl::OkStatus();
}

void WaitRoom::Leave(Place& place) {
  absl::MutexLock lock(&mutex_);
  auto of_tenant = places_by_tenant_.find(place.key_.tenant.value);
  if (--of_tenant->second == 0) places_by_tenant_.erase(of_tenant);
  --places_;
  // Under the lock, so that the last number told is the last that was true.
  observer_->OnWaiters(places_);
  if (!place.at_the_door_) return;
  WaitSpot& spot = spots_.at(place.key_);
  spot.at_the_door = false;
  spot.newcomers = true;
  LookNow(spot);
  DropIfEmpty(spot);
}

// ---- waiters ----

void WaitRoom::Park(const core::OperationKey& key, WaitingCall call, core::InProgress state) {
  absl::Time next_end = WaitUntilOf(call);
  absl::Status refused;
  bool closed = false;
  {
    absl::MutexLock lock(&mutex_);
    Place& place = PlaceOf(call);
    closed = closed_;
    if (!closed && !place.taken()) refused = TakePlace(key, place);
    if (!closed && refused.ok()) {
      WaitSpot& spot = SpotOf(key);
      const absl::Time now = timing_->Now();
      if (place.key_ != key) Move(place, spot);
      spot.state = SpotState(spot, call, state);
      spot.state_at = now;
      if (place.at_the_door_) {
        place.at_the_door_ = false;
        spot.at_the_door = false;
      }
      // A Lookup may have read before a commit that came before it got here.
      if (std::holds_alternative<ReadCall>(call)) spot.pace = options_->wait_poll_interval;
      // Commands on one key keep their order, but this one is about another key than the spot's,
      // which may have changed since.
      const bool may_have_missed_a_change = WaitsForOther(call);
      Add(spot, std::move(call));
      LookBy(spot, may_have_missed_a_change ? now : NextTick(spot.pace));
      // A lease that is over already changes nothing by itself.
      if (state.lease_remaining > absl::ZeroDuration()) {
        LookBy(spot, now + state.lease_remaining + kAfterLease);
      }
    }
    next_end = std::min(next_end, next_search_);
    observer_->OnWaiters(places_);
  }
  if (closed) {
    AnswerInProgress(call, std::move(state));
  } else if (!refused.ok()) {
    PendingOf(call)->Fail(refused);
  } else {
    timekeeper_->Nudge(next_end);
  }
}

void WaitRoom::Move(Place& place, WaitSpot& to) {
  const auto found = spots_.find(place.key_);
  place.key_ = to.key;
  if (!std::exchange(place.at_the_door_, false)) return;
  WaitSpot& from = found->second;
  from.at_the_door = false;
  for (auto next = from.waiters.begin(); next != from.waiters.end();) {
    const auto at = next++;
    if (!WaitsForOther(at->second.call)) continue;
    WaitingCall call = TakeOut(from, at);
    PlaceOf(call).key_ = to.key;
    Add(to, std::move(call));
  }
  from.newcomers = true;
  LookNow(from);
  DropIfEmpty(from);
}

WaitSpot& WaitRoom::SpotOf(const core::OperationKey& key) {
  WaitSpot& spot = spots_[key];
  if (spot.pace == absl::ZeroDuration()) {  // new
    spot.key = key;
    spot.pace = options_->wait_poll_interval;
  }
  return spot;
}

void WaitRoom::Add(WaitSpot& spot, WaitingCall call) {
  const uint64_t arrival = PlaceOf(call).arrival_;
  const absl::Time until = WaitUntilOf(call);
  ends_.emplace(until, arrival, &spot);
  spot.newcomers = true;
  spot.waiters.emplace(arrival, Waiter{.call = std::move(call), .until = until, .stay = ++stays_});
}

WaitingCall WaitRoom::TakeOut(WaitSpot& spot, WaiterAt at) {
  ends_.erase({at->second.until, at->first, &spot});
  WaitingCall call = std::move(at->second.call);
  spot.waiters.erase(at);
  return call;
}

void WaitRoom::TakeOutUnchanged(WaitSpot& spot, WaiterAt at, absl::Time now, Leaving& leaving) {
  WaitingCall call = TakeOut(spot, at);
  core::InProgress state = StateAt(spot, call, now);
  leaving.unchanged.emplace_back(std::move(call), std::move(state));
  DropIfEmpty(spot);
}

void WaitRoom::DropIfEmpty(WaitSpot& spot) {
  if (!spot.waiters.empty()) return;
  LookAt(spot, absl::InfiniteFuture());
  if (spot.at_the_door || spot.in_sight) return;
  spots_.erase(spots_.find(spot.key));
}

void WaitRoom::Answer(Leaving leaving) {
  for (auto& [call, state] : leaving.unchanged) AnswerInProgress(call, std::move(state));
  for (auto& [call, outcome] : leaving.begins) {
    bodies_->Deliver(call.place.key_, call.life, BeginReply(call), std::move(outcome));
  }
  for (auto& [call, outcome] : leaving.lookups) {
    bodies_->Deliver(call.place.key_, call.life, call.reply, std::move(outcome));
  }
  for (const WaitingCall& call : leaving.cancelled) PendingOf(call)->Fail(DeadlineError());
}

void WaitRoom::Close() {
  Leaving leaving;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    const absl::Time now = timing_->Now();
    while (!ends_.empty()) {
      const auto [until, arrival, spot] = *ends_.begin();
      TakeOutUnchanged(*spot, spot->waiters.find(arrival), now, leaving);
    }
  }
  Answer(std::move(leaving));
}

absl::Time WaitRoom::NextEnd() const {
  absl::MutexLock lock(&mutex_);
  if (ends_.empty()) return absl::InfiniteFuture();
  return std::min(std::get<absl::Time>(*ends_.begin()), next_search_);
}

void WaitRoom::FailOver(absl::Time now) {
  Leaving leaving;
  {
    absl::MutexLock lock(&mutex_);
    while (!ends_.empty() && std::get<absl::Time>(*ends_.begin()) <= now) {
      const auto [until, arrival, spot] = *ends_.begin();
      TakeOutUnchanged(*spot, spot->waiters.find(arrival), now, leaving);
    }
    if (now >= next_search_) {
      next_search_ = now + kSearchInterval;
      TakeOutCancelled(leaving);
    }
  }
  Answer(std::move(leaving));
}

void WaitRoom::TakeOutCancelled(Leaving& leaving) {
  for (auto end = ends_.begin(); end != ends_.end();) {
    const auto [until, arrival, spot] = *end;
    ++end;
    const auto at = spot->waiters.find(arrival);
    if (!LifeOf(at->second.call).cancelled()) continue;
    leaving.cancelled.push_back(TakeOut(*spot, at));
    DropIfEmpty(*spot);
  }
}

// ---- looks ----

absl::Time WaitRoom::NextTick(absl::Duration pace) const {
  // On common ticks, so that many spots are read together.
  const absl::Duration tick = options_->wait_poll_interval;
  const absl::Duration from_epoch = timing_->Now() - absl::UnixEpoch() + pace - tick / 2;
  return absl::UnixEpoch() + absl::Ceil(from_epoch, tick);
}

void WaitRoom::LookAt(WaitSpot& spot, absl::Time when) {
  if (spot.next_look != absl::InfiniteFuture()) looks_.erase({spot.next_look, &spot});
  spot.next_look = when;
  if (when == absl::InfiniteFuture()) return;
  const auto at = looks_.emplace(when, &spot).first;
  if (at == looks_.begin()) due_.Signal();
}

void WaitRoom::LookBy(WaitSpot& spot, absl::Time when) {
  if (!spot.in_sight && when < spot.next_look) LookAt(spot, when);
}

void WaitRoom::LookNow(WaitSpot& spot) {
  spot.changed_in_sight = spot.in_sight;
  LookBy(spot, timing_->Now());
}

void WaitRoom::Changed(absl::Span<const core::OperationKey> keys) {
  absl::MutexLock lock(&mutex_);
  if (spots_.empty()) return;
  for (const core::OperationKey& key : keys) {
    if (auto spot = spots_.find(key); spot != spots_.end()) LookNow(spot->second);
  }
}

std::vector<core::OperationKey> WaitRoom::WaitForDue(absl::Time not_before, size_t max_keys) {
  std::vector<core::OperationKey> keys;
  absl::MutexLock lock(&mutex_);
  for (;;) {
    if (stopped_) return keys;
    const absl::Time first = looks_.empty() ? absl::InfiniteFuture() : looks_.begin()->first;
    const absl::Time due = std::max(first, not_before);
    if (due <= timing_->Now()) break;
    timing_->WaitUntil(&mutex_, &due_, due);
  }
  const absl::Time now = timing_->Now();
  while (!looks_.empty() && looks_.begin()->first <= now && keys.size() < max_keys) {
    WaitSpot& spot = *looks_.begin()->second;
    LookAt(spot, absl::InfiniteFuture());
    spot.in_sight = true;
    spot.last_stay_in_sight = stays_;
    spot.changed_in_sight = false;
    keys.push_back(spot.key);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::vector<WriteCall> WaitRoom::Judge(absl::Span<const core::OperationKey> keys,
                                       absl::Span<const std::optional<core::OperationRow>> rows,
                                       core::DbTime now) {
  std::vector<WriteCall> to_send;
  Leaving leaving;
  {
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < keys.size(); ++i) {
      WaitSpot& spot = spots_.at(keys[i]);
      const core::OperationRow* row = rows[i].has_value() ? &*rows[i] : nullptr;
      if (auto first = JudgeSpot(spot, row, now, leaving)) to_send.push_back(*std::move(first));
      PlanNextLook(spot);
      DropIfEmpty(spot);
    }
  }
  Answer(std::move(leaving));
  return to_send;
}

std::optional<WriteCall> WaitRoom::JudgeSpot(WaitSpot& spot, const core::OperationRow* row,
                                             core::DbTime now, Leaving& leaving) {
  if (NothingNew(spot, row, now)) {
    spot.state.lease_remaining = std::max(absl::ZeroDuration(), row->claim.lease_expires - now);
    spot.state_at = timing_->Now();
    spot.pace = std::min(spot.pace * 1.5, options_->max_wait_poll_interval);
    return std::nullopt;
  }
  spot.pace = options_->wait_poll_interval;
  spot.row = row == nullptr ? std::nullopt : std::optional<core::OperationRow>(*row);
  if (spot.row.has_value()) spot.row->receipt.reset();
  spot.lapsed = row != nullptr && row->claim.lease_expires <= now;
  spot.newcomers = false;
  std::optional<WriteCall> to_send;
  for (auto next = spot.waiters.begin(); next != spot.waiters.end();) {
    const auto at = next++;
    if (at->second.stay > spot.last_stay_in_sight) {
      spot.newcomers = true;
      continue;
    }
    Judgement judgement = JudgeWaiter(at->second.call, row, now);
    if (auto* state = std::get_if<core::InProgress>(&judgement)) {
      spot.state = SpotState(spot, at->second.call, std::move(*state));
      spot.state_at = timing_->Now();
    } else if (std::holds_alternative<Grantable>(judgement)) {
      if (spot.at_the_door || LifeOf(at->second.call).cancelled()) continue;
      spot.at_the_door = true;
      to_send = std::get<WriteCall>(TakeOut(spot, at));
      to_send->place.at_the_door_ = true;
    } else if (auto* begin = std::get_if<core::BeginOutcome>(&judgement)) {
      leaving.begins.emplace_back(std::get<WriteCall>(TakeOut(spot, at)), std::move(*begin));
    } else {
      leaving.lookups.emplace_back(std::get<ReadCall>(TakeOut(spot, at)),
                                   std::get<core::LookupOutcome>(std::move(judgement)));
    }
  }
  return to_send;
}

void WaitRoom::PlanNextLook(WaitSpot& spot) {
  spot.in_sight = false;
  const absl::Time now = timing_->Now();
  if (spot.changed_in_sight) {
    spot.changed_in_sight = false;
    LookBy(spot, now);
    return;
  }
  LookBy(spot, NextTick(spot.pace));
  const absl::Time lease_end = spot.state_at + spot.state.lease_remaining;
  if (spot.state.lease_remaining > absl::ZeroDuration() && lease_end >= now && !spot.at_the_door) {
    LookBy(spot, lease_end + kAfterLease);
  }
}

void WaitRoom::PutBack(absl::Span<const core::OperationKey> keys) {
  absl::MutexLock lock(&mutex_);
  for (const core::OperationKey& key : keys) {
    WaitSpot& spot = spots_.at(key);
    spot.in_sight = false;
    spot.newcomers = true;
    LookBy(spot, spot.changed_in_sight ? timing_->Now() : NextTick(spot.pace));
    spot.changed_in_sight = false;
    DropIfEmpty(spot);
  }
}

void WaitRoom::TakeBack(WriteCall call) {
  Leaving leaving;
  {
    absl::MutexLock lock(&mutex_);
    WaitSpot& spot = spots_.at(call.place.key_);
    call.place.at_the_door_ = false;
    spot.at_the_door = false;
    if (closed_) {
      WaitingCall waiting = std::move(call);
      core::InProgress state = StateAt(spot, waiting, timing_->Now());
      leaving.unchanged.emplace_back(std::move(waiting), std::move(state));
      DropIfEmpty(spot);
    } else {
      Add(spot, std::move(call));
      LookBy(spot, NextTick(spot.pace));
    }
  }
  Answer(std::move(leaving));
}

void WaitRoom::StopPolling() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  due_.SignalAll();
}

}  // namespace once::pipeline
