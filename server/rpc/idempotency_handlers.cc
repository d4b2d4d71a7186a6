#include "rpc/idempotency_handlers.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "once/v1/idempotency_service.pb.h"
#include "rpc/batch_answer.h"
#include "rpc/request.h"
#include "rpc/response.h"

namespace once::rpc {
namespace {

constexpr size_t kLoggedEventIdBytes = 64;

struct Rules {
  pipeline::Pipeline* pipeline;
  const core::Limits* limits;
  const HandlerPolicies* policies;
};

// A function of the pipeline: Pipeline::Begin and so on.
template <typename PipelineCall, typename Outcome>
using Submit = void (pipeline::Pipeline::*)(PipelineCall, pipeline::Done<Outcome>);

// For logs. Before the request is checked: texts are cut and escaped.
template <typename Request>
void Note(const Request& request, CallRecord* record) {
  record->handler = absl::CHexEscape(request.handler().substr(0, core::kMaxHandlerBytes));
  record->event_id = absl::CHexEscape(request.event_id().substr(0, kLoggedEventIdBytes));
  record->event_id_bytes = request.event_id().size();
  if constexpr (requires { request.attempt_id(); }) {
    if (request.attempt_id().size() == sizeof(core::AttemptId)) {
      record->attempt_id = absl::BytesToHexString(request.attempt_id());
    }
  }
  if constexpr (requires { request.fence(); }) {
    record->fence = request.fence();
  }
}

void NoteFence(const v1::BeginResponse& response, CallRecord* record) {
  record->fence = response.granted().claim().fence();
}
template <typename Response>
void NoteFence(const Response&, CallRecord*) {}

template <typename Response, typename Outcome>
void AnswerOne(Call call, absl::StatusOr<Outcome> outcome) {
  if (!outcome.ok()) {
    std::move(call).Fail(outcome.status());
    return;
  }
  Response response;
  const absl::StatusOr<absl::string_view> name =
      FillResponse(*std::move(outcome), call.record().handler, &response);
  if (!name.ok()) {
    std::move(call).Fail(name.status());
    return;
  }
  NoteFence(response, &call.record());
  std::move(call).Answer(response, *name);
}

template <typename Request, typename Response, typename PipelineCall, typename Outcome>
Handler Single(const Rules& rules, Submit<PipelineCall, Outcome> submit) {
  return [rules, submit](Call call, grpc::ByteBuffer body) {
    Request request;
    if (const absl::Status parsed = Parse(&body, &request); !parsed.ok()) {
      std::move(call).Fail(parsed);
      return;
    }
    Note(request, &call.record());
    const RequestContext context{.principal = *call.principal(),
                                 .limits = *rules.limits,
                                 .policies = *rules.policies,
                                 .deadline = call.deadline(),
                                 .cancellation = call.cancellation()};
    absl::StatusOr<PipelineCall> converted = ToCall(std::move(request), context, FieldPath());
    if (!converted.ok()) {
      std::move(call).Fail(converted.status());
      return;
    }
    (rules.pipeline->*submit)(*std::move(converted),
                              [call = std::move(call)](absl::StatusOr<Outcome> outcome) mutable {
                                AnswerOne<Response>(std::move(call), std::move(outcome));
                              });
  };
}

// Hands every good item to the pipeline, in order, so that items of one key are decided in order.
template <typename PipelineCall, typename Outcome, typename Request, typename Response>
void SubmitItems(const Rules& rules, Submit<PipelineCall, Outcome> submit, Request* request,
                 const RequestContext& context, std::shared_ptr<BatchAnswer<Response>> answer) {
  for (int i = 0; i < request->requests_size(); ++i) {
    absl::StatusOr<PipelineCall> converted =
        ToCall(std::move(*request->mutable_requests(i)), context, FieldPath::OfItem(i));
    if (!converted.ok()) {
      answer->Fail(i, converted.status());
      continue;
    }
    std::string handler = converted->info.handler;
    (rules.pipeline->*submit)(*std::move(converted), [answer, i, handler = std::move(handler)](
                                                         absl::StatusOr<Outcome> outcome) {
      answer->Answer(i, handler, std::move(outcome));
    });
  }
}

template <typename Request, typename Response, typename PipelineCall, typename Outcome>
Handler Batch(const Rules& rules, Submit<PipelineCall, Outcome> submit) {
  return [rules, submit](Call call, grpc::ByteBuffer body) {
    Request request;
    absl::Status checked = CheckMessageSize(body.Length(), *rules.limits);
    if (checked.ok()) {
      checked = Parse(&body, &request);
    }
    if (checked.ok()) {
      checked = CheckItemCount(request.requests_size(), *rules.limits);
    }
    if (!checked.ok()) {
      std::move(call).Fail(checked);
      return;
    }
    // The call may be answered, and gone, as soon as its last item is on its way.
    const std::shared_ptr<const auth::Principal> principal = call.principal();
    const RequestContext context{.principal = *principal,
                                 .limits = *rules.limits,
                                 .policies = *rules.policies,
                                 .deadline = call.deadline(),
                                 .cancellation = call.cancellation()};
    auto answer = std::make_shared<BatchAnswer<Response>>(std::move(call), request.requests_size());
    SubmitItems(rules, submit, &request, context, std::move(answer));
  };
}

}  // namespace

Handlers IdempotencyHandlers(pipeline::Pipeline* pipeline, const core::Limits* limits,
                             const HandlerPolicies* policies) {
  using pipeline::Pipeline;
  const Rules rules{pipeline, limits, policies};
  return {
      {"Begin", Single<v1::BeginRequest, v1::BeginResponse>(rules, &Pipeline::Begin)},
      {"Complete", Single<v1::CompleteRequest, v1::CompleteResponse>(rules, &Pipeline::Complete)},
      {"Abandon", Single<v1::AbandonRequest, v1::AbandonResponse>(rules, &Pipeline::Abandon)},
      {"Renew", Single<v1::RenewRequest, v1::RenewResponse>(rules, &Pipeline::Renew)},
      {"Lookup", Single<v1::LookupRequest, v1::LookupResponse>(rules, &Pipeline::Lookup)},
      {"BatchBegin", Batch<v1::BatchBeginRequest, v1::BatchBeginResponse>(rules, &Pipeline::Begin)},
      {"BatchComplete",
       Batch<v1::BatchCompleteRequest, v1::BatchCompleteResponse>(rules, &Pipeline::Complete)},
      {"BatchRenew", Batch<v1::BatchRenewRequest, v1::BatchRenewResponse>(rules, &Pipeline::Renew)},
  };
}

}  // namespace once::rpc
