// Opens connections that are fit for use: on the right host, with the settings that the contract
// needs, each of them read back.
//
// Thread-safe. Open() blocks: up to the connect timeout for each host that does not answer.
#ifndef ONCE_STORE_MYSQL_SESSION_H_
#define ONCE_STORE_MYSQL_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "store/mysql/connection.h"
#include "store/mysql/host_list.h"
#include "store/mysql/mysql_store.h"

namespace once::store::mysql {

struct ServerVersion {
  bool mariadb = false;
  int major = 0;
  int minor = 0;
  std::string text;  // as the server says it
};

// Of the answer of VERSION(). FAILED_PRECONDITION for a server that is too old or cannot be told.
absl::StatusOr<ServerVersion> ParseServerVersion(absl::string_view text);

// What a session says of itself.
struct SessionSettings {
  bool autocommit = true;
  std::string sql_mode;
  std::string time_zone;
  std::string client_charset;
  std::string connection_charset;
  std::string isolation;
  int64_t lock_wait_seconds = 0;
  int64_t max_allowed_packet = 0;
  bool sysdate_moves = false;  // within a statement
  bool read_only = false;      // the server, not the session
};

// FAILED_PRECONDITION listing every setting that is not as it has to be, with its value.
// `read_only` is not looked at.
absl::Status CheckSettings(const SessionSettings& settings, bool autocommit_wanted,
                           int64_t lock_wait_seconds_wanted);

enum class SessionUse : uint8_t {
  kWrite,    // transactions; a writable host
  kRead,     // each statement by itself
  kControl,  // transactions; reads have to go on while a single host is read-only
  kMigrate,  // each statement by itself; a writable host; any or no schema
};

// A connection that is fit for use.
struct Session {
  std::unique_ptr<Connection> connection;
  size_t host = 0;  // index in the host list
  ServerVersion version;
  SessionSettings settings;
  // Near which to split statements, and what the server takes at most.
  size_t statement_bytes = 0;
  size_t max_packet_bytes = 0;
};

class SessionOpener {
 public:
  explicit SessionOpener(MysqlOptions options);

  // UNAVAILABLE where no host is fit now; FAILED_PRECONDITION where none will be before somebody
  // changes something.
  absl::StatusOr<Session> Open(SessionUse use);

  // False once another host has become the one that all sessions go to.
  bool IsCurrent(const Session& session) const { return session.host == hosts_.current(); }

  // With several hosts a read-only one may be a replica that lags.
  bool ReadsNeedWritableHost() const { return hosts_.size() > 1; }

  const MysqlOptions& options() const { return options_; }

 private:
  absl::StatusOr<Session> OpenOn(size_t host, SessionUse use) const;
  // A failed login with what the operator may do about it.
  absl::Status WithAdvice(const absl::Status& status) const;
  absl::Status ApplySettings(SessionUse use, Session& session) const;
  absl::Status CheckHost(SessionUse use, Session& session) const;
  absl::Status CheckEncrypted(Connection& connection) const;

  const MysqlOptions options_;
  const base::RealClock real_clock_;
  const base::Clock& clock_;
  HostList hosts_;
};

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_SESSION_H_
