#include "rpc/event_loop.h"

#include <cassert>

#include "absl/time/time.h"

namespace once::rpc {

EventLoop::EventLoop(grpc::ServerBuilder* builder, int threads) {
  for (int i = 0; i < threads; ++i) queues_.push_back(builder->AddCompletionQueue());
}

EventLoop::~EventLoop() {
  assert(threads_.empty());
  // gRPC wants a queue shut down and empty, also one that nobody has served.
  for (const auto& queue : queues_) {
    queue->Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue->Next(&tag, &ok)) {
    }
  }
}

void EventLoop::Start() {
  for (const auto& queue : queues_) {
    threads_.emplace_back([queue = queue.get()] {
      void* tag = nullptr;
      bool ok = false;
      while (queue->Next(&tag, &ok)) static_cast<Tag*>(tag)->Happened(ok);
    });
  }
}

void EventLoop::Stop() {
  if (threads_.empty()) return;
  users_.Close();
  users_.WaitUntilNone(absl::InfiniteFuture());
  for (const auto& queue : queues_) queue->Shutdown();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace once::rpc
