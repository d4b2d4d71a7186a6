// The one path that every call of our services takes:
// metadata → bearer token → authentication → role → the method's handler.
//
// Requests stay bytes until their caller is known, so that strangers cannot make the server parse.
// Handlers are found by the service's descriptor, so that no method can be served without passing
// here.
//
// Thread-safe. Nothing here but WaitUntilAnswered blocks: a credential that has to be read is
// waited for without a thread.
#ifndef ONCE_RPC_GUARDED_SERVICE_H_
#define ONCE_RPC_GUARDED_SERVICE_H_

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "auth/authenticator.h"
#include "base/clock.h"
#include "rpc/call.h"
#include "rpc/call_observer.h"
#include "rpc/event_loop.h"
#include "rpc/open_calls.h"

namespace once::rpc {

// Answers an authenticated call; `body` is the unparsed request. Must not block.
using Handler = std::function<void(Call call, grpc::ByteBuffer body)>;
// By the method's name in the service: "Begin".
using Handlers = std::map<std::string, Handler>;

// Who may call a service.
enum class Audience : uint8_t { kTenants, kOperators, kAdmins };

class CallGuard {
 public:
  // All must outlive the guard; `observer` may be null.
  CallGuard(auth::Authenticator* authenticator, CallObserver* observer, const base::Clock* clock)
      : authenticator_(authenticator), observer_(observer), clock_(clock) {}

  // From now on calls are refused with DRAINING.
  void StartDraining() { open_calls_.Close(); }

  // After StartDraining. Blocks until the calls that came before have been answered, or `deadline`.
  void WaitUntilAnswered(absl::Time deadline) { open_calls_.WaitUntilNone(deadline); }

  // The path. `handler` and the guard outlive the call.
  void Run(Audience audience, const Handler& handler, Call call, grpc::ByteBuffer body);

  CallObserver* observer() const { return observer_; }
  const base::Clock* clock() const { return clock_; }

 private:
  auth::Authenticator* const authenticator_;
  CallObserver* const observer_;
  const base::Clock* const clock_;
  OpenCalls open_calls_;
};

// A gRPC service whose unary methods all go through a guard. Methods without a handler stay
// unimplemented.
class GuardedService final : public grpc::Service {
 public:
  // `guard` must outlive it.
  GuardedService(const google::protobuf::ServiceDescriptor* descriptor, Audience audience,
                 Handlers handlers, CallGuard* guard);

  // Once the server has started: takes calls from now on.
  void Listen(EventLoop* loop);

 private:
  struct Method {
    int index = 0;
    std::string path;  // "/once.v1.IdempotencyService/Begin"; gRPC keeps a pointer to it
    absl::string_view name;
    Handler handler;
  };
  // Takes the calls of one method from one queue.
  struct Acceptor {
    GuardedService* service;
    const Method* method;
    EventLoop* loop;
    grpc::ServerCompletionQueue* queue;
    ServedCall::Request request;
    ServedCall::Came came;

    void AwaitNext();
  };

  const Audience audience_;
  CallGuard* const guard_;
  // Neither moves its elements.
  std::deque<Method> methods_;
  std::deque<Acceptor> acceptors_;
};

}  // namespace once::rpc

#endif  // ONCE_RPC_GUARDED_SERVICE_H_
