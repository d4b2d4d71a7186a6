// One operation that calls wait for, also those on other operations of its aggregate, and what a
// freshly read row means to each of them.
//
// Values and pure functions; the wait room guards them with its lock.
#ifndef ONCE_PIPELINE_WAIT_SPOT_H_
#define ONCE_PIPELINE_WAIT_SPOT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <variant>

#include "absl/time/time.h"
#include "core/decide.h"
#include "core/operation.h"
#include "core/types.h"
#include "pipeline/call.h"

namespace once::pipeline {

// A Begin or a Lookup.
using WaitingCall = std::variant<WriteCall, ReadCall>;

struct Waiter {
  WaitingCall call;
  absl::Time until;
  uint64_t stay = 0;  // counts stays in the room; tells who was here before a read
};

struct WaitSpot {
  core::OperationKey key;
  std::map<uint64_t, Waiter> waiters;  // by arrival
  // A Begin of this spot is on its way through a committer; the others wait for its result.
  bool at_the_door = false;

  // What a waiter for this operation was last known to be told, and when by the server's clock.
  core::InProgress state;
  absl::Time state_at;
  // The row last read.
  std::optional<core::OperationRow> row;
  bool lapsed = false;     // its lease (or delay) was over then
  bool newcomers = false;  // someone came since

  // While it is looked at: which stays the row that is being read may judge, and whether this
  // server changed it meanwhile.
  bool in_sight = false;
  uint64_t last_stay_in_sight = 0;
  bool changed_in_sight = false;

  absl::Duration pace;  // between looks while nothing changes
  absl::Time next_look = absl::InfiniteFuture();
};

// What to answer `call` where its wait ends at `now`: the lease as last known, less the time since
// then.
core::InProgress StateAt(const WaitSpot& spot, const WaitingCall& call, absl::Time now);

// What the spot knows where `call` would be told `state`.
core::InProgress SpotState(const WaitSpot& spot, const WaitingCall& call, core::InProgress state);

// It waits for the end of another operation of its aggregate.
bool WaitsForOther(const WaitingCall& call);

// True where `row` tells its waiters nothing that they do not know: the same claim, live or lapsed
// as it was.
bool NothingNew(const WaitSpot& spot, const core::OperationRow* row, core::DbTime now);

// The row would grant this Begin the claim.
struct Grantable {};

// InProgress: stay.
using Judgement =
    std::variant<core::InProgress, Grantable, core::BeginOutcome, core::LookupOutcome>;

// `row` is the spot's, null where the operation does not exist (any more).
Judgement JudgeWaiter(const WaitingCall& call, const core::OperationRow* row, core::DbTime now);

const Life& LifeOf(const WaitingCall& call);
Place& PlaceOf(WaitingCall& call);
absl::Time WaitUntilOf(const WaitingCall& call);

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_WAIT_SPOT_H_
