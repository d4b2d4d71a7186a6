// The limits that others are compared with: the same messages over the same gRPC, and nothing else.
//
// A completion-queue server: each of its threads takes a call from its queue, answers it there and
// takes the next one, so that no call is handed from one thread to another. The answers are empty,
// or as large as those for completed operations, or do not come at all.
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <chrono>
#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
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

// What a call for a completed operation is answered.
v1::Completed Receipt() {
  v1::Completed completed;
  completed.set_replayed(true);
  v1::Receipt& receipt = *completed.mutable_receipt();
  receipt.set_status(v1::RECEIPT_STATUS_SUCCEEDED);
  receipt.set_result(std::string(kResultBytes, 'r'));
  receipt.set_result_size(kResultBytes);
  receipt.set_content_type("application/json");
  receipt.mutable_complete_time()->set_seconds(1'700'000'000);
  receipt.mutable_complete_time()->set_nanos(123'456'000);
  receipt.set_fence(1'700'000'000'123'456);
  return completed;
}

// All calls of one method on one queue, each of which is taken, answered and makes room for the
// next.
template <typename Request, typename Response>
class Method {
 public:
  using Take = void (Service::*)(grpc::ServerContext*, Request*,
                                 grpc::ServerAsyncResponseWriter<Response>*, grpc::CompletionQueue*,
                                 grpc::ServerCompletionQueue*, void*);
  // Answers `response`, unset: nothing.
  Method(Service* service, Take take, grpc::ServerCompletionQueue* queue,
         std::optional<Response> response)
      : service_(service), take_(take), queue_(queue), response_(std::move(response)) {
    for (int i = 0; i < kSlots; ++i) slots_.emplace_back(this);
  }

 private:
  class Slot final : public Tag {
   public:
    explicit Slot(Method* method) : method_(method) { TakeNext(); }
    void Proceed(bool ok) override {
      if (answered_) {
        TakeNext();
      } else if (ok && method_->response_.has_value()) {
        answered_ = true;
        writer_->Finish(*method_->response_, grpc::Status::OK, static_cast<Tag*>(this));
      } else if (ok) {  // not so at shutdown
        request_.Clear();
        method_->slots_.emplace_back(method_);
      }
    }

   private:
    void TakeNext() {
      answered_ = false;
      writer_.reset();
      context_.emplace();
      writer_.emplace(&*context_);
      (method_->service_->*method_->take_)(&*context_, &request_, &*writer_, method_->queue_,
                                           method_->queue_, static_cast<Tag*>(this));
    }
    Method* const method_;
    std::optional<grpc::ServerContext> context_;
    std::optional<grpc::ServerAsyncResponseWriter<Response>> writer_;
    Request request_;
    bool answered_ = false;
  };

  Service* const service_;
  const Take take_;
  grpc::ServerCompletionQueue* const queue_;
  const std::optional<Response> response_;
  std::deque<Slot> slots_;
};

void Serve(Service* service, Answers answers, grpc::ServerCompletionQueue* queue) {
  v1::BeginResponse begun;
  v1::LookupResponse found;
  if (answers == Answers::kReceipts) {
    *begun.mutable_completed() = Receipt();
    *found.mutable_completed() = Receipt();
  }
  const auto given = [answers](auto response) {
    return answers == Answers::kNone ? std::nullopt : std::make_optional(std::move(response));
  };
  const Method<v1::BeginRequest, v1::BeginResponse> begins(service, &Service::RequestBegin, queue,
                                                           given(begun));
  const Method<v1::CompleteRequest, v1::CompleteResponse> completes(
      service, &Service::RequestComplete, queue, given(v1::CompleteResponse()));
  const Method<v1::LookupRequest, v1::LookupResponse> lookups(service, &Service::RequestLookup,
                                                              queue, given(found));
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<Tag*>(tag)->Proceed(ok);
}

}  // namespace

int ServeEmpty(const std::string& ports_file, int threads, Answers answers) {
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
  for (const auto& queue : queues) serving.emplace_back(Serve, &service, answers, queue.get());
  // Renamed into place, so that a reader never sees half of it.
  std::ofstream(ports_file + ".new") << "127.0.0.1:" << port << "\n";
  std::rename((ports_file + ".new").c_str(), ports_file.c_str());
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown(std::chrono::system_clock::now());  // calls may be left unanswered
  for (const auto& queue : queues) queue->Shutdown();
  for (std::thread& thread : serving) thread.join();
  return 0;
}

}  // namespace once::bench
