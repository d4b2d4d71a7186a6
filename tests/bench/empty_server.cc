// The limit that others are compared with: the same messages over the same gRPC, and nothing else.
//
// A completion-queue server: each of its threads takes a call from its queue, answers it there and
// takes the next one, so that no call is handed from one thread to another.
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contenders.h"
#include "once/v1/idempotency_service.grpc.pb.h"

namespace once::bench {
namespace {

using Service = v1::IdempotencyService::AsyncService;

// Calls that may wait for a thread, for each method and thread.
constexpr int kSlots = 256;

class Tag {
 public:
  virtual ~Tag() = default;
  virtual void Proceed(bool ok) = 0;
};

// Takes a call, answers it with an empty message, takes the next.
template <typename Request, typename Response>
class Slot final : public Tag {
 public:
  using Method = void (Service::*)(grpc::ServerContext*, Request*,
                                   grpc::ServerAsyncResponseWriter<Response>*,
                                   grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*);
  Slot(Service* service, Method method, grpc::ServerCompletionQueue* queue)
      : service_(service), method_(method), queue_(queue) {
    Take();
  }
  void Proceed(bool ok) override {
    if (answered_) {
      Take();
    } else if (ok) {  // not so at shutdown
      answered_ = true;
      writer_->Finish(Response(), grpc::Status::OK, static_cast<Tag*>(this));
    }
  }

 private:
  void Take() {
    answered_ = false;
    writer_.reset();
    context_.emplace();
    writer_.emplace(&*context_);
    (service_->*method_)(&*context_, &request_, &*writer_, queue_, queue_, static_cast<Tag*>(this));
  }
  Service* const service_;
  const Method method_;
  grpc::ServerCompletionQueue* const queue_;
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncResponseWriter<Response>> writer_;
  Request request_;
  bool answered_ = false;
};

void Serve(Service* service, grpc::ServerCompletionQueue* queue) {
  std::deque<Slot<v1::BeginRequest, v1::BeginResponse>> begins;
  std::deque<Slot<v1::CompleteRequest, v1::CompleteResponse>> completes;
  for (int i = 0; i < kSlots; ++i) {
    begins.emplace_back(service, &Service::RequestBegin, queue);
    completes.emplace_back(service, &Service::RequestComplete, queue);
  }
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<Tag*>(tag)->Proceed(ok);
}

}  // namespace

int ServeEmpty(const std::string& ports_file, int threads) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Service service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues;
  for (int i = 0; i < threads; ++i) queues.push_back(builder.AddCompletionQueue());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::vector<std::thread> serving;
  for (const auto& queue : queues) serving.emplace_back(Serve, &service, queue.get());
  // Renamed into place, so that a reader never sees half of it.
  std::ofstream(ports_file + ".new") << "127.0.0.1:" << port << "\n";
  std::rename((ports_file + ".new").c_str(), ports_file.c_str());
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown();
  for (const auto& queue : queues) queue->Shutdown();
  for (std::thread& thread : serving) thread.join();
  return 0;
}

}  // namespace once::bench
