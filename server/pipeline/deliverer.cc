#include "pipeline/deliverer.h"

#include <cassert>
#include <memory>
#include <utility>
#include <variant>

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
  };
  return std::visit(Visitor{}, answer);
}

}  // namespace

Deliverer::~Deliverer() { assert(!thread_.joinable()); }

void Deliverer::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Deliverer::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    changed_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

void Deliverer::Deliver(Delivery delivery, bool busy) {
  {
    absl::MutexLock lock(&mutex_);
    if (busy || delivering_ || !queue_.empty()) {
      queue_.push_back(std::move(delivery));
      if (!delivering_) changed_.Signal();
      return;
    }
    delivering_ = true;
  }
  DeliverNow(std::move(delivery));
  absl::MutexLock lock(&mutex_);
  delivering_ = false;
  if (!queue_.empty()) changed_.Signal();
}

void Deliverer::Run() {
  for (;;) {
    std::vector<Delivery> taken;
    {
      absl::MutexLock lock(&mutex_);
      while (delivering_ || (queue_.empty() && !stopped_)) {
        timing_->WaitUntil(&mutex_, &changed_, absl::InfiniteFuture());
      }
      if (queue_.empty()) return;
      taken = std::exchange(queue_, {});
      delivering_ = true;
    }
    for (Delivery& delivery : taken) DeliverNow(std::move(delivery));
    absl::MutexLock lock(&mutex_);
    delivering_ = false;
  }
}

void Deliverer::DeliverNow(Delivery delivery) {
  std::vector<core::OperationKey> changed;
  for (size_t i = 0; i < delivery.calls.size(); ++i) {
    if (ChangesRow(delivery.answers[i])) {
      changed.push_back(store::KeyOf(delivery.calls[i].command));
    }
  }
  // Before those of this very batch begin to wait: they know already.
  if (!changed.empty()) room_->Changed(changed);
  for (size_t i = 0; i < delivery.calls.size(); ++i) {
    DeliverOne(std::move(delivery.calls[i]), std::move(delivery.answers[i]));
  }
}

void Deliverer::DeliverOne(WriteCall call, store::Answer answer) {
  call.maybe_committed = false;
  const core::OperationKey key = store::KeyOf(call.command);
  if (auto* begin = std::get_if<core::BeginOutcome>(&answer)) {
    auto* state = std::get_if<core::InProgress>(begin);
    if (state != nullptr && timing_->Now() < call.wait_until) {
      room_->Park(key, std::move(call), std::move(*state));
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
