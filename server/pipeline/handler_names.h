// Names of handlers and their numbers, as far as this server met them.
#ifndef ONCE_PIPELINE_HANDLER_NAMES_H_
#define ONCE_PIPELINE_HANDLER_NAMES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/types.h"

namespace once::pipeline {

// A number never changes, so an entry is never wrong; the bound is for memory only. Two
// generations: when the young one is full it becomes the old one, and what is asked for again is
// carried over. Thread-safe.
class HandlerNames {
 public:
  explicit HandlerNames(size_t max_names) : max_young_(max_names / 2 + 1) {}

  std::optional<core::HandlerId> Find(core::TenantId tenant, absl::string_view name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Remember(core::TenantId tenant, absl::string_view name, core::HandlerId id)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Names = absl::flat_hash_map<std::pair<uint32_t, std::string>, core::HandlerId>;

  void Add(Names::key_type key, core::HandlerId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_young_;
  absl::Mutex mutex_;
  Names young_ ABSL_GUARDED_BY(mutex_);
  Names old_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_HANDLER_NAMES_H_
