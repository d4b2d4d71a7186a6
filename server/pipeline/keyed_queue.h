// A bounded queue that keeps calls on one key in order and gives out batches in which they may run
// together.
//
// Keys take turns in the order in which they came; a key whose calls do not fit into a batch, or
// may not share one, goes behind the others, so that a hot key cannot starve them. Taking a batch
// costs its size, whatever waits behind it.
//
// Several threads may work on one queue: the keys that one of them holds are not given to another,
// so that the order of each key's calls is kept over their batches too.
//
// Thread-safe. `Call` offers QueueKey, queue_key(), shares_key(), bytes and life (see call.h).
#ifndef ONCE_PIPELINE_KEYED_QUEUE_H_
#define ONCE_PIPELINE_KEYED_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "pipeline/timing.h"

namespace once::pipeline {

template <typename Call>
class KeyedQueue {
  using Key = typename Call::QueueKey;
  struct Chain {
    Key key;
    std::list<Call> calls;  // outside of a function only empty while the key is held
    bool held = false;      // then it is not in `order_`
  };

 public:
  struct Bounds {
    size_t calls = 0;
    size_t bytes = 0;
  };
  enum class Pushed : uint8_t { kTaken, kFull, kClosed };

  // The keys of a batch whose calls are not done yet. Of one queue; to be released before its end.
  class Held {
   public:
    // The batch was full: calls on other keys were left.
    bool more() const { return more_; }

   private:
    friend class KeyedQueue;
    std::list<Chain> chains_;
    bool more_ = false;
  };

  KeyedQueue(Bounds bounds, Timing* timing) : bounds_(bounds), timing_(timing) {}

  // Moves from `call` only where it is taken. Does not block.
  Pushed Push(Call& call) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (closed_) return Pushed::kClosed;
    if (size_ >= bounds_.calls || call.bytes > bounds_.bytes - bytes_) return Pushed::kFull;
    ++size_;
    bytes_ += call.bytes;
    earliest_ = std::min(earliest_, call.life.deadline);
    ChainOf(call.queue_key()).calls.push_back(std::move(call));
    filled_.Signal();
    return Pushed::kTaken;
  }

  // Waits until there is a call or `until` has come, then moves what may run together into `batch`
  // (left empty at `until`): at most `most.calls`, and `most.bytes` but for a single larger call.
  // False once closed and empty. The keys are added to `held` (null: not held) until Release.
  bool Take(Bounds most, absl::Time until, std::vector<Call>* batch, Held* held = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (order_.empty()) {
      if (closed_ && size_ == 0) return false;
      if (timing_->Now() >= until) return true;
      timing_->WaitUntil(&mutex_, &filled_, until);
    }
    for (size_t turns = order_.size(); turns > 0; --turns) {
      if (TakeRun(order_.front(), &most, batch) == 0) break;  // full
      if (held != nullptr) {
        order_.front().held = true;
        held->chains_.splice(held->chains_.end(), order_, order_.begin());
      } else if (order_.front().calls.empty()) {
        index_.erase(&order_.front().key);
        order_.pop_front();
      } else {
        order_.splice(order_.end(), order_, order_.begin());
      }
    }
    if (held != nullptr) held->more_ = !order_.empty();
    if (closed_ && size_ == 0) filled_.SignalAll();
    return true;
  }

  // Gives the keys of a batch free; what has gathered on them meanwhile goes behind the others.
  void Release(Held* held) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (!held->chains_.empty()) {
      Chain& chain = held->chains_.front();
      if (chain.calls.empty()) {
        index_.erase(&chain.key);
        held->chains_.pop_front();
      } else {
        chain.held = false;
        order_.splice(order_.end(), held->chains_, held->chains_.begin());
        filled_.Signal();
      }
    }
  }

  // Whether Take would find calls now.
  bool HasReady() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return !order_.empty();
  }

  // No call's deadline is earlier than this.
  absl::Time NextDeadline() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return size_ == 0 ? absl::InfiniteFuture() : earliest_;
  }

  // Takes out all calls whose caller is gone.
  std::vector<Call> RemoveOver(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_) {
    return RemoveIf([now](const Call& call) { return call.life.over(now); });
  }
  std::vector<Call> RemoveAll() ABSL_LOCKS_EXCLUDED(mutex_) {
    return RemoveIf([](const Call&) { return true; });
  }

  // Refuses further calls; those inside can still be taken.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    filled_.SignalAll();
  }

  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return size_;
  }

 private:
  struct KeyHash {
    size_t operator()(const Key* key) const { return absl::Hash<Key>()(*key); }
  };
  struct KeyEqual {
    bool operator()(const Key* a, const Key* b) const { return *a == *b; }
  };

  Chain& ChainOf(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (auto found = index_.find(&key); found != index_.end()) return *found->second;
    order_.push_back(Chain{.key = key, .calls = {}, .held = false});
    index_.emplace(&order_.back().key, std::prev(order_.end()));
    return order_.back();
  }

  // Takes from the chain's head what may share a batch and still fits; returns how many that were.
  size_t TakeRun(Chain& chain, Bounds* most, std::vector<Call>* batch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    size_t taken = 0;
    bool alone = false;
    while (!chain.calls.empty() && !alone) {
      Call& call = chain.calls.front();
      alone = !call.shares_key();
      if (alone && taken > 0) break;
      if (most->calls == 0 || (call.bytes > most->bytes && !batch->empty())) break;
      --most->calls;
      most->bytes -= std::min(most->bytes, call.bytes);
      --size_;
      bytes_ -= call.bytes;
      batch->push_back(std::move(call));
      chain.calls.pop_front();
      ++taken;
    }
    return taken;
  }

  template <typename Predicate>
  std::vector<Call> RemoveIf(Predicate predicate) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<Call> removed;
    absl::MutexLock lock(&mutex_);
    earliest_ = absl::InfiniteFuture();
    std::vector<Chain*> chains;
    chains.reserve(index_.size());
    for (Chain& chain : order_) chains.push_back(&chain);
    for (const auto& [key, chain] : index_) {
      if (chain->held) chains.push_back(&*chain);
    }
    for (Chain* chain : chains) {
      for (auto call = chain->calls.begin(); call != chain->calls.end();) {
        if (!predicate(*call)) {
          earliest_ = std::min(earliest_, call->life.deadline);
          ++call;
          continue;
        }
        --size_;
        bytes_ -= call->bytes;
        removed.push_back(std::move(*call));
        call = chain->calls.erase(call);
      }
    }
    for (auto chain = order_.begin(); chain != order_.end();) {
      if (chain->calls.empty()) {
        index_.erase(&chain->key);
        chain = order_.erase(chain);
      } else {
        ++chain;
      }
    }
    return removed;
  }

  const Bounds bounds_;
  Timing* const timing_;
  mutable absl::Mutex mutex_;
  absl::CondVar filled_;
  std::list<Chain> order_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const Key*, typename std::list<Chain>::iterator, KeyHash, KeyEqual> index_
      ABSL_GUARDED_BY(mutex_);
  size_t size_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time earliest_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_KEYED_QUEUE_H_
