#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contenders.h"
#include "once/v1/idempotency_service.grpc.pb.h"

namespace once::bench {
namespace {

using Stub = v1::IdempotencyService::Stub;

constexpr char kHandler[] = "bench.points";
constexpr int kHoldSeconds = 3600;

// A call ended.
class Tag {
 public:
  virtual ~Tag() = default;
  virtual void Proceed() = 0;
};

// A completion queue and the thread that does all the work of its calls: polling, parsing and what
// the caller does next. Callback stubs would hand each of these to another thread, which made the
// generator dearer than the server.
class Driver {
 public:
  Driver() : thread_([this] { Loop(); }) {}
  ~Driver() {
    queue_.Shutdown();
    thread_.join();
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  grpc::CompletionQueue* queue() { return &queue_; }

 private:
  void Loop() {
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) static_cast<Tag*>(tag)->Proceed();
  }
  grpc::CompletionQueue queue_;
  std::thread thread_;
};

// One call at a time of one method; the messages keep their memory from one to the next.
template <typename RequestType, typename ResponseType>
struct Call {
  using Request = RequestType;
  using Response = ResponseType;
  std::optional<grpc::ClientContext> context;
  Request request;
  Response response;
  grpc::Status status;
  // Lives in the memory of the context's call, so it has to go first.
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader;
};

class OnceCaller final : public Caller, private Tag {
 public:
  OnceCaller(Stub* stub, grpc::CompletionQueue* queue, std::string authorization,
             const OnceWork& work, const Events& events)
      : stub_(stub),
        queue_(queue),
        authorization_(std::move(authorization)),
        work_(work),
        events_(events),
        known_(work.known_run != 0 ? work.known_run : events.run(), IdOrder::kTime) {}

  void Cycle(uint64_t number, CycleEnd* end) override {
    end_ = end;
    if (work_.batch > 0) return BatchBegin(number);
    switch (work_.mode) {
      case Mode::kCycle:
        return Begin(events_.Id(number), &OnceCaller::Complete);
      case Mode::kBegin:
        return Begin(KnownId(number), &OnceCaller::EndDuplicate);
      case Mode::kLookup:
        return Lookup(KnownId(number));
      case Mode::kMix:
        if (number % 10 == 9) return Begin(KnownId(number), &OnceCaller::EndDuplicate);
        return Begin(events_.Id(number), &OnceCaller::Complete);
      case Mode::kHold:
        begin_.request.mutable_lease()->set_seconds(kHoldSeconds);
        return Begin(events_.Id(number), &OnceCaller::EndHold);
      case Mode::kWait:
        begin_.request.mutable_wait()->set_seconds(work_.wait_seconds);
        return Begin(KnownId(number), &OnceCaller::EndWait);
    }
  }

 private:
  using After = void (OnceCaller::*)();

  void Proceed() override { (this->*after_)(); }

  template <typename Call>
  using Method = std::unique_ptr<grpc::ClientAsyncResponseReader<typename Call::Response>> (
      Stub::*)(grpc::ClientContext*, const typename Call::Request&, grpc::CompletionQueue*);

  // Sends `call` and goes on with `after`.
  template <typename Call>
  void Send(Call& call, Method<Call> method, After after) {
    call.reader.reset();
    call.context.emplace();
    if (!authorization_.empty()) call.context->AddMetadata("authorization", authorization_);
    after_ = after;
    call.reader = (stub_->*method)(&*call.context, call.request, queue_);
    call.reader->Finish(&call.response, &call.status, static_cast<Tag*>(this));
  }

  std::string KnownId(uint64_t number) const { return known_.Id(number % work_.known); }

  void FillBegin(const std::string& id, v1::BeginRequest& request) const {
    request.set_handler(kHandler);
    request.set_event_id(id);
    std::string content = ContentFor(id);
    if (work_.other_content) content[content.size() - 3] = 'x';
    request.mutable_content()->set_data(std::move(content));
    request.mutable_content()->set_scheme(v1::DIGEST_SCHEME_JSON_JCS_SHA256);
    request.set_attempt_id(NewAttemptId());
    request.set_consumer("bench");
  }

  // The empty server grants nothing; its cycle costs the same two calls.
  void FillComplete(const v1::BeginRequest& begun, const v1::BeginResponse& answer,
                    v1::CompleteRequest& request) const {
    request.set_handler(kHandler);
    request.set_event_id(begun.event_id());
    request.set_attempt_id(begun.attempt_id());
    request.set_fence(answer.has_granted() ? answer.granted().claim().fence() : 1);
    request.set_status(v1::RECEIPT_STATUS_SUCCEEDED);
    request.set_result(events_.result());
    request.set_content_type("application/json");
  }

  void Begin(const std::string& id, After after) {
    FillBegin(id, begin_.request);
    Send(begin_, &Stub::AsyncBegin, after);
  }

  void Complete() {
    if (!begin_.status.ok()) return end_->Ended(0);
    FillComplete(begin_.request, begin_.response, complete_.request);
    Send(complete_, &Stub::AsyncComplete, &OnceCaller::EndComplete);
  }

  void EndComplete() {
    const bool lost = complete_.response.has_claim_lost() || complete_.response.has_conflict();
    end_->Ended(complete_.status.ok() && !lost ? 1 : 0);
  }

