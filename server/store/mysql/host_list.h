// Which host to try next: the one that worked last, then the others in the order given, those that
// failed lately at the end.
//
// Thread-safe. Never blocks. The caller's clock is a parameter.
#ifndef ONCE_STORE_MYSQL_HOST_LIST_H_
#define ONCE_STORE_MYSQL_HOST_LIST_H_

#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "store/mysql/mysql_store.h"

namespace once::store::mysql {

class HostList {
 public:
  // For how long a host that failed is put last: doubles from failure to failure.
  static constexpr absl::Duration kFirstPenalty = absl::Milliseconds(500);
  static constexpr absl::Duration kMaxPenalty = absl::Seconds(10);

  explicit HostList(std::vector<HostPort> hosts);

  // Indexes of all hosts in the order in which to try them now.
  std::vector<size_t> Candidates(absl::Time now) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes `index` the current host.
  void Succeeded(size_t index) ABSL_LOCKS_EXCLUDED(mutex_);
  void Failed(size_t index, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  size_t current() const ABSL_LOCKS_EXCLUDED(mutex_);
  const HostPort& host(size_t index) const { return hosts_[index]; }
  size_t size() const { return hosts_.size(); }

 private:
  struct Health {
    absl::Time penalty_until = absl::InfinitePast();
    absl::Duration next_penalty = kFirstPenalty;
  };

  const std::vector<HostPort> hosts_;
  mutable absl::Mutex mutex_;
  size_t current_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Health> health_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_HOST_LIST_H_
