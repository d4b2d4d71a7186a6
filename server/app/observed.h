// Decorators that tell an observer what happens at the borders to the database: sessions opened and
// lost, credentials checked.
//
// The wrapped objects behave as the originals in everything else and are as thread-safe as they
// are.
#ifndef ONCE_APP_OBSERVED_H_
#define ONCE_APP_OBSERVED_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "auth/authenticator.h"
#include "store/store.h"

namespace once::app {

// Functions may be called from any thread and must not block. `kind` is "write", "read" or
// "control".
class StoreObserver {
 public:
  virtual ~StoreObserver() = default;
  virtual void OnSessionOpened(absl::string_view kind, absl::StatusCode result) = 0;
  virtual void OnSessionClosed(absl::string_view kind) = 0;
};

class AuthenticationObserver {
 public:
  virtual ~AuthenticationObserver() = default;
  // `from_cache`: answered on the caller's thread.
  virtual void OnAuthentication(bool from_cache, absl::StatusCode result) = 0;
};

// Owns `store`; `observer` must outlive it and its sessions.
std::unique_ptr<store::Store> ObserveStore(std::unique_ptr<store::Store> store,
                                           StoreObserver* observer);

// Owns `authenticator`; `observer` must outlive it.
std::unique_ptr<auth::Authenticator> ObserveAuthenticator(
    std::unique_ptr<auth::Authenticator> authenticator, AuthenticationObserver* observer);

}  // namespace once::app

#endif  // ONCE_APP_OBSERVED_H_
