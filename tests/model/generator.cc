#include "generator.h"

#include <grpcpp/grpcpp.h>
#include <openssl/sha.h>

#include <array>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "once/v1/admin_service.grpc.pb.h"
#include "once/v1/idempotency_service.grpc.pb.h"
#include "once/v1/operator_service.grpc.pb.h"

namespace once::model {
namespace {

constexpr char kHandler[] = "model.check";

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t ToNs(const google::protobuf::Duration& d) {
  return d.seconds() * 1'000'000'000 + d.nanos();
}

std::string Digest(const std::string& content) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(content.data()), content.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

ReceiptSeen Seen(const v1::Receipt& receipt) {
  return {.result = receipt.result(),
          .status = receipt.status(),
          .fence = receipt.fence(),
          .complete_time_us = receipt.complete_time().seconds() * 1'000'000 +
                              receipt.complete_time().nanos() / 1000};
}

void Read(const v1::Completed& completed, Event& event) {
  event.outcome = Outcome::kCompleted;
  event.receipt = Seen(completed.receipt());
  event.replayed = completed.replayed();
}

void Read(const v1::BeginResponse& answer, Event& event) {
  switch (answer.outcome_case()) {
    case v1::BeginResponse::kGranted:
      event.outcome = Outcome::kGranted;
      event.granted_fence = answer.granted().claim().fence();
      event.attempt_number = answer.granted().attempt_number();
      event.lease_remaining_ns = ToNs(answer.granted().claim().lease_remaining());
      event.earlier_attempt = answer.granted().earlier_attempt().attempt_id();
      event.earlier_fence = answer.granted().earlier_attempt().fence();
      event.recovery = answer.granted().recovery();
      return;
    case v1::BeginResponse::kCompleted:
      return Read(answer.completed(), event);
    case v1::BeginResponse::kInProgress:
      event.outcome = Outcome::kInProgress;
      event.first_digest = answer.in_progress().first_digest().sha256();
      return;
    case v1::BeginResponse::kConflict:
      event.outcome = Outcome::kConflict;
      event.first_digest = answer.conflict().first_digest().sha256();
      return;
    case v1::BeginResponse::kInDoubt:
      event.outcome = Outcome::kInDoubt;
      if (answer.in_doubt().earlier_attempts_size() > 0) {
        event.earlier_attempt = answer.in_doubt().earlier_attempts(0).attempt_id();
        event.earlier_fence = answer.in_doubt().earlier_attempts(0).fence();
      }
      return;
    case v1::BeginResponse::kStale:
    case v1::BeginResponse::kExpired:
    case v1::BeginResponse::OUTCOME_NOT_SET:
      break;
  }
  event.outcome = Outcome::kUnexpected;
  event.error = answer.ShortDebugString();
}

void Read(const v1::CompleteResponse& answer, Event& event) {
  switch (answer.outcome_case()) {
    case v1::CompleteResponse::kCompleted:
      return Read(answer.completed(), event);
    case v1::CompleteResponse::kClaimLost:
      event.outcome = Outcome::kClaimLost;
      return;
    case v1::CompleteResponse::kConflict:
      event.outcome = Outcome::kCompletionConflict;
      event.receipt = Seen(answer.conflict().receipt());
      return;
    case v1::CompleteResponse::OUTCOME_NOT_SET:
      break;
  }
  event.outcome = Outcome::kUnexpected;
}

void Read(const v1::AbandonResponse& answer, Event& event) {
  event.outcome = answer.has_abandoned()    ? Outcome::kAbandoned
                  : answer.has_claim_lost() ? Outcome::kClaimLost
                                            : Outcome::kUnexpected;
}

void Read(const v1::ResolveResponse& answer, Event& event) {
  switch (answer.outcome_case()) {
    case v1::ResolveResponse::kCompleted:
      return Read(answer.completed(), event);
    case v1::ResolveResponse::kReleased:
      event.outcome = Outcome::kFoundNotDone;
      return;
    case v1::ResolveResponse::kInProgress:
      event.outcome = Outcome::kInProgress;
      return;
    case v1::ResolveResponse::kClaimLost:
      event.outcome = Outcome::kClaimLost;
      return;
    case v1::ResolveResponse::kConflict:
      event.outcome = Outcome::kCompletionConflict;
      event.receipt = Seen(answer.conflict().receipt());
      return;
    case v1::ResolveResponse::OUTCOME_NOT_SET:
      break;
  }
  event.outcome = Outcome::kUnexpected;
}

void Read(const v1::RenewResponse& answer, Event& event) {
  if (answer.has_claim()) {
    event.outcome = Outcome::kRenewed;
    event.lease_remaining_ns = ToNs(answer.claim().lease_remaining());
  } else {
    event.outcome = answer.has_claim_lost() ? Outcome::kClaimLost : Outcome::kUnexpected;
  }
}

void Read(const v1::LookupResponse& answer, Event& event) {
  switch (answer.outcome_case()) {
    case v1::LookupResponse::kCompleted:
      return Read(answer.completed(), event);
    case v1::LookupResponse::kInProgress:
      event.outcome = Outcome::kInProgress;
      return;
    case v1::LookupResponse::kUnclaimed:
      event.outcome = Outcome::kUnclaimed;
      return;
    case v1::LookupResponse::kConflict:
      event.outcome = Outcome::kConflict;
      return;
    case v1::LookupResponse::kInDoubt:
      event.outcome = Outcome::kInDoubt;
      return;
    case v1::LookupResponse::kExpired:
    case v1::LookupResponse::OUTCOME_NOT_SET:
      break;
  }
  event.outcome = Outcome::kUnexpected;
  event.error = answer.ShortDebugString();
}

// What a status says. NOT_FOUND is an answer; what a caller is told to repeat is a "maybe"; all
// else is not allowed here.
void ReadStatus(const grpc::Status& status, Event& event) {
  event.error = absl::StrCat(static_cast<int>(status.error_code()), " ", status.error_message());
  switch (status.error_code()) {
    case grpc::StatusCode::NOT_FOUND:
      event.outcome = Outcome::kNotFound;
      return;
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
      event.outcome = Outcome::kError;
      return;
    default:
      event.outcome = Outcome::kUnexpected;
      return;
  }
}

struct Target {
  std::string id;
  bool forgettable = false;
};

// The operations of a moment: operation number n is worked on during its turn, by everybody at
// once.
class Operations {
 public:
  Operations(int hot, int64_t begin_ns, uint64_t seed)
      : hot_(hot), begin_ns_(begin_ns), seed_(seed) {}

