#include "store/mysql/host_list.h"

#include <algorithm>
#include <utility>

namespace once::store::mysql {

HostList::HostList(std::vector<HostPort> hosts)
    : hosts_(std::move(hosts)), health_(hosts_.size()) {}

std::vector<size_t> HostList::Candidates(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  std::vector<size_t> order;
  std::vector<size_t> penalised;
  for (size_t i = 0; i < hosts_.size(); ++i) {
    const size_t index = (current_ + i) % hosts_.size();
    (health_[index].penalty_until <= now ? order : penalised).push_back(index);
  }
  order.insert(order.end(), penalised.begin(), penalised.end());
  return order;
}

void HostList::Succeeded(size_t index) {
  absl::MutexLock lock(&mutex_);
  current_ = index;
  health_[index] = Health{};
}

void HostList::Failed(size_t index, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  Health& health = health_[index];
  health.penalty_until = now + health.next_penalty;
  health.next_penalty = std::min(2 * health.next_penalty, kMaxPenalty);
}

size_t HostList::current() const {
  absl::MutexLock lock(&mutex_);
  return current_;
}

}  // namespace once::store::mysql
