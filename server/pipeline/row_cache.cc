#include "pipeline/row_cache.h"

#include <iterator>
#include <utility>

namespace once::pipeline {
namespace {

// Nodes, index and control block of one entry.
constexpr size_t kOverheadBytes = 256;

size_t SizeOf(const CallKey& key, const store::KnownOperation& operation) {
  const core::OperationRow& row = operation.row;
  return kOverheadBytes + sizeof(key) + sizeof(operation) + key.handler.size() +
         key.event_id.size() + operation.key.event_id.size() + row.claim.consumer.size() +
         row.claim.handler_version.size() +
         (row.receipt ? row.receipt->content_type.size() + row.receipt->result->size() : 0);
}

}  // namespace

std::shared_ptr<const store::KnownOperation> RowCache::Find(const CallKey& key, absl::Time now) {
  return Get(key, now, /*keep=*/true);
}

std::shared_ptr<const store::KnownOperation> RowCache::Take(const CallKey& key, absl::Time now) {
  return Get(key, now, /*keep=*/false);
}

std::shared_ptr<const store::KnownOperation> RowCache::Get(const CallKey& key, absl::Time now,
                                                           bool keep) {
  if (!enabled()) return nullptr;
  Shard& shard = ShardOf(key);
  absl::MutexLock lock(&shard.mutex);
  const auto found = shard.index.find(&key);
  if (found == shard.index.end()) return nullptr;
  const Entries::iterator entry = found->second;
  auto operation = entry->until > now ? entry->operation : nullptr;
  if (keep && operation != nullptr) {
    shard.entries.splice(shard.entries.begin(), shard.entries, entry);
  } else {
    Erase(shard, entry);
  }
  return operation;
}

void RowCache::Put(const CallKey& key, store::KnownOperation operation, absl::Time now) {
  const size_t bytes = SizeOf(key, operation);
  if (bytes > max_bytes_of_shard_) return;
  Shard& shard = ShardOf(key);
  absl::MutexLock lock(&shard.mutex);
  if (const auto found = shard.index.find(&key); found != shard.index.end()) {
    Erase(shard, found->second);
  }
  while (shard.bytes + bytes > max_bytes_of_shard_) Erase(shard, std::prev(shard.entries.end()));
  shard.entries.push_front(
      {.key = key,
       .operation = std::make_shared<const store::KnownOperation>(std::move(operation)),
       .bytes = bytes,
       .until = now + ttl_});
  shard.index.emplace(&shard.entries.front().key, shard.entries.begin());
  shard.bytes += bytes;
}

size_t RowCache::bytes() const {
  size_t bytes = 0;
  for (const Shard& shard : shards_) {
    absl::MutexLock lock(&shard.mutex);
    bytes += shard.bytes;
  }
  return bytes;
}

void RowCache::Erase(Shard& shard, Entries::iterator entry) {
  shard.bytes -= entry->bytes;
  shard.index.erase(&entry->key);
  shard.entries.erase(entry);
}

}  // namespace once::pipeline