  Target Pick(std::mt19937_64& random) const {
    // 100 new operations a second, so that each is hot for hot/100 seconds: several leases long.
    const int64_t turn = (NowNs() - begin_ns_) / 10'000'000;
    const int64_t number = turn + static_cast<int64_t>(random() % static_cast<uint64_t>(hot_));
    return {.id = absl::StrCat("s", seed_, "-", number), .forgettable = number % 4 == 0};
  }

 private:
  const int hot_;
  const int64_t begin_ns_;
  const uint64_t seed_;
};

class Consumer {
 public:
  Consumer(const GeneratorOptions& options, int number,
           const std::vector<std::shared_ptr<grpc::Channel>>& channels,
           const Operations& operations)
      : options_(options),
        operations_(operations),
        random_(options.seed * 1'000'003 + static_cast<uint64_t>(number)),
        name_(absl::StrCat("consumer-", number)) {
    for (const auto& channel : channels) {
      stubs_.push_back(v1::IdempotencyService::NewStub(channel));
      operator_stubs_.push_back(v1::OperatorService::NewStub(channel));
    }
  }

  void Run(int64_t until_ns) {
    while (NowNs() < until_ns) {
      if (Chance(8)) {
        Batch();
      } else {
        Handle(operations_.Pick(random_));
      }
    }
  }

  std::vector<std::pair<Target, Event>> TakeEvents() { return std::move(events_); }

 private:
  bool Chance(int percent) { return static_cast<int>(random_() % 100) < percent; }

  std::string NewAttempt() {
    std::string attempt(16, '\0');
    for (char& c : attempt) c = static_cast<char>(random_());
    return attempt;
  }

