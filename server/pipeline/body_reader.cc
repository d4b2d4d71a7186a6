#include "pipeline/body_reader.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <variant>

#include "absl/status/statusor.h"
#include "base/error.h"
#include "core/fingerprint.h"

namespace once::pipeline {
namespace {

core::Receipt* Lacking(core::Receipt& receipt) {
  if (receipt.result.has_value()) return nullptr;
  if (receipt.result_size == 0) {
    receipt.result.emplace();
    return nullptr;
  }
  return &receipt;
}

template <typename Outcome>
core::Receipt* CompletedWithoutBody(Outcome& outcome) {
  auto* completed = std::get_if<core::Completed>(&outcome);
  return completed == nullptr ? nullptr : Lacking(completed->receipt);
}

template <typename Outcome>
core::Receipt* StoredWithoutBody(Outcome& outcome) {
  if (auto* conflict = std::get_if<core::CompletionConflict>(&outcome)) {
    return Lacking(conflict->stored.receipt);
  }
  return CompletedWithoutBody(outcome);
}

}  // namespace

core::Receipt* ReceiptWithoutBody(core::BeginOutcome& outcome) {
  return CompletedWithoutBody(outcome);
}
core::Receipt* ReceiptWithoutBody(core::LookupOutcome& outcome) {
  return CompletedWithoutBody(outcome);
}
core::Receipt* ReceiptWithoutBody(core::CompleteOutcome& outcome) {
  return StoredWithoutBody(outcome);
}
core::Receipt* ReceiptWithoutBody(core::ResolveOutcome& outcome) {
  return StoredWithoutBody(outcome);
}
core::Receipt* ReceiptWithoutBody(core::AbandonOutcome&) { return nullptr; }
core::Receipt* ReceiptWithoutBody(core::RenewOutcome&) { return nullptr; }
core::Receipt* ReceiptWithoutBody(core::ResetOutcome&) { return nullptr; }

bool PutBody(ResultBody& body, core::Receipt& receipt) {
  if (static_cast<int64_t>(body.bytes.size()) != receipt.result_size) return false;
  if (!body.fingerprint.has_value()) {
    body.fingerprint = core::FingerprintOf(receipt.status, receipt.content_type, body.bytes);
  }
  if (*body.fingerprint != receipt.fingerprint) return false;
  receipt.result = body.bytes;
  return true;
}

std::shared_ptr<PendingReply> PendingOf(const BodyCall& call) { return call.reply; }

BodyReader::BodyReader(const Shared& shared, uint64_t seed)
    : Worker(
          shared,
          // Queued calls hold no bodies yet.
          {.calls = shared.options->max_queue_calls, .bytes = std::numeric_limits<size_t>::max()},
          {.calls = shared.options->max_batch_calls, .bytes = shared.options->max_batch_bytes},
          seed),
      session_(shared.store, &store::Store::OpenReadSession) {}

absl::Status BodyReader::BodyChangedError() {
  // Reset, purged or forgotten between the decision and this read: the next answer will tell.
  return base::MakeError(base::ErrorReason::kStoreUnavailable,
                         "the operation changed while its result was read; send the request again");
}

void BodyReader::Fetch(BodyCall call) {
  switch (Push(call)) {
    case Queue::Pushed::kTaken:
      return;
    case Queue::Pushed::kFull:
      call.reply->Fail(
          OverloadedError("answers with large results", shared().options->max_queue_calls));
      return;
    case Queue::Pushed::kClosed:
      call.reply->Fail(DrainingError());
      return;
  }
}

absl::Status BodyReader::Connect() { return session_.Get().status(); }

absl::Status BodyReader::Try(std::vector<BodyCall>& calls) {
  absl::StatusOr<store::ReadSession*> session = session_.Get();
  if (!session.ok()) return session.status();
  std::vector<core::OperationKey> keys;
  keys.reserve(calls.size());
  for (const BodyCall& call : calls) keys.push_back(call.key);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());

  absl::StatusOr<std::vector<std::optional<std::string>>> bodies = (*session)->ReadBodies(keys);
  if (!bodies.ok()) {
    session_.DropAfter(bodies.status());
    return bodies.status();
  }
  if (bodies->size() != keys.size()) return absl::InternalError("bodies for other keys than asked");
  std::vector<ResultBody> found(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if ((*bodies)[i].has_value()) found[i].bytes = *std::move((*bodies)[i]);
  }
  for (BodyCall& call : calls) {
    const auto at =
        static_cast<size_t>(std::lower_bound(keys.begin(), keys.end(), call.key) - keys.begin());
    call.finish((*bodies)[at].has_value() ? &found[at] : nullptr);
  }
  calls.clear();
  return absl::OkStatus();
}

}  // namespace once::pipeline
