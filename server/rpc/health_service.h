// The standard health service, grpc.health.v1.Health: Check and Watch, without authentication.
//
// gRPC's own one reports SERVING from the moment the port is open, and its open watches hold up a
// shutdown until the deadline; this one starts with NOT_SERVING and can end its watches.
// Thread-safe; nothing blocks.
#ifndef ONCE_RPC_HEALTH_SERVICE_H_
#define ONCE_RPC_HEALTH_SERVICE_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "rpc/event_loop.h"

namespace once::rpc {

class HealthCheck;
class HealthWatch;

class HealthService final : public grpc::Service {
 public:
  // `services` are the full names that can be asked for, besides "" for the whole server.
  explicit HealthService(std::vector<std::string> services);
  // After the gRPC server that served it.
  ~HealthService() override;

  // Once the server has started: takes calls from now on.
  void Listen(EventLoop* loop);

  void SetServing(bool serving);
  // NOT_SERVING for good, and watches end.
  void Stop();

 private:
  friend class HealthCheck;
  friend class HealthWatch;

  // What a Check says: the response, or NOT_FOUND.
  grpc::Status Answer(const grpc::ByteBuffer& request, grpc::ByteBuffer* response);
  void Add(HealthWatch* watch);
  void Remove(HealthWatch* watch);
  bool Knows(const std::string& service) const;

  const std::vector<std::string> services_;

  absl::Mutex mutex_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<HealthWatch*> watches_ ABSL_GUARDED_BY(mutex_);  // each deletes itself
};

}  // namespace once::rpc

#endif  // ONCE_RPC_HEALTH_SERVICE_H_
