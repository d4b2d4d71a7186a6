#include "rpc/health_service.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"

namespace once::rpc {
namespace {

// grpc.health.v1.HealthCheckResponse.ServingStatus
enum class ServingStatus : char { kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

constexpr char kStatusField = 0x08;       // field 1, varint
constexpr char kServiceField = 0x0A;      // field 1, length-delimited
constexpr size_t kMaxServiceBytes = 127;  // a length of one byte; longer names are unknown anyway

grpc::ByteBuffer ToResponse(ServingStatus status) {
  const char bytes[] = {kStatusField, static_cast<char>(status)};
  const grpc::Slice slice(bytes, sizeof(bytes));
  return grpc::ByteBuffer(&slice, 1);
}

// The service's name in a HealthCheckRequest; unset where it is not one that we could know. The
// message has this one field.
std::optional<std::string> ServiceIn(const grpc::ByteBuffer& request) {
  grpc::Slice slice;
  if (request.Length() == 0) {
    return std::string();
  }
  if (request.Length() > kMaxServiceBytes + 2 || !request.DumpToSingleSlice(&slice).ok()) {
    return std::nullopt;
  }
  const absl::string_view bytes(reinterpret_cast<const char*>(slice.begin()), slice.size());
  if (bytes.size() < 2 || bytes[0] != kServiceField ||
      static_cast<unsigned char>(bytes[1]) != bytes.size() - 2) {
    return std::nullopt;
  }
  return std::string(bytes.substr(2));
}

ServingStatus StatusOf(bool serving) {
  return serving ? ServingStatus::kServing : ServingStatus::kNotServing;
}

constexpr int kCheck = 0;
constexpr int kWatch = 1;

}  // namespace

// One Check, from the wait for it to its answer; deletes itself.
class HealthCheck {
 public:
  static void Await(HealthService* service, EventLoop* loop, grpc::ServerCompletionQueue* queue) {
    if (!loop->users()->Enter()) return;
    auto* const check = new HealthCheck(service, loop, queue);
    service->RequestAsyncUnary(kCheck, &check->context_, &check->request_, &check->writer_, queue,
                               queue, &check->on_came_);
  }

 private:
  HealthCheck(HealthService* service, EventLoop* loop, grpc::ServerCompletionQueue* queue)
      : service_(service), loop_(loop), queue_(queue) {}

  void OnCame(bool ok) {
    if (!ok) {
      OnAnswered(ok);
      return;
    }
    Await(service_, loop_, queue_);
    grpc::ByteBuffer response;
    const grpc::Status status = service_->Answer(request_, &response);
    if (status.ok()) {
      writer_.Finish(response, status, &on_answered_);
    } else {
      writer_.FinishWithError(status, &on_answered_);
    }
  }

  void OnAnswered(bool) {
    OpenCalls* const users = loop_->users();
    delete this;
    users->Leave();
  }

  HealthService* const service_;
  EventLoop* const loop_;
  grpc::ServerCompletionQueue* const queue_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer_{&context_};
  Event<HealthCheck> on_came_{this, &HealthCheck::OnCame};
  Event<HealthCheck> on_answered_{this, &HealthCheck::OnAnswered};
};

// One Watch, from the wait for it to its end; deletes itself. Writes the latest status that was not
// written yet; at most one operation is under way.
class HealthWatch {
 public:
  static void Await(HealthService* service, EventLoop* loop, grpc::ServerCompletionQueue* queue) {
    if (!loop->users()->Enter()) return;
    auto* const watch = new HealthWatch(service, loop, queue);
    watch->context_.AsyncNotifyWhenDone(&watch->on_over_);
    service->RequestAsyncServerStreaming(kWatch, &watch->context_, &watch->request_,
                                         &watch->writer_, queue, queue, &watch->on_came_);
  }

  void Update(bool serving) {
    absl::MutexLock lock(&mutex_);
    wanted_ = known_ ? StatusOf(serving) : ServingStatus::kServiceUnknown;
    GoOn();
  }

  void End(grpc::StatusCode code) {
    absl::MutexLock lock(&mutex_);
    if (!end_.has_value()) end_ = code;
    GoOn();
  }

 private:
  HealthWatch(HealthService* service, EventLoop* loop, grpc::ServerCompletionQueue* queue)
      : service_(service), loop_(loop), queue_(queue) {}

  void OnCame(bool ok) {
    if (!ok) {
      Delete();
      return;
    }
    Await(service_, loop_, queue_);
    const std::optional<std::string> name = ServiceIn(request_);
    known_ = name.has_value() && service_->Knows(*name);
    service_->Add(this);
  }