  int64_t LeaseMs() { return Chance(80) ? 100 + static_cast<int64_t>(random_() % 200) : 5'000; }

  std::string Content(const Target& target) {
    return Chance(90) ? absl::StrCat("content of ", target.id)
                      : absl::StrCat("tampered ", target.id);
  }

  static void SetLease(google::protobuf::Duration* lease, int64_t ms) {
    lease->set_seconds(ms / 1000);
    lease->set_nanos(static_cast<int32_t>(ms % 1000) * 1'000'000);
  }

  v1::BeginRequest MakeBegin(const Target& target, const std::string& attempt) {
    v1::BeginRequest request;
    request.set_handler(kHandler);
    request.set_event_id(target.id);
    request.mutable_content()->set_data(Content(target));
    request.set_attempt_id(attempt);
    request.set_consumer(name_);
    SetLease(request.mutable_lease(), LeaseMs());
    request.set_can_probe(Chance(50));
    return request;
  }

  template <typename Request, typename Response>
  Event CallOnce(Call call, const Target& target, const Request& request,
                 const std::string& attempt,
                 grpc::Status (v1::IdempotencyService::Stub::*method)(grpc::ClientContext*,
                                                                      const Request&, Response*)) {
    Event event;
    event.call = call;
    event.attempt = attempt;
    event.server = static_cast<int>(random_() % stubs_.size());
    grpc::ClientContext context;
    context.AddMetadata("authorization", absl::StrCat("Bearer ", options_.token));
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    Response response;
    event.start_ns = NowNs();
    const grpc::Status status =
        (stubs_[static_cast<size_t>(event.server)].get()->*method)(&context, request, &response);
    event.end_ns = NowNs();
    if (status.ok()) {
      Read(response, event);
    } else {
      ReadStatus(status, event);
    }
    (void)target;
    return event;
  }

  Event Begin(const Target& target, const v1::BeginRequest& request) {
    Event event = CallOnce(Call::kBegin, target, request, request.attempt_id(),
                           &v1::IdempotencyService::Stub::Begin);
    event.digest = Digest(request.content().data());
    event.can_probe = request.can_probe();
    events_.emplace_back(target, event);
    return event;
  }

  // A reply that was lost: the caller sends the same again, here or to the other server.
  Event BeginWithLostReplies(const Target& target, const v1::BeginRequest& request) {
    Event event = Begin(target, request);
    while (Chance(15) || event.outcome == Outcome::kError) {
      event = Begin(target, request);
    }
    return event;
  }

  void Handle(const Target& target) {
    const std::string attempt = NewAttempt();
    v1::BeginRequest request = MakeBegin(target, attempt);
    if (Chance(20)) SetLease(request.mutable_wait(), static_cast<int64_t>(random_() % 300));
    const Event begun = BeginWithLostReplies(target, request);
    if (begun.outcome == Outcome::kGranted) {
      // An operator who is wrong about what is live.
      if (Chance(5)) Resolve(target, attempt, begun.granted_fence);
      // And one who is right about what came before, but too late.
      if (!begun.earlier_attempt.empty() && Chance(20)) {
        Resolve(target, begun.earlier_attempt, begun.earlier_fence);
      }
      Execute(target, attempt, begun);
    } else if (begun.outcome == Outcome::kInDoubt && Chance(40)) {
      Resolve(target, begun.earlier_attempt, begun.earlier_fence);
    } else if (Chance(30)) {
      Lookup(target);
    }
  }

  void Execute(const Target& target, const std::string& attempt, const Event& grant) {
    const int choice = static_cast<int>(random_() % 100);
    if (choice < 15) return;  // killed
    Work(random_() % 15);
    if (choice < 30) {  // slow: outlives its lease
      Work(static_cast<uint64_t>(grant.lease_remaining_ns / 1'000'000) % 400 + random_() % 60);
    } else if (choice < 45) {
      Renew(target, attempt, grant.granted_fence);
      Work(random_() % 150);
    } else if (choice < 60) {
      Abandon(target, attempt, grant.granted_fence);
      return;
    }
    if (Chance(60)) return Complete(target, attempt, grant.granted_fence);
    Abandon(target, attempt, grant.granted_fence);
  }

  static void Work(uint64_t ms) { absl::SleepFor(absl::Milliseconds(static_cast<int64_t>(ms))); }

  void Complete(const Target& target, const std::string& attempt, int64_t fence) {
    v1::CompleteRequest request;
    request.set_handler(kHandler);
    request.set_event_id(target.id);
    request.set_attempt_id(attempt);
    request.set_fence(fence);
    request.set_status(Chance(80) ? v1::RECEIPT_STATUS_SUCCEEDED : v1::RECEIPT_STATUS_REJECTED);
    // Balances move: every try would give other bytes. Some are too large for the operation's row.
    request.set_result(
        absl::StrCat("balance ", random_(), std::string(Chance(20) ? 3000 : 10, 'x')));
    Event event;
    do {
      event = CallOnce(Call::kComplete, target, request, attempt,
                       &v1::IdempotencyService::Stub::Complete);
      event.fence = fence;
      event.result = request.result();
      events_.emplace_back(target, event);
    } while (Chance(15) || event.outcome == Outcome::kError);
    if (Chance(10)) {  // the same attempt says something else
      request.set_result("another result");
      event = CallOnce(Call::kComplete, target, request, attempt,
                       &v1::IdempotencyService::Stub::Complete);
      event.fence = fence;
      event.result = request.result();
      events_.emplace_back(target, event);
    }
  }

  void Abandon(const Target& target, const std::string& attempt, int64_t fence) {
    v1::AbandonRequest request;
    request.set_handler(kHandler);
    request.set_event_id(target.id);
    request.set_attempt_id(attempt);
    request.set_fence(fence);
    const bool forget = target.forgettable && Chance(50);
    request.set_mode(forget ? v1::AbandonRequest::MODE_FORGET : v1::AbandonRequest::MODE_RELEASE);
    if (!forget && Chance(30))
      SetLease(request.mutable_retry_delay(), static_cast<int64_t>(random_() % 50));
    Event event =
        CallOnce(Call::kAbandon, target, request, attempt, &v1::IdempotencyService::Stub::Abandon);
    event.fence = fence;
    event.forget = forget;
    events_.emplace_back(target, event);
  }

  void Resolve(const Target& target, const std::string& attempt, int64_t fence) {
    if (options_.operator_token.empty()) return;
    v1::ResolveRequest request;
    request.set_handler(kHandler);
    request.set_event_id(target.id);
    request.set_attempt_id(attempt);
    request.set_fence(fence);
    request.set_evidence("the model");
    const bool done = Chance(30);
    request.set_verdict(done ? v1::ResolveRequest::VERDICT_DONE
                             : v1::ResolveRequest::VERDICT_NOT_DONE);
    if (done) request.set_result(absl::StrCat("found ", random_()));
    Event event;
    do {
      event = Event();
      event.call = Call::kResolve;
      event.attempt = attempt;
      event.fence = fence;
      event.result = request.result();
      event.server = static_cast<int>(random_() % operator_stubs_.size());
      grpc::ClientContext context;
      context.AddMetadata("authorization", absl::StrCat("Bearer ", options_.operator_token));
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
      v1::ResolveResponse response;
      event.start_ns = NowNs();
      const grpc::Status status =
          operator_stubs_[static_cast<size_t>(event.server)]->Resolve(&context, request, &response);
      event.end_ns = NowNs();
      if (status.ok()) {
        Read(response, event);
      } else {
        ReadStatus(status, event);
      }
      events_.emplace_back(target, event);
    } while (Chance(15) || event.outcome == Outcome::kError);
  }

  void Renew(const Target& target, const std::string& attempt, int64_t fence) {
    v1::RenewRequest request;
    request.set_handler(kHandler);
    request.set_event_id(target.id);
    request.set_attempt_id(attempt);
    request.set_fence(fence);
    SetLease(request.mutable_lease(), LeaseMs());
    Event event =
        CallOnce(Call::kRenew, target, request, attempt, &v1::IdempotencyService::Stub::Renew);
    event.fence = fence;
    events_.emplace_back(target, event);
  }

  void Lookup(const Target& target) {
    v1::LookupRequest request;
    request.set_handler(kHandler);
    request.set_event_id(target.id);
    if (Chance(30)) SetLease(request.mutable_wait(), static_cast<int64_t>(random_() % 200));
    events_.emplace_back(target, CallOnce(Call::kLookup, target, request, "",
                                          &v1::IdempotencyService::Stub::Lookup));
  }

  // Many operations in one call, also the same one twice; then completes what was granted in
  // another batch.
  void Batch() {
    std::vector<Target> targets;
    v1::BatchBeginRequest request;
    const uint64_t size = 2 + random_() % 15;
    for (uint64_t i = 0; i < size; ++i) {
      targets.push_back(operations_.Pick(random_));
      *request.add_requests() = MakeBegin(targets.back(), NewAttempt());
    }
    const std::vector<Event> begun = BatchCall<v1::BatchBeginResponse>(
        Call::kBegin, targets, request, &v1::IdempotencyService::Stub::BatchBegin);
    v1::BatchCompleteRequest completes;
    std::vector<Target> granted;
    for (size_t i = 0; i < begun.size(); ++i) {
      if (begun[i].outcome != Outcome::kGranted || Chance(20)) continue;
      v1::CompleteRequest& item = *completes.add_requests();
      item.set_handler(kHandler);
      item.set_event_id(targets[i].id);
      item.set_attempt_id(begun[i].attempt);
      item.set_fence(begun[i].granted_fence);
      item.set_status(v1::RECEIPT_STATUS_SUCCEEDED);
      item.set_result(absl::StrCat("batch ", random_()));
      granted.push_back(targets[i]);
    }
    if (!granted.empty()) {
      BatchCall<v1::BatchCompleteResponse>(Call::kComplete, granted, completes,
                                           &v1::IdempotencyService::Stub::BatchComplete);
    }
  }

  static void ReadRequest(const v1::BeginRequest& request, Event& event) {
    event.attempt = request.attempt_id();
    event.digest = Digest(request.content().data());
    event.can_probe = request.can_probe();
  }
  static void ReadRequest(const v1::CompleteRequest& request, Event& event) {
    event.attempt = request.attempt_id();
    event.fence = request.fence();
    event.result = request.result();
  }

  template <typename Response, typename Request>
  std::vector<Event> BatchCall(Call call, const std::vector<Target>& targets,
                               const Request& request,
                               grpc::Status (v1::IdempotencyService::Stub::*method)(
                                   grpc::ClientContext*, const Request&, Response*)) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", absl::StrCat("Bearer ", options_.token));
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    Event shared;
    shared.call = call;
    shared.server = static_cast<int>(random_() % stubs_.size());
    Response response;
    shared.start_ns = NowNs();
    const grpc::Status status =
        (stubs_[static_cast<size_t>(shared.server)].get()->*method)(&context, request, &response);
    shared.end_ns = NowNs();
    std::vector<Event> events;
    for (int i = 0; i < request.requests_size(); ++i) {
      Event event = shared;
      ReadRequest(request.requests(i), event);
      if (!status.ok()) {
        ReadStatus(status, event);
      } else if (i >= response.results_size()) {
        event.outcome = Outcome::kUnexpected;
        event.error = "an item without an answer";
      } else if (response.results(i).has_response()) {
        Read(response.results(i).response(), event);
      } else {
        const auto& error = response.results(i).error();
        ReadStatus(grpc::Status(static_cast<grpc::StatusCode>(error.code()), error.message()),
                   event);
      }
      events.push_back(event);
      events_.emplace_back(targets[static_cast<size_t>(i)], event);
    }
    return events;
  }

