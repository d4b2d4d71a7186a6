// Fetches result bodies that are too large to lie in an operation's row, after the decision and out
// of the committers' way.
#ifndef ONCE_PIPELINE_BODY_READER_H_
#define ONCE_PIPELINE_BODY_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "core/decide.h"
#include "core/types.h"
#include "pipeline/call.h"
#include "pipeline/reply.h"
#include "pipeline/session_holder.h"
#include "pipeline/worker.h"
#include "store/store.h"

namespace once::pipeline {

// The receipt in `outcome` whose body has still to be fetched; null where there is none.
core::Receipt* ReceiptWithoutBody(core::BeginOutcome& outcome);
core::Receipt* ReceiptWithoutBody(core::CompleteOutcome& outcome);
core::Receipt* ReceiptWithoutBody(core::AbandonOutcome& outcome);
core::Receipt* ReceiptWithoutBody(core::RenewOutcome& outcome);
core::Receipt* ReceiptWithoutBody(core::ResolveOutcome& outcome);
core::Receipt* ReceiptWithoutBody(core::ResetOutcome& outcome);
core::Receipt* ReceiptWithoutBody(core::LookupOutcome& outcome);

struct ResultBody {
  std::string bytes;
  std::optional<core::Sha256> fingerprint;  // computed for the first receipt that it is put into
};

bool PutBody(ResultBody& body, core::Receipt& receipt);

// Puts `body` (null: there is none) into the outcome's receipt. False where it is not the one that
// the receipt tells of.
template <typename Outcome>
bool AttachBody(ResultBody* body, Outcome& outcome) {
  // A refused Complete may meet a receipt whose body is gone for good; it is refused all the same.
  constexpr bool kAnswersWithoutBody = std::is_same_v<Outcome, core::CompleteOutcome>;
  return body == nullptr ? kAnswersWithoutBody : PutBody(*body, *ReceiptWithoutBody(outcome));
}

// An answer that lacks its body.
struct BodyCall {
  using QueueKey = core::OperationKey;

  core::OperationKey key;
  Life life;
  std::shared_ptr<PendingReply> reply;
  absl::AnyInvocable<void(ResultBody* body)> finish;  // answers `reply`
  size_t bytes = 0;                                   // of the body
  bool tried = false;
  static constexpr bool maybe_committed = false;

  const core::OperationKey& queue_key() const { return key; }
  bool shares_key() const { return true; }
};

std::shared_ptr<PendingReply> PendingOf(const BodyCall& call);

// One thread and one connection. A batch holds at most max_batch_bytes of bodies, the same one
// counted for each call that wants it.
class BodyReader final : public Worker<BodyCall> {
 public:
  BodyReader(const Shared& shared, uint64_t seed);

  // Answers `reply` with `outcome`: at once, or when its body was read. Does not block.
  template <typename Outcome>
  void Deliver(const core::OperationKey& key, const Life& life,
               std::shared_ptr<Reply<Outcome>> reply, Outcome outcome) {
    const core::Receipt* lacking = ReceiptWithoutBody(outcome);
    if (lacking == nullptr) {
      reply->Answer(std::move(outcome));
      return;
    }
    BodyCall call;
    call.key = key;
    call.life = life;
    call.bytes = static_cast<size_t>(lacking->result_size);
    call.reply = reply;
    call.finish = [reply, outcome = std::move(outcome)](ResultBody* body) mutable {
      if (AttachBody(body, outcome)) {
        reply->Answer(std::move(outcome));
      } else {
        reply->Fail(BodyChangedError());
      }
    };
    Fetch(std::move(call));
  }

 protected:
  absl::Status Try(std::vector<BodyCall>& calls) override;
  absl::Status Connect() override;

 private:
  static absl::Status BodyChangedError();
  void Fetch(BodyCall call);

  SessionHolder<store::ReadSession> session_;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_BODY_READER_H_
