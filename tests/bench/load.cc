#include "load.h"

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"

namespace once::bench {
namespace {

using Clock = std::chrono::steady_clock;

int64_t Micros(Clock::duration d) {
  return std::chrono::duration_cast<std::chrono::microseconds>(d).count();
}

// What all callers of a run share.
struct Run {
  const LoadOptions& options;
  Clock::time_point start;
  Clock::time_point count_from;
  Clock::time_point end;
  std::atomic<uint64_t> next{0};

  // When cycle `number` is due; closed loop: now.
  Clock::time_point Due(uint64_t number, Clock::time_point now) const {
    if (options.rate <= 0) return now;
    return start + std::chrono::nanoseconds(
                       static_cast<int64_t>(1e9 * static_cast<double>(number) / options.rate));
  }
  bool Over(uint64_t number, Clock::time_point due) const {
    return options.cycles > 0 ? number >= options.cycles : due >= end;
  }
};

// Counts of one caller.
struct Tally {
  LoadResult result;
  void Add(const Run& run, Clock::time_point due, Clock::time_point ended, int settled) {
    result.all_operations += settled;
    if (ended < run.count_from || (run.options.cycles == 0 && ended > run.end)) return;
    ++result.cycles;
    result.operations += settled;
    if (settled == 0) ++result.failures;
    result.latency.Add(Micros(ended - due));
  }
};

class Settled final : public CycleEnd {
 public:
  void Ended(int settled) override { settled_ = settled; }
  int settled() const { return settled_; }

 private:
  int settled_ = 0;
};

// Linux wakes sleepers up to 50 us late, to save wakeups; a late start is not the server's fault.
void SleepExactly() { prctl(PR_SET_TIMERSLACK, 1000UL); }

void RunBlocking(Caller& caller, Run& run, Tally& tally) {
  SleepExactly();
  for (;;) {
    const uint64_t number = run.next.fetch_add(1);
    const Clock::time_point due = run.Due(number, Clock::now());
    if (run.Over(number, due)) return;
    std::this_thread::sleep_until(due);
    Settled end;
    caller.Cycle(number, &end);
    tally.Add(run, due, Clock::now(), end.settled());
  }
}

// A caller whose cycles end in callbacks, with what its present cycle needs.
class Slot final : public CycleEnd {
 public:
  // `next` is told that the slot is free, on the thread on which the cycle ended.
  Slot(std::unique_ptr<Caller> caller, const Run& run, Tally& tally,
       std::function<void(Slot&)> next)
      : caller_(std::move(caller)), run_(run), tally_(tally), next_(std::move(next)) {}
  void Start(uint64_t number, Clock::time_point due) {
    due_ = due;
    caller_->Cycle(number, this);
  }
  void Ended(int settled) override {
    tally_.Add(run_, due_, Clock::now(), settled);
    next_(*this);
  }