  const GeneratorOptions& options_;
  const Operations& operations_;
  std::mt19937_64 random_;
  const std::string name_;
  std::vector<std::unique_ptr<v1::IdempotencyService::Stub>> stubs_;
  std::vector<std::unique_ptr<v1::OperatorService::Stub>> operator_stubs_;
  std::vector<std::pair<Target, Event>> events_;
};

// Changes what an expired lease means, again and again.
class PolicyChanger {
 public:
  PolicyChanger(const GeneratorOptions& options, const std::shared_ptr<grpc::Channel>& channel)
      : options_(options), stub_(v1::AdminService::NewStub(channel)) {}

  std::vector<PolicyPhase> Run(int64_t begin_ns, int64_t until_ns) {
    // Longer than any server takes to see a change, so that each rules alone for a while.
    constexpr absl::Duration kPhase = absl::Seconds(2);
    constexpr int64_t kSeenWithinNs = 1'000'000'000;
    std::vector<PolicyPhase> phases = {
        {.from_ns = begin_ns, .everywhere_ns = begin_ns, .on_lapse = OnLapse::kRetry}};
    for (int32_t version = 0; NowNs() < until_ns; ++version) {
      const OnLapse next = kTurns[static_cast<size_t>(version) % kTurns.size()];
      PolicyPhase phase{.from_ns = NowNs(), .everywhere_ns = 0, .on_lapse = next};
      Apply(version, next);
      phase.everywhere_ns = NowNs() + kSeenWithinNs;
      phases.push_back(phase);
      absl::SleepFor(kPhase);
    }
    return phases;
  }

