#include "rpc/health_service.h"

// As generated code does: 1.51 has no other header for these.
#include <grpcpp/impl/codegen/server_callback_handlers.h>

#include <algorithm>
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

class CheckReactor final : public grpc::ServerUnaryReactor {
 public:
  void OnDone() override { delete this; }
};

}  // namespace

// One open Watch. Writes the latest status that was not written yet; at most one write is under
// way.
class HealthWatch final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  HealthWatch(HealthService* service, bool known) : service_(service), known_(known) {}

  void Update(bool serving) {
    absl::MutexLock lock(&mutex_);
    wanted_ = known_ ? StatusOf(serving) : ServingStatus::kServiceUnknown;
    WriteIfDue();
  }

  void End(grpc::StatusCode code) {
    absl::MutexLock lock(&mutex_);
    if (!finished_) {
      finished_ = true;
      Finish(grpc::Status(code, code == grpc::StatusCode::UNAVAILABLE
                                    ? "the server is shutting down"
                                    : "cancelled"));
    }
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      End(grpc::StatusCode::CANCELLED);
      return;
    }
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    WriteIfDue();
  }

  void OnCancel() override { End(grpc::StatusCode::CANCELLED); }

  void OnDone() override {
    service_->Remove(this);
    delete this;
  }

 private:
  void WriteIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || writing_ || wanted_ == written_) {
      return;
    }
    writing_ = true;
    written_ = wanted_;
    message_ = ToResponse(*wanted_);
    StartWrite(&message_);
  }

  HealthService* const service_;
  const bool known_;

  absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<ServingStatus> wanted_ ABSL_GUARDED_BY(mutex_);
  std::optional<ServingStatus> written_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer message_;  // of the write under way
};

HealthService::HealthService(std::vector<std::string> services) : services_(std::move(services)) {
  AddMethod(new grpc::internal::RpcServiceMethod("/grpc.health.v1.Health/Check",
                                                 grpc::internal::RpcMethod::NORMAL_RPC, nullptr));
  MarkMethodRawCallback(
      0, new grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
             [this](grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                    grpc::ByteBuffer* response) { return Check(context, request, response); }));
  AddMethod(new grpc::internal::RpcServiceMethod(
      "/grpc.health.v1.Health/Watch", grpc::internal::RpcMethod::SERVER_STREAMING, nullptr));
  MarkMethodRawCallback(
      1, new grpc::internal::CallbackServerStreamingHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
             [this](grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
               return Watch(request);
             }));
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

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext*,
                                               const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  auto* const reactor = new CheckReactor();
  const std::optional<std::string> service = ServiceIn(*request);
  if (!service.has_value() || !Knows(*service)) {
    reactor->Finish(grpc::Status(grpc::StatusCode::NOT_FOUND, "no such service"));
    return reactor;
  }
  {
    absl::MutexLock lock(&mutex_);
    *response = ToResponse(StatusOf(serving_));
  }
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* HealthService::Watch(const grpc::ByteBuffer* request) {
  const std::optional<std::string> service = ServiceIn(*request);
  auto* const watch = new HealthWatch(this, service.has_value() && Knows(*service));
  absl::MutexLock lock(&mutex_);
  watches_.insert(watch);
  watch->Update(serving_);
  if (stopped_) {
    watch->End(grpc::StatusCode::UNAVAILABLE);
  }
  return watch;
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
