#include <grpcpp/grpcpp.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contenders.h"
#include "once/v1/idempotency_service.grpc.pb.h"

namespace once::bench {
namespace {

using Stub = v1::IdempotencyService::Stub;
using Done = std::function<void(int)>;

constexpr char kHandler[] = "bench.points";

// What must live until a call of the callback API has ended.
template <typename Request, typename Response>
struct CallState {
  grpc::ClientContext context;
  Request request;
  Response response;
};
using BeginState = CallState<v1::BeginRequest, v1::BeginResponse>;
using CompleteState = CallState<v1::CompleteRequest, v1::CompleteResponse>;
using LookupState = CallState<v1::LookupRequest, v1::LookupResponse>;
using BatchBeginState = CallState<v1::BatchBeginRequest, v1::BatchBeginResponse>;
using BatchCompleteState = CallState<v1::BatchCompleteRequest, v1::BatchCompleteResponse>;

class OnceCaller final : public Caller {
 public:
  OnceCaller(Stub* stub, std::string authorization, const OnceWork& work, const Events& events)
      : stub_(stub),
        authorization_(std::move(authorization)),
        work_(work),
        events_(events),
        known_(work.known_run != 0 ? work.known_run : events.run(), IdOrder::kTime) {}

  void Cycle(uint64_t number, Done done) override {
    if (work_.batch > 0) return BatchCycle(number, std::move(done));
    switch (work_.mode) {
      case Mode::kCycle:
        return UnaryCycle(events_.Id(number), std::move(done));
      case Mode::kBegin:
        return Duplicate(number, std::move(done));
      case Mode::kLookup:
        return Lookup(number, std::move(done));
      case Mode::kMix:
        if (number % 10 == 9) return Duplicate(number, std::move(done));
        return UnaryCycle(events_.Id(number), std::move(done));
    }
  }

 private:
  template <typename State>
  std::shared_ptr<State> NewCall() const {
    auto state = std::make_shared<State>();
    if (!authorization_.empty()) state->context.AddMetadata("authorization", authorization_);
    return state;
  }

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
  static void FillComplete(const v1::BeginRequest& begun, const v1::BeginResponse& answer,
                           v1::CompleteRequest& request) {
    request.set_handler(kHandler);
    request.set_event_id(begun.event_id());
    request.set_attempt_id(begun.attempt_id());
    request.set_fence(answer.has_granted() ? answer.granted().claim().fence() : 1);
    request.set_status(v1::RECEIPT_STATUS_SUCCEEDED);
    request.set_result(Result());
    request.set_content_type("application/json");
  }

  void UnaryCycle(const std::string& id, Done done) {
    auto begin = NewCall<BeginState>();
    FillBegin(id, begin->request);
    auto* raw = begin.get();
    stub_->async()->Begin(
        &raw->context, &raw->request, &raw->response,
        [this, begin = std::move(begin), done = std::move(done)](const grpc::Status& status) {
          if (!status.ok()) return done(0);
          auto complete = NewCall<CompleteState>();
          FillComplete(begin->request, begin->response, complete->request);
          Complete(std::move(complete), done);
        });
  }

  void Complete(std::shared_ptr<CompleteState> complete, Done done) {
    auto* raw = complete.get();
    stub_->async()->Complete(
        &raw->context, &raw->request, &raw->response,
        [complete = std::move(complete), done = std::move(done)](const grpc::Status& status) {
          const bool lost =
              complete->response.has_claim_lost() || complete->response.has_conflict();
          done(status.ok() && !lost ? 1 : 0);
        });
  }

  void Duplicate(uint64_t number, Done done) {
    auto begin = NewCall<BeginState>();
    FillBegin(known_.Id(number % work_.known), begin->request);
    auto* raw = begin.get();
    stub_->async()->Begin(
        &raw->context, &raw->request, &raw->response,
        [this, begin = std::move(begin), done = std::move(done)](const grpc::Status& status) {
          const bool expected = work_.other_content ? begin->response.has_conflict()
                                                    : begin->response.has_completed();
          done(status.ok() && expected ? 1 : 0);
        });
  }

  void Lookup(uint64_t number, Done done) {
    auto lookup = NewCall<LookupState>();
    lookup->request.set_handler(kHandler);
    lookup->request.set_event_id(known_.Id(number % work_.known));
    auto* raw = lookup.get();
    stub_->async()->Lookup(
        &raw->context, &raw->request, &raw->response,
        [lookup = std::move(lookup), done = std::move(done)](const grpc::Status& status) {
          done(status.ok() && lookup->response.has_completed() ? 1 : 0);
        });
  }

  void BatchCycle(uint64_t number, Done done) {
    auto begin = NewCall<BatchBeginState>();
    const auto items = static_cast<uint64_t>(work_.batch);
    for (uint64_t i = 0; i < items; ++i)
      FillBegin(events_.Id(number * items + i), *begin->request.add_requests());
    auto* raw = begin.get();
    stub_->async()->BatchBegin(
        &raw->context, &raw->request, &raw->response,
        [this, begin = std::move(begin), done = std::move(done)](const grpc::Status& status) {
          if (!status.ok()) return done(0);
          BatchComplete(*begin, done);
        });
  }

  void BatchComplete(const BatchBeginState& begun, Done done) {
    auto complete = NewCall<BatchCompleteState>();
    for (int i = 0; i < begun.request.requests_size(); ++i) {
      if (i < begun.response.results_size() && !begun.response.results(i).response().has_granted())
        continue;
      const v1::BeginResponse empty;
      FillComplete(begun.request.requests(i),
                   i < begun.response.results_size() ? begun.response.results(i).response() : empty,
                   *complete->request.add_requests());
    }
    auto* raw = complete.get();
    stub_->async()->BatchComplete(
        &raw->context, &raw->request, &raw->response,
        [complete = std::move(complete), done = std::move(done)](const grpc::Status& status) {
          int settled = 0;
          for (const auto& result : complete->response.results())
            settled += result.response().has_completed();
          done(status.ok() ? settled : 0);
        });
  }

  Stub* const stub_;
  const std::string authorization_;
  const OnceWork work_;
  const Events& events_;
  const Events known_;
};

class Once final : public Contender {
 public:
  Once(const OnceTarget& target, const OnceWork& work, const Events& events)
      : target_(target), work_(work), events_(events) {
    std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
    if (!target.ca_file.empty()) {
      std::stringstream ca;
      ca << std::ifstream(target.ca_file).rdbuf();
      grpc::SslCredentialsOptions options;
      options.pem_root_certs = ca.str();
      credentials = grpc::SslCredentials(options);
    }
    for (int i = 0; i < target.channels; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt("once.bench.channel",
                       i);  // channels with equal arguments would share a connection
      stubs_.push_back(v1::IdempotencyService::NewStub(
          grpc::CreateCustomChannel(target.address, credentials, arguments)));
    }
  }
  bool blocking() const override { return false; }
  std::unique_ptr<Caller> NewCaller(int index) override {
    const std::string authorization =
        target_.token.empty() ? "" : absl::StrCat("Bearer ", target_.token);
    return std::make_unique<OnceCaller>(stubs_[static_cast<size_t>(index) % stubs_.size()].get(),
                                        authorization, work_, events_);
  }

 private:
  const OnceTarget target_;
  const OnceWork work_;
  const Events& events_;
  std::vector<std::unique_ptr<Stub>> stubs_;
};

}  // namespace

std::unique_ptr<Contender> NewOnce(const OnceTarget& target, const OnceWork& work,
                                   const Events& events) {
  return std::make_unique<Once>(target, work, events);
}

}  // namespace once::bench