 private:
  static constexpr std::array kTurns = {OnLapse::kProbe, OnLapse::kRetry, OnLapse::kInDoubt};

  static v1::ExpiredLease ToWire(OnLapse on_lapse) {
    switch (on_lapse) {
      case OnLapse::kRetry:
        return v1::EXPIRED_LEASE_RETRY;
      case OnLapse::kInDoubt:
        return v1::EXPIRED_LEASE_IN_DOUBT;
      case OnLapse::kProbe:
        return v1::EXPIRED_LEASE_PROBE;
    }
    return v1::EXPIRED_LEASE_UNSPECIFIED;
  }

  void Apply(int32_t expected_version, OnLapse on_lapse) {
    v1::ApplyHandlerPoliciesRequest request;
    request.set_tenant(options_.tenant);
    request.set_expected_version(expected_version);
    request.set_reason("the model");
    v1::HandlerPolicy& policy = *request.mutable_policy_set()->add_policies();
    policy.set_handler("model.*");
    policy.set_expired_lease(ToWire(on_lapse));
    // A change that is never made would leave nothing to check.
    for (bool made = false; !made;) {
      grpc::ClientContext context;
      context.AddMetadata("authorization", absl::StrCat("Bearer ", options_.admin_token));
      v1::ApplyHandlerPoliciesResponse response;
      made = stub_->ApplyHandlerPolicies(&context, request, &response).ok();
    }
  }

