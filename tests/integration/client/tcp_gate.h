// Stands between a client and the server and breaks the network on demand.
//
// Thread-safe. One thread per connection and direction; all end with the object.
#ifndef ONCE_TESTS_INTEGRATION_CLIENT_TCP_GATE_H_
#define ONCE_TESTS_INTEGRATION_CLIENT_TCP_GATE_H_

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace once::testing_support {

class TcpGate {
 public:
  // In front of 127.0.0.1:`port`.
  explicit TcpGate(int port);
  ~TcpGate();
  TcpGate(const TcpGate&) = delete;
  TcpGate& operator=(const TcpGate&) = delete;

  std::string address() const;

  // What the server says from now on gets lost; what the client says still arrives.
  void SwallowReplies(bool on) { swallow_ = on; }
  // How many connections there have been.
  int accepted() const { return accepted_; }
  // Ends all connections; new ones may come.
  void Cut() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Accept();
  void Pump(int from, int to, bool replies);

  const int port_;
  int listener_ = -1;
  int own_port_ = 0;
  std::atomic<bool> swallow_{false};
  std::atomic<int> accepted_{0};
  std::thread acceptor_;
  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<int> sockets_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> pumps_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace once::testing_support

#endif  // ONCE_TESTS_INTEGRATION_CLIENT_TCP_GATE_H_
