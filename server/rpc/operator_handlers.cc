#include "rpc/operator_handlers.h"

#include <memory>
#include <string>
#include <utility>

#include "rpc/admin_task.h"
#include "rpc/operator_operations.h"
#include "rpc/single_call.h"

namespace once::rpc {
namespace {

template <typename Request, typename Response>
Handler Reading(AdminExecutor* executor, const core::Limits* limits,
                const policy::PolicyCache* policies) {
  return [=](Call call, grpc::ByteBuffer body) {
    Request request;
    if (const absl::Status parsed = Parse(&body, &request); !parsed.ok()) {
      std::move(call).Fail(parsed);
      return;
    }
    Note(request, &call.record());
    const std::shared_ptr<const policy::Policies> current = policies->Current();
    absl::StatusOr<AdminWork<Response>> work =
        Prepare(request, RequestContext{.principal = *call.principal(),
                                        .limits = *limits,
                                        .policies = *current,
                                        .deadline = call.deadline(),
                                        .cancellation = call.cancellation()});
    if (!work.ok()) {
      std::move(call).Fail(work.status());
      return;
    }
    executor->Submit(MakeTask<Response>(std::move(call), *std::move(work), /*repeatable=*/true,
                                        [](const Response&) { return std::string(); }));
  };
}

}  // namespace

Handlers OperatorHandlers(pipeline::Pipeline* pipeline, AdminExecutor* executor,
                          const core::Limits* limits, const policy::PolicyCache* policies) {
  return {
      {"GetOperation",
       Reading<v1::GetOperationRequest, v1::GetOperationResponse>(executor, limits, policies)},
      {"ListAttempts",
       Reading<v1::ListAttemptsRequest, v1::ListAttemptsResponse>(executor, limits, policies)},
      {"Reset", Single<v1::ResetRequest, v1::ResetResponse>({pipeline, limits, policies},
                                                            &pipeline::Pipeline::Reset)},
      {"Resolve", Single<v1::ResolveRequest, v1::ResolveResponse>({pipeline, limits, policies},
                                                                  &pipeline::Pipeline::Resolve)},
  };
}

}  // namespace once::rpc
