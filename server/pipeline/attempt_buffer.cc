#include "pipeline/attempt_buffer.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/status/statusor.h"

namespace once::pipeline {
namespace {

// Written before the window is over where so many have gathered.
constexpr size_t kFullTransaction = 512;
constexpr size_t kMaxEntries = 100'000;

}  // namespace

AttemptBuffer::AttemptBuffer(const Shared& shared, uint64_t seed)
    : shared_(shared), session_(shared.store, &store::Store::OpenWriteSession), trouble_(seed) {}

AttemptBuffer::~AttemptBuffer() { assert(!thread_.joinable()); }

void AttemptBuffer::Start() {
  thread_ = std::thread([this] { Run(); });
}

void AttemptBuffer::Stop(absl::Time deadline) {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    give_up_ = std::min(give_up_, deadline);
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

bool AttemptBuffer::Add(store::AttemptEntry& entry) {
  absl::MutexLock lock(&mutex_);
  if (stopped_ || entries_.size() >= kMaxEntries) return false;
  if (entries_.empty()) {
    oldest_ = shared_.timing->Now();
    changed_.Signal();
  }
  entries_.push_back(std::move(entry));
  if (entries_.size() == kFullTransaction) changed_.Signal();
  return true;
}

void AttemptBuffer::Run() {
  for (;;) {
    Entries entries = Take();
    if (entries.empty()) return;
    for (size_t begin = 0; begin < entries.size(); begin += kFullTransaction) {
      const size_t end = std::min(entries.size(), begin + kFullTransaction);
      WriteAll(Entries(std::make_move_iterator(entries.begin() + static_cast<ptrdiff_t>(begin)),
                       std::make_move_iterator(entries.begin() + static_cast<ptrdiff_t>(end))));
    }
  }
}

AttemptBuffer::Entries AttemptBuffer::Take() {
  absl::MutexLock lock(&mutex_);
  for (;;) {
    if (stopped_ || entries_.size() >= kFullTransaction) break;
    if (entries_.empty()) {
      shared_.timing->WaitUntil(&mutex_, &changed_, absl::InfiniteFuture());
      continue;
    }
    const absl::Time due = oldest_ + shared_.options->attempt_log_window;
    if (shared_.timing->Now() >= due) break;
    shared_.timing->WaitUntil(&mutex_, &changed_, due);
  }
  return std::exchange(entries_, {});
}

bool AttemptBuffer::GivesUp() const {
  absl::MutexLock lock(&mutex_);
  return shared_.timing->Now() >= give_up_;
}

void AttemptBuffer::WriteAll(Entries entries) {
  // In the order of the log's primary key.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.key < b.key; });
  bool repeated = false;
  for (;;) {
    const absl::Status status = Write(entries, repeated);
    if (status.ok()) {
      trouble_.OnSuccess();
      return;
    }
    shared_.observer->OnStoreError(status);
    repeated = repeated || absl::IsUnknown(status);
    if (!MayPass(status) || GivesUp()) {
      shared_.observer->OnAttemptsLost(entries.size());
      return;
    }
    const absl::Time now = shared_.timing->Now();
    const absl::Time again =
        now + (absl::IsAborted(status) ? trouble_.OnConflict(now) : trouble_.OnLost(now));
    absl::MutexLock lock(&mutex_);
    while (shared_.timing->Now() < std::min(again, give_up_)) {
      shared_.timing->WaitUntil(&mutex_, &changed_, std::min(again, give_up_));
    }
  }
}

absl::Status AttemptBuffer::Write(const Entries& entries, bool repeated) {
  absl::StatusOr<store::WriteSession*> session = session_.Get();
  if (!session.ok()) return session.status();
  absl::Status status = store::LogAttempts(**session, entries, repeated);
  session_.DropAfter(status);
  return status;
}

}  // namespace once::pipeline
