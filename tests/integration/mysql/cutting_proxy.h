// A TCP proxy before a database server that can lose the answer to COMMIT: the statement gets
// through, then the link is cut. Plain connections only, since it looks for the statement's text.
#ifndef ONCE_TESTS_INTEGRATION_MYSQL_CUTTING_PROXY_H_
#define ONCE_TESTS_INTEGRATION_MYSQL_CUTTING_PROXY_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "store/mysql/mysql_store.h"

namespace once::testing {

class CuttingProxy {
 public:
  enum class Cut : uint8_t {
    kBeforeCommit,  // the server never sees it
    kAfterCommit,   // the server sees it, the client does not see the answer
  };

  explicit CuttingProxy(const store::HostPort& server);
  ~CuttingProxy();
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  store::HostPort address() const { return {.host = "127.0.0.1", .port = port_}; }
  // Cuts at the next `count` COMMITs.
  void CutNext(int count, Cut where) {
    where_ = where;
    cuts_ = count;
  }
  int connections() const { return connections_; }
  // Refuses new connections; those that are there go on.
  void StopListening();

 private:
  void Accept();
  void Serve(int client);
  // False where the link is to be cut.
  bool Forward(int from, int to, bool from_client);

  const store::HostPort server_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> cuts_{0};
  std::atomic<Cut> where_{Cut::kAfterCommit};
  std::atomic<int> connections_{0};
  std::thread acceptor_;
  std::vector<std::thread> servers_;
};

}  // namespace once::testing

#endif  // ONCE_TESTS_INTEGRATION_MYSQL_CUTTING_PROXY_H_
