// One session of the store, opened when needed and again after it was lost.
#ifndef ONCE_PIPELINE_SESSION_HOLDER_H_
#define ONCE_PIPELINE_SESSION_HOLDER_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "store/store.h"

namespace once::pipeline {

// Used by one thread. `store` must outlive it.
template <typename Session>
class SessionHolder {
 public:
  using Open = absl::StatusOr<std::unique_ptr<Session>> (store::Store::*)();

  SessionHolder(store::Store* store, Open open) : store_(store), open_(open) {}

  // A usable session, owned by this until the next call; UNAVAILABLE, whatever the store's reason,
  // where none can be opened. Blocks.
  absl::StatusOr<Session*> Get() {
    if (session_ != nullptr && !session_->usable()) session_.reset();
    if (session_ == nullptr) {
      absl::StatusOr<std::unique_ptr<Session>> opened = (store_->*open_)();
      if (!opened.ok()) {
        return absl::UnavailableError(absl::StrCat("no session: ", opened.status().ToString()));
      }
      session_ = *std::move(opened);
    }
    return session_.get();
  }

  // Drops the session where `status`, of its last use, says that it is lost.
  void DropAfter(const absl::Status& status) {
    if (absl::IsUnavailable(status) || absl::IsUnknown(status)) session_.reset();
  }

 private:
  store::Store* const store_;
  const Open open_;
  std::unique_ptr<Session> session_;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_SESSION_HOLDER_H_
