// One call of one of our services, from its arrival to its one answer.
//
// `Call` is the right and the duty to answer: it moves from thread to thread with the work, and
// whoever drops it unanswered answers INTERNAL. Not thread-safe; used by one thread at a time.
// Nothing here blocks.
#ifndef ONCE_RPC_CALL_H_
#define ONCE_RPC_CALL_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_unary_call.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "auth/credential.h"
#include "base/clock.h"
#include "pipeline/pipeline.h"
#include "rpc/call_observer.h"
#include "rpc/event_loop.h"
#include "rpc/open_calls.h"

namespace once::rpc {

// gRPC's side of a call: begun when the server is ready to take a call of a method, deletes itself
// when gRPC says that the call is over, some time after the answer.
class ServedCall {
 public:
  // How to ask gRPC for the next call of the method.
  using Request =
      std::function<void(grpc::ServerContext* context, grpc::ByteBuffer* body,
                         grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>* writer, Tag* tag)>;
  // Told when the call has come, on a thread of the loop; `body` is the unparsed request.
  using Came = std::function<void(class Call call, grpc::ByteBuffer body)>;

  // Waits for one call. `users` is the loop's: entered here, left at the call's end; the call is
  // not begun where it is closed. `observer` (may be null), `clock` and what the functions hold
  // outlive the call.
  static void Await(absl::string_view method, const Request& request, const Came& came,
                    OpenCalls* users, CallObserver* observer, const base::Clock* clock);

  ServedCall(const ServedCall&) = delete;
  ServedCall& operator=(const ServedCall&) = delete;

 private:
  friend class Call;

  ServedCall(absl::string_view method, const Came& came, OpenCalls* users, CallObserver* observer,
             const base::Clock* clock);
  ~ServedCall();

  void OnCame(bool ok);
  void OnOver(bool ok);      // answered, or the caller went away
  void OnAnswered(bool ok);  // gRPC is done with the answer
  void Unref();

  void Finish(absl::string_view outcome, const absl::Status& error, const grpc::Status& status,
              const grpc::ByteBuffer* response);

  const Came& came_;
  OpenCalls* const users_;
  CallObserver* const observer_;
  const base::Clock* const clock_;
  grpc::ServerContext context_;
  grpc::ByteBuffer body_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> writer_{&context_};
  Event<ServedCall> on_came_{this, &ServedCall::OnCame};
  Event<ServedCall> on_over_{this, &ServedCall::OnOver};
  Event<ServedCall> on_answered_{this, &ServedCall::OnAnswered};
  std::atomic<int> events_to_come_{2};  // the two last
  OpenCalls* open_ = nullptr;           // the guard's, where this call has entered it
  absl::Time arrived_;
  absl::Time deadline_;
  const std::shared_ptr<pipeline::Cancellation> cancellation_;
  std::shared_ptr<const auth::Principal> principal_;
  CallRecord record_;
};

class Call {
 public:
  explicit Call(ServedCall* served) : served_(served) {}
  Call(Call&& other) noexcept : served_(other.served_) { other.served_ = nullptr; }
  Call& operator=(Call&&) = delete;
  ~Call();

  // Exactly one of these, once. `outcome` has static storage.
  void Answer(const google::protobuf::MessageLite& response, absl::string_view outcome) &&;
  void Fail(const absl::Status& error) &&;

  // `open` was entered for this call, which leaves it at its end.
  void set_open(OpenCalls* open) { served_->open_ = open; }
  void set_principal(std::shared_ptr<const auth::Principal> principal);
  // Set once the call is authenticated.
  const std::shared_ptr<const auth::Principal>& principal() const { return served_->principal_; }

  // InfiniteFuture where the caller set none.
  absl::Time deadline() const { return served_->deadline_; }
  // Set when the caller goes away, and when its deadline passes even if its cancellation does not
  // arrive (gRPC keeps a timer).
  const std::shared_ptr<pipeline::Cancellation>& cancellation() const {
    return served_->cancellation_;
  }
  const std::multimap<grpc::string_ref, grpc::string_ref>& metadata() const {
    return served_->context_.client_metadata();
  }
  // What the observer will be told; whoever knows more fills it in.
  CallRecord& record() { return served_->record_; }

 private:
  ServedCall* Take();

  ServedCall* served_;  // null after the answer
};

// Parses `body` and frees it. INVALID_FIELD where it is no such message.
absl::Status Parse(grpc::ByteBuffer* body, google::protobuf::Message* message);

}  // namespace once::rpc

#endif  // ONCE_RPC_CALL_H_
