// Calls as they travel through the pipeline: queue → transaction or read → answer, perhaps with a
// stay in the wait room.
//
// All are values that one thread owns at a time and hands on by moving. Destroying a call that was
// not answered answers INTERNAL, so never destroy one with a lock held.
#ifndef ONCE_PIPELINE_CALL_H_
#define ONCE_PIPELINE_CALL_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/decide.h"
#include "core/types.h"
#include "pipeline/pipeline.h"
#include "pipeline/reply.h"
#include "store/batch.h"

namespace once::pipeline {

class WaitRoom;

// Names an operation before its handler is interned; decides the shard.
struct CallKey {
  core::TenantId tenant;
  std::string handler;
  std::string event_id;
  friend auto operator<=>(const CallKey&, const CallKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const CallKey& k) {
    return H::combine(std::move(h), k.tenant.value, k.handler, k.event_id);
  }
};

// How long the caller is there.
struct Life {
  absl::Time arrived = absl::InfinitePast();
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<Cancellation> cancellation;

  bool cancelled() const {
    return cancellation != nullptr && cancellation->cancelled.load(std::memory_order_relaxed);
  }
  bool over(absl::Time now) const { return now >= deadline || cancelled(); }
};

// A call's place in the wait room, taken at its first stay and kept until it is answered, also
// while it is on its way through a committer again. Move-only.
class Place {
 public:
  Place() = default;
  Place(Place&& other) noexcept { *this = std::move(other); }
  Place& operator=(Place&& other) noexcept {
    std::swap(room_, other.room_);
    std::swap(key_, other.key_);
    std::swap(arrival_, other.arrival_);
    std::swap(at_the_door_, other.at_the_door_);
    return *this;
  }
  ~Place();  // gives it back to the room

  bool taken() const { return room_ != nullptr; }

 private:
  friend class WaitRoom;
  WaitRoom* room_ = nullptr;
  core::OperationKey key_;
  uint64_t arrival_ = 0;
  // This call was sent to a committer for all that wait for the key; they wait for its result.
  bool at_the_door_ = false;
};

using WriteReply = std::variant<
    std::shared_ptr<Reply<core::BeginOutcome>>, std::shared_ptr<Reply<core::CompleteOutcome>>,
    std::shared_ptr<Reply<core::AbandonOutcome>>, std::shared_ptr<Reply<core::RenewOutcome>>,
    std::shared_ptr<Reply<core::ResolveOutcome>>, std::shared_ptr<Reply<core::ResetOutcome>>>;

// A command for a committer. `reply` has the alternative of the command's index.
struct WriteCall {
  using QueueKey = CallKey;

  CallKey key;
  Life life;
  store::Command command;  // its key's handler is 0 until interned
  WriteReply reply;
  size_t bytes = 0;
  absl::Time wait_until = absl::InfinitePast();  // Begin only
  Place place;
  // Of a call in the wait room: it waits for the end of another operation of its aggregate, whose
  // spot it stays at.
  bool waits_for_other = false;
  bool tried = false;
  // An earlier transaction with this command ended without a known result.
  bool maybe_committed = false;

  const CallKey& queue_key() const { return key; }
  // Several Begins of a key may go into one transaction; everything else needs its key alone.
  bool shares_key() const {
    const auto* begin = std::get_if<store::BeginCommand>(&command);
    return begin != nullptr && !begin->request.order.has_value();
  }
};

struct ReadCall {
  using QueueKey = CallKey;

  CallKey key;
  Life life;
  core::OperationKey operation;  // its handler is 0 until interned
  core::LookupRequest request;
  std::shared_ptr<Reply<core::LookupOutcome>> reply;
  size_t bytes = 0;
  absl::Time wait_until = absl::InfinitePast();
  Place place;
  bool tried = false;
  static constexpr bool maybe_committed = false;

  const CallKey& queue_key() const { return key; }
  bool shares_key() const { return true; }
};

std::shared_ptr<PendingReply> PendingOf(const WriteCall& call);
std::shared_ptr<PendingReply> PendingOf(const ReadCall& call);

// Answers a Complete, Abandon or Renew whose handler name nobody ever used.
void AnswerNotFound(WriteCall& call);

// The errors of this layer, in one place.
absl::Status OverloadedError(absl::string_view what, size_t limit);
absl::Status TenantWaitersError(size_t limit);
absl::Status DrainingError();
absl::Status DeadlineError();  // nothing was changed
absl::Status UnknownOutcomeError();
absl::Status StoreUnavailableError();
absl::Status StoreRefusedError();

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_CALL_H_
