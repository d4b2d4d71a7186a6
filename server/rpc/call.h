// One call of one of our services, from its arrival to its one answer.
//
// `Call` is the right and the duty to answer: it moves from thread to thread with the work, and
// whoever drops it unanswered answers INTERNAL. Not thread-safe; used by one thread at a time.
// Nothing here blocks.
#ifndef ONCE_RPC_CALL_H_
#define ONCE_RPC_CALL_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "auth/credential.h"
#include "base/clock.h"
#include "pipeline/pipeline.h"
#include "rpc/call_observer.h"
#include "rpc/open_calls.h"

namespace once::rpc {

// gRPC's side of a call: lives until gRPC says that the call is over, some time after the answer.
class CallReactor final : public grpc::ServerUnaryReactor {
 public:
  // `context` and `response` belong to gRPC and live until the answer; `observer`, `open` (the
  // count that this call has entered and leaves at its end; both may be null) and `clock` outlive
  // the call.
  CallReactor(absl::string_view method, grpc::CallbackServerContext* context,
              grpc::ByteBuffer* response, CallObserver* observer, OpenCalls* open,
              const base::Clock* clock);

  void OnCancel() override;
  void OnDone() override;

 private:
  friend class Call;

  // gRPC runs the two above on its own thread instead of handing each to an executor's: they do not
  // block.
  bool InternalInlineable() override { return true; }

  void Finish(absl::string_view outcome, const absl::Status& error, const grpc::Status& status);

  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  CallObserver* const observer_;
  OpenCalls* const open_;
  const base::Clock* const clock_;
  const absl::Time arrived_;
  const absl::Time deadline_;
  const std::shared_ptr<pipeline::Cancellation> cancellation_;
  std::shared_ptr<const auth::Principal> principal_;
  CallRecord record_;
};

class Call {
 public:
  explicit Call(CallReactor* reactor) : reactor_(reactor) {}
  Call(Call&& other) noexcept : reactor_(other.reactor_) { other.reactor_ = nullptr; }
  Call& operator=(Call&&) = delete;
  ~Call();

  // Exactly one of these, once. `outcome` has static storage.
  void Answer(const google::protobuf::MessageLite& response, absl::string_view outcome) &&;
  void Fail(const absl::Status& error) &&;

  void set_principal(std::shared_ptr<const auth::Principal> principal);
  // Set once the call is authenticated.
  const std::shared_ptr<const auth::Principal>& principal() const { return reactor_->principal_; }

  // InfiniteFuture where the caller set none.
  absl::Time deadline() const { return reactor_->deadline_; }
  // Set when the caller goes away, and when its deadline passes even if its cancellation does not
  // arrive (gRPC keeps a timer).
  const std::shared_ptr<pipeline::Cancellation>& cancellation() const {
    return reactor_->cancellation_;
  }
  const std::multimap<grpc::string_ref, grpc::string_ref>& metadata() const {
    return reactor_->context_->client_metadata();
  }
  // What the observer will be told; whoever knows more fills it in.
  CallRecord& record() { return reactor_->record_; }

 private:
  CallReactor* Take();

  CallReactor* reactor_;  // null after the answer
};

// Parses `body` and frees it. INVALID_FIELD where it is no such message.
absl::Status Parse(grpc::ByteBuffer* body, google::protobuf::Message* message);

}  // namespace once::rpc

#endif  // ONCE_RPC_CALL_H_
