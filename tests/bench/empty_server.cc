#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "contenders.h"
#include "once/v1/idempotency_service.grpc.pb.h"

namespace once::bench {
namespace {

// Parses the request, as a server has to, and says nothing.
class EmptyService final : public v1::IdempotencyService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Begin(grpc::CallbackServerContext* context, const v1::BeginRequest*,
                                  v1::BeginResponse*) override {
    return Answer(context);
  }
  grpc::ServerUnaryReactor* Complete(grpc::CallbackServerContext* context,
                                     const v1::CompleteRequest*, v1::CompleteResponse*) override {
    return Answer(context);
  }

 private:
  static grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

int ServeEmpty(const std::string& ports_file) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  EmptyService service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  // Renamed into place, so that a reader never sees half of it.
  std::ofstream(ports_file + ".new") << "127.0.0.1:" << port << "\n";
  std::rename((ports_file + ".new").c_str(), ports_file.c_str());
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown();
  return 0;
}

}  // namespace once::bench
