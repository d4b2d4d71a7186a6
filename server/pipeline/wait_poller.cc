#include "pipeline/wait_poller.h"

#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace once::pipeline {
namespace {

constexpr size_t kMaxKeysPerRead = 500;

}  // namespace

WaitPoller::WaitPoller(const Shared& shared, uint64_t seed, WaitRoom* room, Send send)
    : shared_(shared),
      room_(room),
      send_(std::move(send)),
      session_(shared.store, &store::Store::OpenReadSession),
      trouble_(seed) {}

void WaitPoller::Start() {
  thread_ = std::thread([this] { Run(); });
}

void WaitPoller::Stop() {
  room_->StopPolling();
  if (thread_.joinable()) thread_.join();
}

void WaitPoller::Run() {
  absl::Time not_before = absl::InfinitePast();
  for (;;) {
    const std::vector<core::OperationKey> keys = room_->WaitForDue(not_before, kMaxKeysPerRead);
    if (keys.empty()) return;
    const absl::Status status = Look(keys);
    if (status.ok()) {
      trouble_.OnSuccess();
      not_before = absl::InfinitePast();
      continue;
    }
    shared_.observer->OnStoreError(status);
    room_->PutBack(keys);
    const absl::Time now = shared_.timing->Now();
    not_before = now + trouble_.OnLost(now);
  }
}

absl::Status WaitPoller::Look(absl::Span<const core::OperationKey> keys) {
  absl::StatusOr<store::ReadSession*> session = session_.Get();
  if (!session.ok()) return session.status();
  const absl::Time start = shared_.timing->Now();
  absl::StatusOr<store::RowSet> rows = (*session)->Read(keys);
  if (!rows.ok()) {
    session_.DropAfter(rows.status());
    return rows.status();
  }
  if (rows->others.size() != keys.size())
    return absl::InternalError("rows of other keys than asked");
  const absl::Duration query = shared_.timing->Now() - start;
  for (WriteCall& call : room_->Judge(keys, rows->others, rows->now)) {
    if (!send_(call)) room_->TakeBack(std::move(call));
  }
  shared_.observer->OnReadBatch(keys.size(), query);
  return absl::OkStatus();
}

}  // namespace once::pipeline
