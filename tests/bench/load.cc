#include "load.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <queue>
#include <thread>
#include <utility>

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
    if (ended < run.count_from || (run.options.cycles == 0 && ended > run.end)) return;
    ++result.cycles;
    result.operations += settled;
    if (settled == 0) ++result.failures;
    result.latency.Add(Micros(ended - due));
  }
};

void RunBlocking(Caller& caller, Run& run, Tally& tally) {
  for (;;) {
    const uint64_t number = run.next.fetch_add(1);
    const Clock::time_point due = run.Due(number, Clock::now());
    if (run.Over(number, due)) return;
    std::this_thread::sleep_until(due);
    int settled = 0;
    caller.Cycle(number, [&settled](int n) { settled = n; });
    tally.Add(run, due, Clock::now(), settled);
  }
}

// Starts cycles that are not due yet, for callers that do not block.
class Pacer {
 public:
  Pacer() : thread_([this] { Loop(); }) {}
  ~Pacer() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void At(Clock::time_point due, std::function<void()> start) {
    {
      std::lock_guard lock(mutex_);
      heap_.push({due, std::move(start)});
    }
    changed_.notify_all();
  }

 private:
  struct Entry {
    Clock::time_point due;
    std::function<void()> start;
    bool operator<(const Entry& other) const { return due > other.due; }
  };
  void Loop() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      if (heap_.empty()) {
        changed_.wait(lock);
      } else if (heap_.top().due > Clock::now()) {
        changed_.wait_until(lock, heap_.top().due);
      } else {
        const auto start = heap_.top().start;
        heap_.pop();
        lock.unlock();
        start();
        lock.lock();
      }
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::priority_queue<Entry> heap_;
  bool stopped_ = false;
  std::thread thread_;
};

// Callers whose cycles end in callbacks.
class AsyncLoad {
 public:
  AsyncLoad(Contender& contender, Run& run, std::vector<Tally>& tallies)
      : run_(run), tallies_(tallies) {
    for (int i = 0; i < run.options.callers; ++i) callers_.push_back(contender.NewCaller(i));
  }
  void Run_() {
    active_ = callers_.size();
    for (size_t i = 0; i < callers_.size(); ++i) Next(i);
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return active_ == 0; });
  }

 private:
  void Next(size_t i) {
    const uint64_t number = run_.next.fetch_add(1);
    const Clock::time_point now = Clock::now();
    const Clock::time_point due = run_.Due(number, now);
    if (run_.Over(number, due)) {
      std::lock_guard lock(mutex_);
      if (--active_ == 0) idle_.notify_all();
      return;
    }
    if (due > now) {
      pacer_.At(due, [this, i, number, due] { Start(i, number, due); });
    } else {
      Start(i, number, due);
    }
  }
  void Start(size_t i, uint64_t number, Clock::time_point due) {
    callers_[i]->Cycle(number, [this, i, due](int settled) {
      tallies_[i].Add(run_, due, Clock::now(), settled);
      Next(i);
    });
  }

  Run& run_;
  std::vector<Tally>& tallies_;
  std::vector<std::unique_ptr<Caller>> callers_;
  Pacer pacer_;
  std::mutex mutex_;
  std::condition_variable idle_;
  size_t active_ = 0;
};

}  // namespace

size_t Histogram::BucketOf(int64_t micros) {
  const auto value = static_cast<uint64_t>(std::max<int64_t>(micros, 0));
  if (value < (1U << kSubBits)) return value;
  const int shift = std::bit_width(value) - 1 - kSubBits;
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
  const auto rank = static_cast<int64_t>(p / 100 * static_cast<double>(count_));
  int64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen > rank) return ValueOf(i);
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
    AsyncLoad load(contender, run, tallies);
    load.Run_();
  }
  LoadResult total;
  for (const Tally& tally : tallies) {
    total.cycles += tally.result.cycles;
    total.operations += tally.result.operations;
    total.failures += tally.result.failures;
    total.latency.Merge(tally.result.latency);
  }
  const Clock::time_point ended = options.cycles > 0 ? Clock::now() : run.end;
  total.seconds = std::chrono::duration<double>(ended - run.count_from).count();
  return total;
}

}  // namespace once::bench
