// The bearer token of each call: fixed, or from a file that is read again when it changes.
//
// Thread-safe. Looks at the file at most once a second; keeps the last good token while the file
// cannot be read, since a rotation may replace it in two steps.
#ifndef ONCE_CLIENT_SRC_TOKEN_SOURCE_H_
#define ONCE_CLIENT_SRC_TOKEN_SOURCE_H_

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "once/options.h"

namespace once::client_internal {

class TokenSource {
 public:
  // At most one of `token` and `file` is set; with neither the token is empty.
  TokenSource(std::string token, std::string file, std::shared_ptr<Clock> clock);

  // Empty: send none. Never in an error message.
  // UNAUTHENTICATED: there is no usable token; the message names the file and why.
  absl::StatusOr<std::string> Get() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string file_;
  const std::shared_ptr<Clock> clock_;
  absl::Mutex mutex_;
  absl::StatusOr<std::string> token_ ABSL_GUARDED_BY(mutex_);
  absl::Duration next_look_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  struct stat seen_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace once::client_internal

#endif  // ONCE_CLIENT_SRC_TOKEN_SOURCE_H_