 private:
  const std::unique_ptr<Caller> caller_;
  const Run& run_;
  Tally& tally_;
  const std::function<void(Slot&)> next_;
  Clock::time_point due_;
};

std::deque<Slot> MakeSlots(Contender& contender, const Run& run, std::vector<Tally>& tallies,
                           const std::function<void(Slot&)>& next) {
  std::deque<Slot> slots;
  for (int i = 0; i < run.options.callers; ++i)
    slots.emplace_back(contender.NewCaller(i), run, tallies[static_cast<size_t>(i)], next);
  return slots;
}

// The next cycle starts where the last one ended: nobody in between.
void RunClosedLoop(Contender& contender, Run& run, std::vector<Tally>& tallies) {
  std::atomic<int> active{run.options.callers};
  absl::Notification idle;
  const std::function<void(Slot&)> next = [&](Slot& slot) {
    const uint64_t number = run.next.fetch_add(1);
    const Clock::time_point now = Clock::now();
    if (!run.Over(number, now)) return slot.Start(number, now);
    if (active.fetch_sub(1) == 1) idle.Notify();
  };
  std::deque<Slot> slots = MakeSlots(contender, run, tallies, next);
  for (Slot& slot : slots) next(slot);
  idle.WaitForNotification();
}

// This thread is the pacer: it sleeps until a cycle is due and gives it to a free caller. Where
// none is free the cycle starts late, and its latency counts from when it was due.
void RunOpenLoop(Contender& contender, Run& run, std::vector<Tally>& tallies) {
  SleepExactly();
  std::mutex mutex;
  std::condition_variable freed;
  bool waiting = false;
  std::vector<Slot*> free;
  std::deque<Slot> slots = MakeSlots(contender, run, tallies, [&](Slot& slot) {
    const std::lock_guard lock(mutex);
    free.push_back(&slot);
    if (waiting) freed.notify_one();
  });
  const auto wait_for_free = [&](size_t count) {
    std::unique_lock lock(mutex);
    waiting = true;
    freed.wait(lock, [&] { return free.size() >= count; });
    waiting = false;
  };
  for (Slot& slot : slots) free.push_back(&slot);
  for (;;) {
    const uint64_t number = run.next.fetch_add(1);
    const Clock::time_point due = run.Due(number, {});
    if (run.Over(number, due)) break;
    std::this_thread::sleep_until(due);
    wait_for_free(1);
    Slot* slot = nullptr;
    {
      const std::lock_guard lock(mutex);
      slot = free.back();
      free.pop_back();
    }
    slot->Start(number, due);
  }
  wait_for_free(slots.size());
}

}  // namespace

size_t Histogram::BucketOf(int64_t micros) {
  const auto value = static_cast<uint64_t>(std::max<int64_t>(micros, 0));
  if (value < (1U << kSubBits)) return value;
  const int shift = static_cast<int>(std::bit_width(value)) - 1 - kSubBits;
  return (static_cast<size_t>(shift + 1) << kSubBits) + ((value >> shift) & ((1U << kSubBits) - 1));
}

int64_t Histogram::ValueOf(size_t bucket) {
  const size_t shift = bucket >> kSubBits;
  const int64_t low = static_cast<int64_t>(bucket & ((1U << kSubBits) - 1));
  return shift == 0 ? low : (low + (1 << kSubBits)) << (shift - 1);
}

void Histogram::Add(int64_t micros) {
  ++buckets_[BucketOf(micros)];
  ++count_;
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
}

int64_t Histogram::Percentile(double p) const {
  const auto rank =
      std::max<int64_t>(1, std::llround(std::ceil(p / 100 * static_cast<double>(count_))));
  int64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) return ValueOf(i);
  }
  return 0;
}

LoadResult RunLoad(Contender& contender, const LoadOptions& options) {
  Run run{.options = options, .start = {}, .count_from = {}, .end = {}};
  std::vector<Tally> tallies(static_cast<size_t>(options.callers));
  const auto set_times = [&] {
    run.start = Clock::now();
    run.count_from = run.start + absl::ToChronoNanoseconds(options.warm_up);
    run.end = run.count_from + absl::ToChronoNanoseconds(options.duration);
  };
  if (contender.blocking()) {
    std::vector<std::unique_ptr<Caller>> callers;
    for (int i = 0; i < options.callers; ++i) callers.push_back(contender.NewCaller(i));
    set_times();
    std::vector<std::thread> threads;
    for (size_t i = 0; i < callers.size(); ++i) {
      threads.emplace_back([&, i] { RunBlocking(*callers[i], run, tallies[i]); });
    }
    for (std::thread& thread : threads) thread.join();
  } else {
    set_times();
    if (options.rate > 0) {
      RunOpenLoop(contender, run, tallies);
    } else {
      RunClosedLoop(contender, run, tallies);
    }
  }
  LoadResult total;
  for (const Tally& tally : tallies) {
    total.cycles += tally.result.cycles;
    total.operations += tally.result.operations;
    total.all_operations += tally.result.all_operations;
    total.failures += tally.result.failures;
    total.latency.Merge(tally.result.latency);
  }
  const Clock::time_point ended = options.cycles > 0 ? Clock::now() : run.end;
  total.seconds = std::chrono::duration<double>(ended - run.count_from).count();
  return total;
}

}  // namespace once::bench
