#include "rpc/transport_log.h"

#include <grpc/support/log.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace once::rpc {
namespace {

// The one global: gRPC's hook is a function without an argument of ours.
struct Route {
  absl::Mutex mutex;
  const TransportLog* owner ABSL_GUARDED_BY(mutex) = nullptr;
  std::function<void(absl::string_view)> sink ABSL_GUARDED_BY(mutex);
};

Route& TheRoute() {
  static Route* const route = new Route();  // gRPC's threads may log until the very end
  return *route;
}

void Log(gpr_log_func_args* args) {
  Route& route = TheRoute();
  absl::MutexLock lock(&route.mutex);
  if (route.sink) {
    route.sink(args->message);
  }
}

}  // namespace

TransportLog::TransportLog(std::function<void(absl::string_view)> sink) {
  if (!sink) {
    return;
  }
  Route& route = TheRoute();
  {
    absl::MutexLock lock(&route.mutex);
    route.owner = this;
    route.sink = std::move(sink);
  }
  gpr_set_log_function(Log);
}

TransportLog::~TransportLog() {
  Route& route = TheRoute();
  absl::MutexLock lock(&route.mutex);
  if (route.owner == this) {
    route.owner = nullptr;
    route.sink = nullptr;
    gpr_set_log_function(nullptr);
  }
}

}  // namespace once::rpc
