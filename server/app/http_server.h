// The small HTTP side: /metrics, /healthz, /readyz. The only user of cpp-httplib.
#ifndef ONCE_APP_HTTP_SERVER_H_
#define ONCE_APP_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "app/values.h"

namespace once::app {

struct Readiness {
  bool ready = false;
  std::string reason;  // "serving", "starting", "draining", "the database cannot be reached"
};

// Called on the server's own threads; may block shortly.
struct HttpHandlers {
  std::function<std::string()> metrics;
  std::function<Readiness()> readiness;
};

// A few threads, one request a connection, short timeouts: slow or idle clients cannot keep others
// out for long. Thread-safe.
class HttpServer {
 public:
  // Binds and answers. UNAVAILABLE with the address where it cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HostPort& address,
                                                           HttpHandlers handlers);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  // Stops; answers what is being answered.
  virtual ~HttpServer() = default;

  virtual int port() const = 0;

 protected:
  HttpServer() = default;
};

struct HttpReply {
  int status = 0;
  std::string body;
};

// GET; blocks up to about twice `timeout`. UNAVAILABLE where no answer comes.
absl::StatusOr<HttpReply> HttpGet(const HostPort& address, const std::string& path,
                                  absl::Duration timeout);

}  // namespace once::app

#endif  // ONCE_APP_HTTP_SERVER_H_
