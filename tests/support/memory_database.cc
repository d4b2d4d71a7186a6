#include "support/memory_database.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "core/limits.h"

namespace once::test {

using core::OperationKey;
using core::OperationRow;

core::DbTime MemoryDatabase::Tick() {
  absl::MutexLock lock(&mutex_);
  last_micros_ = std::max(last_micros_ + 1, absl::ToUnixMicros(clock_->Now()));
  return {last_micros_};
}

core::DbTime MemoryDatabase::Now() const {
  absl::MutexLock lock(&mutex_);
  last_micros_ = std::max(last_micros_, absl::ToUnixMicros(clock_->Now()));
  return {last_micros_};
}

absl::StatusOr<std::optional<OperationRow>> MemoryDatabase::LockRow(int session,
                                                                    const OperationKey& key,
                                                                    absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  absl::MutexLock lock(&mutex_);
  SettlePending(key);
  for (;;) {
    const auto [held, fresh] = locks_.emplace(key, session);
    if (fresh || held->second == session) {
      break;
    }
    if (unlocked_.WaitWithDeadline(&mutex_, deadline) && locks_.contains(key)) {
      return absl::AbortedError("memory store: another transaction holds the row");
    }
    SettlePending(key);  // its holder may have ended that way while we waited
  }
  const auto found = rows_.find(key);
  return found == rows_.end() ? std::nullopt : std::optional<OperationRow>(found->second);
}

absl::StatusOr<core::AggregateRow> MemoryDatabase::LockAggregate(int session,
                                                                 const core::AggregateKey& key,
                                                                 absl::Duration timeout) {
  // Locks are named by keys of operations; no operation has a handler with this bit.
  constexpr uint32_t kAggregateBit = 1u << 31;
  const OperationKey lock_key{key.tenant, {key.handler.value | kAggregateBit}, key.id};
  auto locked = LockRow(session, lock_key, timeout);
  if (!locked.ok()) return locked.status();
  absl::MutexLock lock(&mutex_);
  return aggregates_[key];
}

bool MemoryDatabase::HasAttempt(const OperationKey& key, const store::EntryId& entry) const {
  absl::MutexLock lock(&mutex_);
  const auto found = attempts_.find(key);
  return found != attempts_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [&](const LoggedAttempt& row) { return row.entry.entry == entry; });
}

void MemoryDatabase::Commit(int session, Transaction transaction) {
  absl::MutexLock lock(&mutex_);
  Apply(std::move(transaction));
  UnlockLocked(session);
}

void MemoryDatabase::CommitLater(int session, Transaction transaction) {
  absl::MutexLock lock(&mutex_);
  pending_.emplace_back(session, std::move(transaction));
  unlocked_.SignalAll();
}

void MemoryDatabase::Unlock(int session) {
  absl::MutexLock lock(&mutex_);
  UnlockLocked(session);
}

void MemoryDatabase::UnlockLocked(int session) {
  std::erase_if(locks_, [session](const auto& held) { return held.second == session; });
  unlocked_.SignalAll();
}

void MemoryDatabase::SettlePending(const OperationKey& key) {
  const auto lock = locks_.find(key);
  if (lock == locks_.end()) return;
  for (auto it = pending_.begin(); it != pending_.end(); ++it) {
    if (it->first == lock->second) {
      const int session = it->first;
      Apply(std::move(it->second));
      pending_.erase(it);
      UnlockLocked(session);
      return;  // only one transaction can hold the key
    }
  }
}

void MemoryDatabase::Apply(Transaction transaction) {
  ++commits_;
  for (auto& [key, row] : transaction.rows) {
    if (!row.has_value()) {
      rows_.erase(key);
      bodies_.erase(key);
      continue;
    }
    // A row that is deleted later must not come back with a smaller fence.
    last_micros_ = std::max(last_micros_, row->claim.fence.value);
    rows_[key] = *std::move(row);
  }
  for (auto& [key, aggregate] : transaction.aggregates) aggregates_[key] = std::move(aggregate);
  for (auto& [key, past] : transaction.past) {
    if (const auto body = bodies_.find(key); body != bodies_.end()) {
      past.receipt.result = std::move(body->second);
      bodies_.erase(body);
    }
    past.reset = {last_micros_};
    past_[key].insert(past_[key].begin(), std::move(past));
  }
  for (auto& [key, body] : transaction.bodies) {
    bodies_.emplace(key, std::move(body));
  }
  for (store::AuditRow& row : transaction.audit) {
    control_.history.Record(std::move(row), {last_micros_});
  }
  for (LoggedAttempt& attempt : transaction.attempts) {
    attempts_[attempt.entry.key].push_back(std::move(attempt));
  }
}

std::vector<store::PastReceipt> MemoryDatabase::ReadPast(const OperationKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = past_.find(key);
  return found == past_.end() ? std::vector<store::PastReceipt>() : found->second;
}

std::optional<OperationRow> MemoryDatabase::Read(const OperationKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = rows_.find(key);
  return found == rows_.end() ? std::nullopt : std::optional<OperationRow>(found->second);
}

std::optional<std::string> MemoryDatabase::ReadBody(const OperationKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = bodies_.find(key);
  return found == bodies_.end() ? std::nullopt : std::optional<std::string>(found->second);
}

std::vector<LoggedAttempt> MemoryDatabase::Attempts(const OperationKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = attempts_.find(key);
  return found == attempts_.end() ? std::vector<LoggedAttempt>() : found->second;
}

void MemoryDatabase::Put(const OperationKey& key, std::optional<OperationRow> row) {
  absl::MutexLock lock(&mutex_);
  bodies_.erase(key);
  if (!row.has_value()) {
    rows_.erase(key);
    return;
  }
  last_micros_ = std::max(last_micros_, row->claim.fence.value);
  if (row->receipt.has_value() && row->receipt->result.has_value() &&
      row->receipt->result->size() > core::kMaxInlineResultBytes) {
    bodies_[key] = *std::move(row->receipt->result);
    row->receipt->result.reset();
  }
  rows_[key] = *std::move(row);
}

absl::Status MemoryDatabase::RunControl(bool keep,
                                        const std::function<absl::Status(Control&)>& body) {
  absl::MutexLock lock(&mutex_);
  Control changed = control_;
  absl::Status status = body(changed);
  if (status.ok() && keep) {
    control_ = std::move(changed);
  }
  return status;
}

int MemoryDatabase::OpenSession() {
  absl::MutexLock lock(&mutex_);
  ++open_sessions_;
  return static_cast<int>(++sessions_opened_);
}

void MemoryDatabase::CloseSession() {
  absl::MutexLock lock(&mutex_);
  --open_sessions_;
}

void MemoryDatabase::AddOpenTransactions(int change) {
  absl::MutexLock lock(&mutex_);
  open_transactions_ += change;
}

int64_t MemoryDatabase::commits() const {
  absl::MutexLock lock(&mutex_);
  return commits_;
}

int MemoryDatabase::open_sessions() const {
  absl::MutexLock lock(&mutex_);
  return open_sessions_;
}

int MemoryDatabase::open_transactions() const {
  absl::MutexLock lock(&mutex_);
  return open_transactions_;
}

int64_t MemoryDatabase::sessions_opened() const {
  absl::MutexLock lock(&mutex_);
  return sessions_opened_;
}

}  // namespace once::test
