#include "rpc/guarded_service.h"

// As generated code does: 1.51 has no other header for these.
#include <grpcpp/impl/codegen/server_callback_handlers.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "rpc/call_metadata.h"

namespace once::rpc {
namespace {

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

absl::Status CheckRole(store::Role role, Audience audience) {
  const bool is_admin = role == store::Role::kAdmin;
  if (is_admin == (audience == Audience::kAdmins)) {
    return absl::OkStatus();
  }
  return base::MakeError(
      base::ErrorReason::kPermissionDenied,
      absl::StrCat("a credential of role ", RoleName(role), " cannot call ",
                   audience == Audience::kAdmins ? "AdminService" : "IdempotencyService"),
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

grpc::ServerUnaryReactor* CallGuard::Run(absl::string_view method, Audience audience,
                                         const Handler& handler,
                                         grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) {
  OpenCalls* const open = open_calls_.Enter() ? &open_calls_ : nullptr;
  auto* const reactor = new CallReactor(method, context, response, observer_, open, clock_);
  Call call(reactor);
  // gRPC would keep the request until the call is over: a waiting call would hold its content for a
  // minute. The buffer is not const where it lives, and nobody else looks at it.
  grpc::ByteBuffer body;
  body.Swap(const_cast<grpc::ByteBuffer*>(request));
  if (open == nullptr) {
    std::move(call).Fail(
        base::MakeError(base::ErrorReason::kDraining, "the server is shutting down"));
    return reactor;
  }
  const std::optional<absl::string_view> token = BearerToken(call.metadata());
  if (!token.has_value()) {
    std::move(call).Fail(base::MakeError(
        base::ErrorReason::kUnauthenticated,
        "the call needs exactly one metadata value \"authorization: Bearer once_…\""));
    return reactor;
  }
  authenticator_->Authenticate(
      *token, [call = std::move(call), body = std::move(body), audience,
               &handler](absl::StatusOr<std::shared_ptr<const auth::Principal>> principal) mutable {
        RunAuthenticated(std::move(call), std::move(body), audience, handler, std::move(principal));
      });
  return reactor;
}

GuardedService::GuardedService(const google::protobuf::ServiceDescriptor* descriptor,
                               Audience audience, Handlers handlers, CallGuard* guard) {
  for (int i = 0; i < descriptor->method_count(); ++i) {
    const auto handler = handlers.find(descriptor->method(i)->name());
    if (handler == handlers.end()) {
      continue;
    }
    methods_.push_back(Method{
        .path = absl::StrCat("/", descriptor->full_name(), "/", descriptor->method(i)->name()),
        .name = descriptor->method(i)->name(),
        .handler = std::move(handler->second)});
    const Method* const method = &methods_.back();
    AddMethod(new grpc::internal::RpcServiceMethod(method->path.c_str(),
                                                   grpc::internal::RpcMethod::NORMAL_RPC, nullptr));
    MarkMethodRawCallback(
        static_cast<int>(methods_.size()) - 1,
        new grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
            [method, audience, guard](grpc::CallbackServerContext* context,
                                      const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
              return guard->Run(method->name, audience, method->handler, context, request,
                                response);
            }));
  }
}

}  // namespace once::rpc