  void OnWritten(bool ok) {
    absl::MutexLock lock(&mutex_);
    busy_ = false;
    if (!ok && !end_.has_value()) end_ = grpc::StatusCode::CANCELLED;
    GoOn();
  }

  void OnFinished(bool) { EventCame(); }
  void OnOver(bool) {
    if (context_.IsCancelled()) End(grpc::StatusCode::CANCELLED);
    EventCame();
  }

  // The finish and the end of the call come in any order.
  void EventCame() {
    if (events_to_come_.fetch_sub(1) > 1) return;
    service_->Remove(this);
    Delete();
  }
  void Delete() {
    OpenCalls* const users = loop_->users();
    delete this;
    users->Leave();
  }

  void GoOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (busy_ || finished_) return;
    if (end_.has_value()) {
      finished_ = true;
      writer_.Finish(
          grpc::Status(*end_, *end_ == grpc::StatusCode::UNAVAILABLE ? "the server is shutting down"
                                                                     : "cancelled"),
          &on_finished_);
    } else if (wanted_ != written_) {
      busy_ = true;
      written_ = wanted_;
      writer_.Write(ToResponse(*wanted_), &on_written_);
    }
  }

  HealthService* const service_;
  EventLoop* const loop_;
  grpc::ServerCompletionQueue* const queue_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  grpc::ServerAsyncWriter<grpc::ByteBuffer> writer_{&context_};
  Event<HealthWatch> on_came_{this, &HealthWatch::OnCame};
  Event<HealthWatch> on_written_{this, &HealthWatch::OnWritten};
  Event<HealthWatch> on_finished_{this, &HealthWatch::OnFinished};
  Event<HealthWatch> on_over_{this, &HealthWatch::OnOver};
  std::atomic<int> events_to_come_{2};
  bool known_ = false;  // set before the service knows the watch

  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<grpc::StatusCode> end_ ABSL_GUARDED_BY(mutex_);
  std::optional<ServingStatus> wanted_ ABSL_GUARDED_BY(mutex_);
  std::optional<ServingStatus> written_ ABSL_GUARDED_BY(mutex_);
};

HealthService::HealthService(std::vector<std::string> services) : services_(std::move(services)) {
  AddMethod(new grpc::internal::RpcServiceMethod("/grpc.health.v1.Health/Check",
                                                 grpc::internal::RpcMethod::NORMAL_RPC, nullptr));
  MarkMethodRaw(kCheck);
  AddMethod(new grpc::internal::RpcServiceMethod(
      "/grpc.health.v1.Health/Watch", grpc::internal::RpcMethod::SERVER_STREAMING, nullptr));
  MarkMethodRaw(kWatch);
}

void HealthService::Listen(EventLoop* loop) {
  grpc::ServerCompletionQueue* const queue = loop->queues().front().get();
  HealthCheck::Await(this, loop, queue);
  HealthWatch::Await(this, loop, queue);
}

HealthService::~HealthService() {
  absl::MutexLock lock(&mutex_);
  assert(watches_.empty());
}

void HealthService::SetServing(bool serving) {
  absl::MutexLock lock(&mutex_);
  if (stopped_) {
    return;
  }
  serving_ = serving;
  for (HealthWatch* const watch : watches_) {
    watch->Update(serving);
  }
}

void HealthService::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  serving_ = false;
  for (HealthWatch* const watch : watches_) {
    watch->End(grpc::StatusCode::UNAVAILABLE);
  }
}

grpc::Status HealthService::Answer(const grpc::ByteBuffer& request, grpc::ByteBuffer* response) {
  const std::optional<std::string> service = ServiceIn(request);
  if (!service.has_value() || !Knows(*service)) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such service");
  }
  absl::MutexLock lock(&mutex_);
  *response = ToResponse(StatusOf(serving_));
  return grpc::Status::OK;
}

void HealthService::Add(HealthWatch* watch) {
  absl::MutexLock lock(&mutex_);
  watches_.insert(watch);
  watch->Update(serving_);
  if (stopped_) {
    watch->End(grpc::StatusCode::UNAVAILABLE);
  }
}

void HealthService::Remove(HealthWatch* watch) {
  absl::MutexLock lock(&mutex_);
  watches_.erase(watch);
}

bool HealthService::Knows(const std::string& service) const {
  return service.empty() ||
         std::find(services_.begin(), services_.end(), service) != services_.end();
}

}  // namespace once::rpc
