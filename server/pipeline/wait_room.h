// Where Begins and Lookups stay while another attempt holds the claim: no thread, no connection,
// one entry each.
//
// Calls stay by operation ("spot"), in the order of their first arrival. A spot is looked at when
// this server committed a change of its operation, when the lease or the retry delay known of it is
// over, and now and then, because other servers write too. Looking is done by the poller
// (wait_poller.h), which reads many rows at once and hands them to Judge: the same pure functions
// as everywhere decide. Where the row would grant a claim, the first Begin is sent to a committer
// and the others wait for its result, so that a thousand calls that wait for one key cost one
// transaction.
//
// Thread-safe; nothing blocks but WaitForDue. Callers' callbacks run without locks held.
#ifndef ONCE_PIPELINE_WAIT_ROOM_H_
#define ONCE_PIPELINE_WAIT_ROOM_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/decide.h"
#include "core/operation.h"
#include "core/types.h"
#include "pipeline/body_reader.h"
#include "pipeline/call.h"
#include "pipeline/pipeline.h"
#include "pipeline/timekeeper.h"
#include "pipeline/timing.h"
#include "pipeline/wait_spot.h"

namespace once::pipeline {

class WaitRoom {
 public:
  // All outlive the room.
  WaitRoom(const Options* options, Timing* timing, Observer* observer, Timekeeper* timekeeper,
           BodyReader* bodies);
  ~WaitRoom();

  // Keeps `call`, whose answer now would be `state`, until there is a better one or its wait is
  // over. Answers OVERLOADED or QUOTA_EXCEEDED where the room or the tenant's share is full, and
  // `state` once closed.
  void Park(const core::OperationKey& key, WaitingCall call, core::InProgress state)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // This server committed changes of these operations.
  void Changed(absl::Span<const core::OperationKey> keys) ABSL_LOCKS_EXCLUDED(mutex_);

  // Answers everyone with what is known now; so is whoever comes later.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- for the poller ----

  // Waits for operations to look at, not before `not_before`; at most `max_keys`, sorted. Empty
  // once stopped. Each is to be given back to Judge or to PutBack.
  std::vector<core::OperationKey> WaitForDue(absl::Time not_before, size_t max_keys)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Answers those whom the rows (in the order of `keys`, read after WaitForDue) give a final
  // outcome, and returns the Begins that are to be sent to a committer.
  std::vector<WriteCall> Judge(absl::Span<const core::OperationKey> keys,
                               absl::Span<const std::optional<core::OperationRow>> rows,
                               core::DbTime now) ABSL_LOCKS_EXCLUDED(mutex_);

  // The rows could not be read.
  void PutBack(absl::Span<const core::OperationKey> keys) ABSL_LOCKS_EXCLUDED(mutex_);

  // A Begin that Judge returned could not be sent.
  void TakeBack(WriteCall call) ABSL_LOCKS_EXCLUDED(mutex_);

  void StopPolling() ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- for the timekeeper ----

  // When a wait is over or the next search for cancelled calls is due.
  absl::Time NextEnd() const ABSL_LOCKS_EXCLUDED(mutex_);
  void FailOver(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class Place;

  // Answers to give once the lock is released.
  struct Leaving {
    std::vector<std::pair<WaitingCall, core::InProgress>> unchanged;
    std::vector<std::pair<WriteCall, core::BeginOutcome>> begins;
    std::vector<std::pair<ReadCall, core::LookupOutcome>> lookups;
    std::vector<WaitingCall> cancelled;
  };
  using WaiterAt = std::map<uint64_t, Waiter>::iterator;

  // Places.
  absl::Status TakePlace(const core::OperationKey& key, Place& place)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(Place& place) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waiters.
  WaitSpot& SpotOf(const core::OperationKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(WaitSpot& spot, WaitingCall call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  WaitingCall TakeOut(WaitSpot& spot, WaiterAt at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `place`'s call, which comes back from a committer, waits for another operation now, and so do
  // all that waited for the end of the one before: they belong to the same aggregate.
  void Move(Place& place, WaitSpot& to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Its wait is over.
  void TakeOutUnchanged(WaitSpot& spot, WaiterAt at, absl::Time now, Leaving& leaving)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropIfEmpty(WaitSpot& spot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeOutCancelled(Leaving& leaving) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Answer(Leaving leaving) ABSL_LOCKS_EXCLUDED(mutex_);

  // Looks.
  absl::Time NextTick(absl::Duration pace) const;
  void LookAt(WaitSpot& spot, absl::Time when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LookBy(WaitSpot& spot, absl::Time when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LookNow(WaitSpot& spot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<WriteCall> JudgeSpot(WaitSpot& spot, const core::OperationRow* row,
                                     core::DbTime now, Leaving& leaving)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PlanNextLook(WaitSpot& spot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options* const options_;
  Timing* const timing_;
  Observer* const observer_;
  Timekeeper* const timekeeper_;
  BodyReader* const bodies_;

  mutable absl::Mutex mutex_;
  absl::CondVar due_;
  // node_hash_map: the sets below point to spots.
  absl::node_hash_map<core::OperationKey, WaitSpot> spots_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<absl::Time, WaitSpot*>> looks_ ABSL_GUARDED_BY(mutex_);
  std::set<std::tuple<absl::Time, uint64_t, WaitSpot*>> ends_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_search_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  size_t places_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint32_t, size_t> places_by_tenant_ ABSL_GUARDED_BY(mutex_);
  uint64_t arrivals_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t stays_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_WAIT_ROOM_H_
