// Whether a server offers TLS at all, asked before anybody logs in.
//
// The client library (libmariadb, seen with 10.11.19) that was told to use TLS without verifying
// who it talks to goes on without TLS where the server offers none, and then hands a
// caching_sha2_password server the password in the clear. So a server that offers none must not get
// as far as a login.
#ifndef ONCE_STORE_MYSQL_TLS_OFFER_H_
#define ONCE_STORE_MYSQL_TLS_OFFER_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "store/mysql/mysql_store.h"

namespace once::store::mysql {

// Connects, reads the server's greeting and hangs up. FAILED_PRECONDITION where it offers no TLS,
// UNAVAILABLE where it does not answer within `timeout`. Blocking; thread-safe.
absl::Status CheckServerOffersTls(const HostPort& host, absl::Duration timeout);

// Of the bytes of a greeting, for tests. Same statuses.
absl::Status CheckGreetingOffersTls(absl::string_view greeting);

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_TLS_OFFER_H_
