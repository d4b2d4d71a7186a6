// The production store, on MySQL (8.0 and later) or MariaDB (10.6 and later), alone or as a
// cluster.
//
// Statuses of Open…Session beyond those of store.h: FAILED_PRECONDITION where trying again does not
// help until somebody changes something (wrong password, no such database, no schema or one of
// another version, a session setting that the server does not accept). Messages name the hosts and
// never hold a password or row data.
//
// Hosts: tried in order, beginning with the one that worked last; all sessions follow to the one
// that works, so that on a multi-master cluster all writes go to one node. A host that failed is
// tried last for a while. Hosts that are read-only are passed over; where only one host is named,
// reads go on while it is read-only.
//
// A process that uses TLS to the database should ignore SIGPIPE: OpenSSL writes to sockets without
// MSG_NOSIGNAL.
#ifndef ONCE_STORE_MYSQL_MYSQL_STORE_H_
#define ONCE_STORE_MYSQL_MYSQL_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/secret.h"
#include "store/store.h"

namespace once::store {

struct HostPort {
  std::string host;  // name or address; IPv6 without brackets
  uint16_t port = 3306;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// "host:port", "[::1]:port".
std::string ToString(const HostPort& host);

// There is no mode that verifies the certificate but not the name in it: the client library would
// go on without TLS for a man in the middle who offers none (see tls_offer.h).
enum class MysqlTlsMode : uint8_t {
  kDisabled,
  kRequired,  // encrypted, to anybody: a defence against those who listen, not against a man in the
              // middle
  kVerifyIdentity,  // the certificate has to be made out for the host's name or address
};

struct MysqlTls {
  MysqlTlsMode mode = MysqlTlsMode::kDisabled;
  // Paths of PEM files. Without `ca` the system's authorities count. `cert` and `key` only where
  // the server asks for a client certificate.
  std::string ca;
  std::string cert;
  std::string key;
};

struct MysqlOptions {
  std::vector<HostPort> hosts;
  std::string user;
  base::Secret password;
  std::string database;
  MysqlTls tls;
  // Path of the server's RSA public key (PEM), for caching_sha2_password without TLS.
  std::string server_public_key;

  // Whole seconds count; fractions are rounded up.
  absl::Duration connect_timeout = absl::Seconds(3);
  absl::Duration read_timeout = absl::Seconds(15);
  absl::Duration write_timeout = absl::Seconds(15);
  absl::Duration lock_wait_timeout = absl::Seconds(5);
  // A connection whose client went silent holds its locks no longer than this.
  absl::Duration idle_timeout = absl::Seconds(60);
  // Statements are split near this size, or at the server's max_allowed_packet where that is
  // smaller.
  size_t max_statement_bytes = size_t{4} << 20;
  int max_write_sessions = 8;

  // For the memory of failed hosts; must outlive the store. Null: the real clock.
  const base::Clock* clock = nullptr;
};

// mysql://user@host1:3306,host2:3306/database?tls=verify-identity&tls-ca=/path
//
// Parameters: tls (disabled, required, verify-identity), tls-ca, tls-cert, tls-key,
// server-public-key. User and parameters may be percent-encoded. INVALID_ARGUMENT lists what is
// wrong; a password in the URI is refused and not echoed.
absl::StatusOr<MysqlOptions> ParseMysqlUri(absl::string_view uri);

// Never fails and opens no connection: whether the database answers is for Check() and the sessions
// to find out.
std::unique_ptr<Store> OpenMysqlStore(MysqlOptions options);

}  // namespace once::store

#endif  // ONCE_STORE_MYSQL_MYSQL_STORE_H_
