// Rows of operations in memory, as a transaction of this server left or found them: completed ones,
// so that a duplicate costs no read, and claims, so that their completion costs none.
//
// A completed row never changes: the same function decides on it from here as from the database. A
// claim may have been lost since: what is decided on it is guarded by the claim in the database.
// Nothing here can ever grant a claim.
//
// Thread-safe; nothing blocks but for short locks.
#ifndef ONCE_PIPELINE_ROW_CACHE_H_
#define ONCE_PIPELINE_ROW_CACHE_H_

#include <array>
#include <cstddef>
#include <list>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "pipeline/call.h"
#include "store/batch.h"

namespace once::pipeline {

class RowCache {
 public:
  // At most `max_bytes` (0: nothing is kept), each entry for at most `ttl`.
  RowCache(size_t max_bytes, absl::Duration ttl)
      : max_bytes_of_shard_(max_bytes / kShards), ttl_(ttl) {}

  bool enabled() const { return max_bytes_of_shard_ > 0; }

  // Null where it is not known.
  std::shared_ptr<const store::KnownOperation> Find(const CallKey& key, absl::Time now);
  // Likewise, and it is not kept any longer.
  std::shared_ptr<const store::KnownOperation> Take(const CallKey& key, absl::Time now);

  // `operation` is committed; a completed one has its result with it.
  void Put(const CallKey& key, store::KnownOperation operation, absl::Time now);

  // Of all entries, by estimate.
  size_t bytes() const;

 private:
  static constexpr size_t kShards = 16;

  struct Entry {
    CallKey key;
    std::shared_ptr<const store::KnownOperation> operation;
    size_t bytes = 0;
    absl::Time until;
  };
  struct KeyHash {
    size_t operator()(const CallKey* key) const { return absl::Hash<CallKey>()(*key); }
  };
  struct KeyEqual {
    bool operator()(const CallKey* a, const CallKey* b) const { return *a == *b; }
  };
  using Entries = std::list<Entry>;
  struct Shard {
    mutable absl::Mutex mutex;
    Entries entries ABSL_GUARDED_BY(mutex);  // most recently used first
    // The keys live in the list, whose nodes do not move.
    absl::flat_hash_map<const CallKey*, Entries::iterator, KeyHash, KeyEqual> index
        ABSL_GUARDED_BY(mutex);
    size_t bytes ABSL_GUARDED_BY(mutex) = 0;
  };

  std::shared_ptr<const store::KnownOperation> Get(const CallKey& key, absl::Time now, bool keep);
  Shard& ShardOf(const CallKey& key) { return shards_[absl::Hash<CallKey>()(key) / 7 % kShards]; }
  static void Erase(Shard& shard, Entries::iterator entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex);

  const size_t max_bytes_of_shard_;
  const absl::Duration ttl_;
  std::array<Shard, kShards> shards_;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_ROW_CACHE_H_