  void EndDuplicate() {
    const bool expected =
        work_.other_content ? begin_.response.has_conflict() : begin_.response.has_completed();
    end_->Ended(begin_.status.ok() && expected ? 1 : 0);
  }

  void EndHold() { end_->Ended(begin_.status.ok() && begin_.response.has_granted() ? 1 : 0); }
  void EndWait() { end_->Ended(begin_.status.ok() && begin_.response.has_in_progress() ? 1 : 0); }

  void Lookup(const std::string& id) {
    lookup_.request.set_handler(kHandler);
    lookup_.request.set_event_id(id);
    Send(lookup_, &Stub::AsyncLookup, &OnceCaller::EndLookup);
  }

  void EndLookup() { end_->Ended(lookup_.status.ok() && lookup_.response.has_completed() ? 1 : 0); }

  void BatchBegin(uint64_t number) {
    const auto items = static_cast<uint64_t>(work_.batch);
    batch_begin_.request.clear_requests();
    for (uint64_t i = 0; i < items; ++i)
      FillBegin(events_.Id(number * items + i), *batch_begin_.request.add_requests());
    Send(batch_begin_, &Stub::AsyncBatchBegin, &OnceCaller::BatchComplete);
  }

  void BatchComplete() {
    if (!batch_begin_.status.ok()) return end_->Ended(0);
    batch_complete_.request.clear_requests();
    for (int i = 0; i < batch_begin_.response.results_size(); ++i) {
      const v1::BeginResponse& answer = batch_begin_.response.results(i).response();
      if (!answer.has_granted()) continue;
      FillComplete(batch_begin_.request.requests(i), answer,
                   *batch_complete_.request.add_requests());
    }
    Send(batch_complete_, &Stub::AsyncBatchComplete, &OnceCaller::EndBatchComplete);
  }

  void EndBatchComplete() {
    int settled = 0;
    for (const auto& result : batch_complete_.response.results())
      settled += result.response().has_completed();
    end_->Ended(batch_complete_.status.ok() ? settled : 0);
  }

  Stub* const stub_;
  grpc::CompletionQueue* const queue_;
  const std::string authorization_;
  const OnceWork work_;
  const Events& events_;
  const Events known_;

  CycleEnd* end_ = nullptr;
  After after_ = nullptr;
  Call<v1::BeginRequest, v1::BeginResponse> begin_;
  Call<v1::CompleteRequest, v1::CompleteResponse> complete_;
  Call<v1::LookupRequest, v1::LookupResponse> lookup_;
  Call<v1::BatchBeginRequest, v1::BatchBeginResponse> batch_begin_;
  Call<v1::BatchCompleteRequest, v1::BatchCompleteResponse> batch_complete_;
};

// No filters for what the benchmark does not use: the generator shares two cores with the server.
grpc::ChannelArguments LeanChannel() {
  grpc::ChannelArguments arguments;
  for (const char* off :
       {GRPC_ARG_ENABLE_RETRIES, GRPC_ARG_ENABLE_CHANNELZ, GRPC_ARG_ENABLE_DEADLINE_CHECKS,
        GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION,
        GRPC_ARG_ENABLE_HTTP_PROXY, GRPC_ARG_HTTP2_BDP_PROBE}) {
    arguments.SetInt(off, 0);
  }
  arguments.SetInt(GRPC_ARG_MINIMAL_STACK, 1);
  return arguments;
}

class Once final : public Contender {
 public:
  Once(const OnceTarget& target, const OnceWork& work, const Events& events)
      : target_(target),
        work_(work),
        events_(events),
        drivers_(static_cast<size_t>(target.threads)) {
    std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
    if (!target.ca_file.empty()) {
      std::stringstream ca;
      ca << std::ifstream(target.ca_file).rdbuf();
      grpc::SslCredentialsOptions options;
      options.pem_root_certs = ca.str();
      credentials = grpc::SslCredentials(options);
    }
    const size_t servers = target.addresses.size();
    for (size_t i = 0; i < std::max(servers, static_cast<size_t>(target.channels)); ++i) {
      grpc::ChannelArguments arguments = LeanChannel();
      // Channels with equal arguments would share a connection.
      arguments.SetInt("once.bench.channel", static_cast<int>(i));
      stubs_.push_back(v1::IdempotencyService::NewStub(
          grpc::CreateCustomChannel(target.addresses[i % servers], credentials, arguments)));
    }
  }
  bool blocking() const override { return false; }
  std::unique_ptr<Caller> NewCaller(int index) override {
    const auto i = static_cast<size_t>(index);
    const std::string authorization =
        target_.token.empty() ? "" : absl::StrCat("Bearer ", target_.token);
    return std::make_unique<OnceCaller>(stubs_[i % stubs_.size()].get(),
                                        drivers_[i % drivers_.size()].queue(), authorization, work_,
                                        events_);
  }

 private:
  const OnceTarget target_;
  const OnceWork work_;
  const Events& events_;
  std::deque<Driver> drivers_;  // never moved
  std::vector<std::unique_ptr<Stub>> stubs_;
};

}  // namespace

std::unique_ptr<Contender> NewOnce(const OnceTarget& target, const OnceWork& work,
                                   const Events& events) {
  return std::make_unique<Once>(target, work, events);
}

}  // namespace once::bench
