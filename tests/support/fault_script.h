// Faults that a test store (memory_store.h, fault_store.h) plays, and a gate to stop it at a point.
//
// A script answers "what goes wrong here?" at every point of a session. Rules: first the gate, then
// the hook, then the counted faults given with Next, then the seeded random ones. Everything is
// deterministic for a given order of calls.
//
// Thread-safety: all functions may be called from any thread. The hook is called without locks held
// and may block.
#ifndef ONCE_TESTS_SUPPORT_FAULT_SCRIPT_H_
#define ONCE_TESTS_SUPPORT_FAULT_SCRIPT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/types.h"

namespace once::test {

enum class FaultPoint : uint8_t {
  kOpen,  // of any session; only kUnavailable makes sense
  kTouchAndRead,
  kWrite,
  kCommit,
  kRead,
  kReadBodies,
  kControl,  // any call of a control session
};

enum class Fault : uint8_t {
  kNone,
  kAborted,          // rolled back, the session stays usable
  kUnavailable,      // rolled back, the session is lost
  kInvalidArgument,  // rolled back, as if the database had refused the data of a row
  kInternal,         // rolled back
  // COMMIT and control calls only; elsewhere as kUnavailable. The session is lost and UNKNOWN is
  // reported, and the transaction
  kUnknownDone,     // was committed,
  kUnknownLost,     // was not committed,
  kUnknownPending,  // still holds its row locks and is committed when another transaction asks for
                    // one of its rows; plain reads do not see it before. Where the store cannot do
                    // that: kUnknownDone.
};

struct FaultSite {
  FaultPoint point = FaultPoint::kOpen;
  int session = 0;  // counted from 1 in the order of opening
  // Rows that the transaction has named up to here; the keys of a read.
  std::vector<core::OperationKey> keys;
};

class FaultScript {
 public:
  using Hook = std::function<Fault(const FaultSite&)>;

  // Replaces the hook; an empty one removes it.
  void SetHook(Hook hook) ABSL_LOCKS_EXCLUDED(mutex_);

  // The next `times` passes of `point` after `skip` free ones meet `fault`. Further calls for the
  // same point queue up.
  void Next(FaultPoint point, Fault fault, int times = 1, int skip = 0) ABSL_LOCKS_EXCLUDED(mutex_);

  // Every pass of `point` meets one of `faults` with `probability`; the generator is seeded here.
  void Random(uint64_t seed, std::map<FaultPoint, std::vector<Fault>> faults, double probability)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Forgets hook, counted and random faults. The gate stays.
  void Clear() ABSL_LOCKS_EXCLUDED(mutex_);

  // Closes the gate: whoever comes to `point` stops there until Open(). One gate at a time.
  void Close(FaultPoint point) ABSL_LOCKS_EXCLUDED(mutex_);
  void Open() ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until `sessions` stand at the gate; false after `timeout`.
  bool WaitUntilStopped(int sessions = 1, absl::Duration timeout = absl::Seconds(30))
      ABSL_LOCKS_EXCLUDED(mutex_);

  // How often `point` was passed, and how many faults were played there.
  int64_t passed(FaultPoint point) const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t played(FaultPoint point) const ABSL_LOCKS_EXCLUDED(mutex_);

  // For stores: what happens at `site`. May block (gate, hook).
  Fault At(const FaultSite& site) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Counted {
    Fault fault = Fault::kNone;
    int times = 0;
    int skip = 0;
  };

  Fault NextCounted(FaultPoint point) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Fault NextRandom(FaultPoint point) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  Hook hook_ ABSL_GUARDED_BY(mutex_);
  std::map<FaultPoint, std::vector<Counted>> counted_ ABSL_GUARDED_BY(mutex_);
  std::map<FaultPoint, std::vector<Fault>> random_ ABSL_GUARDED_BY(mutex_);
  double probability_ ABSL_GUARDED_BY(mutex_) = 0;
  std::mt19937_64 generator_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  FaultPoint gate_ ABSL_GUARDED_BY(mutex_) = FaultPoint::kOpen;
  int stopped_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<FaultPoint, int64_t> passed_ ABSL_GUARDED_BY(mutex_);
  std::map<FaultPoint, int64_t> played_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace once::test

#endif  // ONCE_TESTS_SUPPORT_FAULT_SCRIPT_H_
