#include "rpc/guarded_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "rpc/call_metadata.h"

namespace once::rpc {
namespace {

// Calls of one method that may come at once before the loop has to turn.
constexpr int kAwaitedCalls = 16;

absl::string_view RoleName(store::Role role) {
  switch (role) {
    case store::Role::kConsumer:
      return "consumer";
    case store::Role::kOperator:
      return "operator";
    case store::Role::kAdmin:
      return "admin";
  }
  return "unknown";
}

struct Rights {
  absl::string_view service;
  bool consumer = false;
  bool operators = false;
  bool admin = false;
};
Rights RightsOf(Audience audience) {
  switch (audience) {
    case Audience::kTenants:
      return {.service = "IdempotencyService", .consumer = true, .operators = true};
    case Audience::kOperators:
      return {.service = "OperatorService", .operators = true};
    case Audience::kAdmins:
      return {.service = "AdminService", .admin = true};
  }
  return {};
}

absl::Status CheckRole(store::Role role, Audience audience) {
  const Rights rights = RightsOf(audience);
  if ((role == store::Role::kConsumer && rights.consumer) ||
      (role == store::Role::kOperator && rights.operators) ||
      (role == store::Role::kAdmin && rights.admin)) {
    return absl::OkStatus();
  }
  return base::MakeError(
      base::ErrorReason::kPermissionDenied,
      absl::StrCat("a credential of role ", RoleName(role), " cannot call ", rights.service),
      {{"role", std::string(RoleName(role))}});
}

void RunAuthenticated(Call call, grpc::ByteBuffer body, Audience audience, const Handler& handler,
                      absl::StatusOr<std::shared_ptr<const auth::Principal>> principal) {
  if (!principal.ok()) {
    std::move(call).Fail(principal.status());
    return;
  }
  const absl::Status allowed = CheckRole((*principal)->role, audience);
  call.set_principal(*std::move(principal));
  if (!allowed.ok()) {
    std::move(call).Fail(allowed);
    return;
  }
  handler(std::move(call), std::move(body));
}

}  // namespace

void CallGuard::Run(Audience audience, const Handler& handler, Call call, grpc::ByteBuffer body) {
  if (!open_calls_.Enter()) {
    std::move(call).Fail(
        base::MakeError(base::ErrorReason::kDraining, "the server is shutting down"));
    return;
  }
  call.set_open(&open_calls_);
  const std::optional<absl::string_view> token = BearerToken(call.metadata());
  if (!token.has_value()) {
    std::move(call).Fail(base::MakeError(
        base::ErrorReason::kUnauthenticated,
        "the call needs exactly one metadata value \"authorization: Bearer once_…\""));
    return;
  }
  authenticator_->Authenticate(
      *token, [call = std::move(call), body = std::move(body), audience,
               &handler](absl::StatusOr<std::shared_ptr<const auth::Principal>> principal) mutable {
        RunAuthenticated(std::move(call), std::move(body), audience, handler, std::move(principal));
      });
}

GuardedService::GuardedService(const google::protobuf::ServiceDescriptor* descriptor,
                               Audience audience, Handlers handlers, CallGuard* guard)
    : audience_(audience), guard_(guard) {
  for (int i = 0; i < descriptor->method_count(); ++i) {
    const auto handler = handlers.find(descriptor->method(i)->name());
    if (handler == handlers.end()) {
      continue;
    }
    const int index = static_cast<int>(methods_.size());
    methods_.push_back(Method{
        .index = index,
        .path = absl::StrCat("/", descriptor->full_name(), "/", descriptor->method(i)->name()),
        .name = descriptor->method(i)->name(),
        .handler = std::move(handler->second)});
    AddMethod(new grpc::internal::RpcServiceMethod(methods_.back().path.c_str(),
                                                   grpc::internal::RpcMethod::NORMAL_RPC, nullptr));
    MarkMethodRaw(index);
  }
}

void GuardedService::Listen(EventLoop* loop) {
  for (const Method& method : methods_) {
    for (const auto& queue : loop->queues()) {
      Acceptor& acceptor = acceptors_.emplace_back(
          Acceptor{this, &method, loop, queue.get(), /*request=*/nullptr, /*came=*/nullptr});
      acceptor.request = [&acceptor](grpc::ServerContext* context, grpc::ByteBuffer* body,
                                     grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>* writer,
                                     Tag* tag) {
        acceptor.service->RequestAsyncUnary(acceptor.method->index, context, body, writer,
                                            acceptor.queue, acceptor.queue, tag);
      };
      acceptor.came = [&acceptor](Call call, grpc::ByteBuffer body) {
        acceptor.AwaitNext();
        const GuardedService& service = *acceptor.service;
        service.guard_->Run(service.audience_, acceptor.method->handler, std::move(call),
                            std::move(body));
      };
      for (int i = 0; i < kAwaitedCalls; ++i) acceptor.AwaitNext();
    }
  }
}

void GuardedService::Acceptor::AwaitNext() {
  ServedCall::Await(method->name, request, came, loop->users(), service->guard_->observer(),
                    service->guard_->clock());
}

}  // namespace once::rpc