  const GeneratorOptions& options_;
  const std::unique_ptr<v1::AdminService::Stub> stub_;
};

}  // namespace

History Generate(const GeneratorOptions& options) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (const std::string& server : options.servers) {
    channels.push_back(grpc::CreateChannel(server, grpc::InsecureChannelCredentials()));
  }
  const int64_t begin_ns = NowNs();
  const Operations operations(options.hot_operations, begin_ns, options.seed);
  std::vector<std::unique_ptr<Consumer>> consumers;
  std::vector<std::thread> threads;
  for (int i = 0; i < options.consumers; ++i) {
    consumers.push_back(std::make_unique<Consumer>(options, i, channels, operations));
    threads.emplace_back(
        [consumer = consumers.back().get(),
         until = begin_ns + absl::ToInt64Nanoseconds(options.duration)] { consumer->Run(until); });
  }
  History history;
  if (!options.admin_token.empty()) {
    history.phases = PolicyChanger(options, channels.front())
                         .Run(begin_ns, begin_ns + absl::ToInt64Nanoseconds(options.duration));
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& consumer : consumers) {
    for (auto& [target, event] : consumer->TakeEvents()) {
      Operation& operation = history.operations[target.id];
      operation.forgettable = target.forgettable;
      operation.events.push_back(std::move(event));
    }
  }
  return history;
}

}  // namespace once::model
