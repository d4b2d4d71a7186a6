#include "support/fault_store.h"

#include <utility>

#include "absl/status/status.h"

namespace once::test {
namespace {

absl::Status StatusOf(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return absl::OkStatus();
    case Fault::kAborted:
      return absl::AbortedError("deadlock (played)");
    case Fault::kUnavailable:
      return absl::UnavailableError("connection lost (played)");
    case Fault::kInvalidArgument:
      return absl::InvalidArgumentError("data refused (played)");
    case Fault::kInternal:
      return absl::InternalError("defect (played)");
    case Fault::kUnknownDone:
    case Fault::kUnknownLost:
    case Fault::kUnknownPending:
      return absl::UnknownError("no answer to COMMIT (played)");
  }
  return absl::OkStatus();
}

bool IsUnknown(Fault fault) {
  return fault == Fault::kUnknownDone || fault == Fault::kUnknownLost ||
         fault == Fault::kUnknownPending;
}

// A statement before COMMIT that gets no answer was simply not committed.
Fault BeforeCommit(Fault fault) { return IsUnknown(fault) ? Fault::kUnavailable : fault; }

bool EndsSession(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsUnknown(status);
}

class FaultWriteSession final : public store::WriteSession {
 public:
  FaultWriteSession(std::unique_ptr<store::WriteSession> session, FaultScript* script, int id)
      : session_(std::move(session)), script_(script), id_(id) {}

  absl::StatusOr<std::vector<core::AggregateRow>> LockAggregates(
      absl::Span<const core::AggregateKey> keys) override {
    if (session_ == nullptr) return Lost();
    return session_->LockAggregates(keys);
  }

  absl::StatusOr<std::vector<std::optional<core::OperationRow>>> ReadAlso(
      absl::Span<const core::OperationKey> keys) override {
    if (session_ == nullptr) return Lost();
    return session_->ReadAlso(keys);
  }

  absl::StatusOr<store::RowSet> TouchAndRead(absl::Span<const store::NewOperation> inserts,
                                             absl::Span<const core::OperationKey> others) override {
    if (session_ == nullptr) return Lost();
    keys_.assign(others.begin(), others.end());
    for (const store::NewOperation& insert : inserts) keys_.push_back(insert.key);
    if (absl::Status status = Play(FaultPoint::kTouchAndRead); !status.ok()) return status;
    return session_->TouchAndRead(inserts, others);
  }

  absl::Status Write(const store::WriteSet& writes) override {
    if (session_ == nullptr) return Lost();
    if (absl::Status status = Play(FaultPoint::kWrite); !status.ok()) return status;
    return session_->Write(writes);
  }

  absl::Status Commit() override {
    if (session_ == nullptr) return Lost();
    const Fault fault = script_->At({FaultPoint::kCommit, id_, keys_});
    absl::Status status = StatusOf(fault);
    switch (fault) {
      case Fault::kNone:
        return session_->Commit();
      case Fault::kUnknownDone:
      case Fault::kUnknownPending:
        // Whatever really became of it, the caller is told that nobody knows.
        (void)session_->Commit();
        break;
      case Fault::kAborted:
      case Fault::kUnavailable:
      case Fault::kInvalidArgument:
      case Fault::kInternal:
      case Fault::kUnknownLost:
        session_->Rollback();
        break;
    }
    if (EndsSession(status)) session_.reset();
    return status;
  }

  void Rollback() override {
    if (session_ != nullptr) session_->Rollback();
  }

  bool usable() const override { return session_ != nullptr && session_->usable(); }

 private:
  static absl::Status Lost() { return absl::UnavailableError("connection lost (played)"); }

  absl::Status Play(FaultPoint point) {
    absl::Status status = StatusOf(BeforeCommit(script_->At({point, id_, keys_})));
    if (!status.ok()) session_->Rollback();
    if (EndsSession(status)) session_.reset();
    return status;
  }

  std::unique_ptr<store::WriteSession> session_;
  FaultScript* const script_;
  const int id_;
  std::vector<core::OperationKey> keys_;
};

class FaultReadSession final : public store::ReadSession {
 public:
  FaultReadSession(std::unique_ptr<store::ReadSession> session, FaultScript* script, int id)
      : session_(std::move(session)), script_(script), id_(id) {}

  absl::StatusOr<store::RowSet> Read(absl::Span<const core::OperationKey> keys) override {
    if (absl::Status status = Play(FaultPoint::kRead, keys); !status.ok()) return status;
    return session_->Read(keys);
  }

  absl::StatusOr<std::vector<std::optional<std::string>>> ReadBodies(
      absl::Span<const core::OperationKey> keys) override {
    if (absl::Status status = Play(FaultPoint::kReadBodies, keys); !status.ok()) return status;
    return session_->ReadBodies(keys);
  }

  bool usable() const override { return session_ != nullptr && session_->usable(); }

 private:
  absl::Status Play(FaultPoint point, absl::Span<const core::OperationKey> keys) {
    if (session_ == nullptr) return absl::UnavailableError("connection lost (played)");
    absl::Status status =
        StatusOf(BeforeCommit(script_->At({point, id_, {keys.begin(), keys.end()}})));
    if (EndsSession(status)) session_.reset();
    return status;
  }

  std::unique_ptr<store::ReadSession> session_;
  FaultScript* const script_;
  const int id_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<store::WriteSession>> FaultStore::OpenWriteSession() {
  const int id = ++sessions_;
  if (script_->At({FaultPoint::kOpen, id, {}}) != Fault::kNone) {
    return StatusOf(Fault::kUnavailable);
  }
  auto session = store_->OpenWriteSession();
  if (!session.ok()) return session.status();
  return std::make_unique<FaultWriteSession>(*std::move(session), script_, id);
}

absl::StatusOr<std::unique_ptr<store::ReadSession>> FaultStore::OpenReadSession() {
  const int id = ++sessions_;
  if (script_->At({FaultPoint::kOpen, id, {}}) != Fault::kNone) {
    return StatusOf(Fault::kUnavailable);
  }
  auto session = store_->OpenReadSession();
  if (!session.ok()) return session.status();
  return std::make_unique<FaultReadSession>(*std::move(session), script_, id);
}

absl::StatusOr<std::unique_ptr<store::ControlSession>> FaultStore::OpenControlSession() {
  return store_->OpenControlSession();
}

}  // namespace once::test
