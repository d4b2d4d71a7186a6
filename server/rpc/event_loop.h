// gRPC's completion queues and the threads that serve them.
//
// We do not use gRPC's callback API: it hands the end of every call to an executor's thread and
// polls with threads of its own that pass the poller's role on at every turn, which cost more than
// our own work on a call (docs/performance.md).
//
// Thread-safe. Only Stop blocks.
#ifndef ONCE_RPC_EVENT_LOOP_H_
#define ONCE_RPC_EVENT_LOOP_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <thread>
#include <vector>

#include "rpc/open_calls.h"

namespace once::rpc {

// What is told when an operation of gRPC ends.
class Tag {
 public:
  // On a thread of the loop; must not block. `ok` is false where the operation did not succeed.
  virtual void Happened(bool ok) = 0;

 protected:
  ~Tag() = default;
};

// A tag that calls a member function of its owner, which may delete itself in it.
template <typename Owner>
class Event final : public Tag {
 public:
  using Function = void (Owner::*)(bool ok);
  Event(Owner* owner, Function function) : owner_(owner), function_(function) {}
  void Happened(bool ok) override { (owner_->*function_)(ok); }

 private:
  Owner* const owner_;
  const Function function_;
};

class EventLoop {
 public:
  // Before the builder starts the server. `threads` is at least 1; each has a queue of its own.
  EventLoop(grpc::ServerBuilder* builder, int threads);
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  // After Stop.
  ~EventLoop();

  const std::vector<std::unique_ptr<grpc::ServerCompletionQueue>>& queues() const {
    return queues_;
  }

  // Once the server has started and its services listen.
  void Start();

  // Whoever has an operation under way, or will begin one, has entered and leaves afterwards.
  OpenCalls* users() { return &users_; }

  // After the server's shutdown: waits until the last user has left, then ends the threads.
  // Repeatable.
  void Stop();

 private:
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::vector<std::thread> threads_;
  OpenCalls users_;
};

}  // namespace once::rpc

#endif  // ONCE_RPC_EVENT_LOOP_H_
