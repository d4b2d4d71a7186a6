#include "rpc/idempotency_handlers.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "once/v1/idempotency_service.pb.h"
#include "rpc/batch_answer.h"
#include "rpc/request.h"
#include "rpc/response.h"
#include "rpc/single_call.h"

namespace once::rpc {
namespace {

// Hands every good item to the pipeline, in order, so that items of one key are decided in order.
template <typename PipelineCall, typename Outcome, typename Request, typename Response>
void SubmitItems(const PipelineParts& parts, Submit<PipelineCall, Outcome> submit, Request* request,
                 const RequestContext& context, std::shared_ptr<BatchAnswer<Response>> answer) {
  for (int i = 0; i < request->requests_size(); ++i) {
    absl::StatusOr<PipelineCall> converted =
        ToCall(std::move(*request->mutable_requests(i)), context, FieldPath::OfItem(i));
    if (!converted.ok()) {
      answer->Fail(i, converted.status());
      continue;
    }
    std::string handler = converted->info.handler;
    const auto dedupe = DedupeRetention(context, converted->info);
    (parts.pipeline->*submit)(*std::move(converted), [answer, i, handler = std::move(handler),
                                                      dedupe](absl::StatusOr<Outcome> outcome) {
      answer->Answer(i, {handler, dedupe}, std::move(outcome));
    });
  }
}

template <typename Request, typename Response, typename PipelineCall, typename Outcome>
Handler Batch(const PipelineParts& parts, Submit<PipelineCall, Outcome> submit) {
  return [parts, submit](Call call, grpc::ByteBuffer body) {
    Request request;
    absl::Status checked = CheckMessageSize(body.Length(), *parts.limits);
    if (checked.ok()) {
      checked = Parse(&body, &request);
    }
    if (checked.ok()) {
      checked = CheckItemCount(request.requests_size(), *parts.limits);
    }
    if (!checked.ok()) {
      std::move(call).Fail(checked);
      return;
    }
    // The call may be answered, and gone, as soon as its last item is on its way.
    const std::shared_ptr<const auth::Principal> principal = call.principal();
    const std::shared_ptr<const policy::Policies> policies = parts.policies->Current();
    const RequestContext context{.principal = *principal,
                                 .limits = *parts.limits,
                                 .policies = *policies,
                                 .deadline = call.deadline(),
                                 .cancellation = call.cancellation()};
    auto answer = std::make_shared<BatchAnswer<Response>>(std::move(call), request.requests_size());
    SubmitItems(parts, submit, &request, context, std::move(answer));
  };
}

}  // namespace

Handlers IdempotencyHandlers(pipeline::Pipeline* pipeline, const core::Limits* limits,
                             const policy::PolicyCache* policies) {
  using pipeline::Pipeline;
  const PipelineParts parts{pipeline, limits, policies};
  return {
      {"Begin", Single<v1::BeginRequest, v1::BeginResponse>(parts, &Pipeline::Begin)},
      {"Complete", Single<v1::CompleteRequest, v1::CompleteResponse>(parts, &Pipeline::Complete)},
      {"Abandon", Single<v1::AbandonRequest, v1::AbandonResponse>(parts, &Pipeline::Abandon)},
      {"Renew", Single<v1::RenewRequest, v1::RenewResponse>(parts, &Pipeline::Renew)},
      {"Lookup", Single<v1::LookupRequest, v1::LookupResponse>(parts, &Pipeline::Lookup)},
      {"BatchBegin", Batch<v1::BatchBeginRequest, v1::BatchBeginResponse>(parts, &Pipeline::Begin)},
      {"BatchComplete",
       Batch<v1::BatchCompleteRequest, v1::BatchCompleteResponse>(parts, &Pipeline::Complete)},
      {"BatchRenew", Batch<v1::BatchRenewRequest, v1::BatchRenewResponse>(parts, &Pipeline::Renew)},
  };
}

}  // namespace once::rpc
