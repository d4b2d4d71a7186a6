// A bounded map from strings that forgets what was not used for longest. Private to `auth`.
// Not thread-safe.
#ifndef ONCE_AUTH_LRU_MAP_H_
#define ONCE_AUTH_LRU_MAP_H_

#include <cstddef>
#include <list>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace once::auth {

template <typename Value>
class LruMap {
 public:
  explicit LruMap(size_t capacity) : capacity_(capacity) {}

  // Null where there is none. The pointer is good until the next call of a non-const function.
  Value* Find(absl::string_view key) {
    const auto found = index_.find(key);
    if (found == index_.end()) {
      return nullptr;
    }
    items_.splice(items_.begin(), items_, found->second);
    return &found->second->second;
  }

  void Insert(absl::string_view key, Value value) {
    Erase(key);
    if (capacity_ == 0) {
      return;
    }
    if (items_.size() == capacity_) {
      index_.erase(items_.back().first);
      items_.pop_back();
    }
    items_.emplace_front(std::string(key), std::move(value));
    // The key lives in the list: one copy, and list nodes do not move.
    index_.emplace(items_.front().first, items_.begin());
  }

  void Erase(absl::string_view key) {
    const auto found = index_.find(key);
    if (found != index_.end()) {
      const auto item = found->second;
      index_.erase(found);
      items_.erase(item);
    }
  }

  size_t size() const { return items_.size(); }

 private:
  using Items = std::list<std::pair<std::string, Value>>;

  const size_t capacity_;
  Items items_;  // most recently used first
  absl::flat_hash_map<absl::string_view, typename Items::iterator> index_;
};

}  // namespace once::auth

#endif  // ONCE_AUTH_LRU_MAP_H_
