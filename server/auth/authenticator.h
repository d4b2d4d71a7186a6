// From a bearer token to a principal, without blocking RPC threads.
//
// Credentials are cached by id: a revoked or expired credential is refused on every server within
// `cache_ttl`. Misses and refreshes are read by a thread with a connection of its own; a credential
// in use is read again at half its time, so that its calls never wait. Unknown ids are cached too,
// in a cache of their own, so that guessing neither reaches the database twice nor displaces good
// ones. While the database fails or does not answer, a credential that was good is served for
// `stale_ttl` more, so that a failover does not refuse everybody.
//
// Thread-safe. Callbacks run once, on the caller's thread (cache) or the authenticator's, and must
// not block.
#ifndef ONCE_AUTH_AUTHENTICATOR_H_
#define ONCE_AUTH_AUTHENTICATOR_H_

#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "auth/credential.h"
#include "base/clock.h"
#include "store/store.h"

namespace once::auth {

struct AuthenticatorOptions {
  absl::Duration cache_ttl = absl::Seconds(5);
  absl::Duration stale_ttl = absl::Minutes(5);
  size_t max_cached = 100'000;
  size_t max_cached_refused = 10'000;
  // A refresh that takes longer counts as "the database does not answer".
  absl::Duration refresh_patience = absl::Seconds(1);
  // After a failed read the database is left alone for this time.
  absl::Duration retry_pause = absl::Milliseconds(250);
  size_t max_pending = 1'000;  // calls that wait for a read; beyond: OVERLOADED
};

class Authenticator {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<const Principal>>) &&>;

  virtual ~Authenticator() = default;

  // `token` is the credential after "Bearer ". UNAUTHENTICATED (one message for all causes),
  // STORE_UNAVAILABLE or OVERLOADED.
  virtual void Authenticate(absl::string_view token, Done done) = 0;
};

// `store` and `clock` must outlive it. The destructor answers what is pending with DRAINING.
std::unique_ptr<Authenticator> StartAuthenticator(const AuthenticatorOptions& options,
                                                  store::Store* store, const base::Clock* clock);

}  // namespace once::auth

#endif  // ONCE_AUTH_AUTHENTICATOR_H_
