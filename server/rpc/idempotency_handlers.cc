#include "rpc/idempotency_handlers.h"

#include <memory>
#include <optional>
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

struct Parts {
  pipeline::Pipeline* pipeline;
  const core::Limits* limits;
  const policy::PolicyCache* policies;
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

// What its handler's policy promises of a receipt.
std::optional<absl::Duration> DedupeRetention(const RequestContext& context,
                                              const pipeline::CallInfo& info) {
  return context.policies.For(info.tenant, info.handler).dedupe_retention;
}

template <typename Response, typename Outcome>
void AnswerOne(Call call, std::optional<absl::Duration> dedupe_retention,
               absl::StatusOr<Outcome> outcome) {
  if (!outcome.ok()) {
    std::move(call).Fail(outcome.status());
    return;
  }
  Response response;
  const absl::StatusOr<absl::string_view> name =
      FillResponse(*std::move(outcome), {call.record().handler, dedupe_retention}, &response);
  if (!name.ok()) {
    std::move(call).Fail(name.status());
    return;
  }
  NoteFence(response, &call.record());
  std::move(call).Answer(response, *name);
}

template <typename Request, typename Response, typename PipelineCall, typename Outcome>
Handler Single(const Parts& parts, Submit<PipelineCall, Outcome> submit) {
  return [parts, submit](Call call, grpc::ByteBuffer body) {
    Request request;
    if (const absl::Status parsed = Parse(&body, &request); !parsed.ok()) {
      std::move(call).Fail(parsed);
      return;
    }
    Note(request, &call.record());
    const std::shared_ptr<const policy::Policies> policies = parts.policies->Current();
    const RequestContext context{.principal = *call.principal(),
                                 .limits = *parts.limits,
                                 .policies = *policies,
                                 .deadline = call.deadline(),
                                 .cancellation = call.cancellation()};
    absl::StatusOr<PipelineCall> converted = ToCall(std::move(request), context, FieldPath());
    if (!converted.ok()) {
      std::move(call).Fail(converted.status());
      return;
    }
    const auto dedupe = DedupeRetention(context, converted->info);
    (parts.pipeline->*submit)(*std::move(converted), [call = std::move(call), dedupe](
                                                         absl::StatusOr<Outcome> outcome) mutable {
      AnswerOne<Response>(std::move(call), dedupe, std::move(outcome));
    });
  };
}

// Hands every good item to the pipeline, in order, so that items of one key are decided in order.
template <typename PipelineCall, typename Outcome, typename Request, typename Response>
void SubmitItems(const Parts& parts, Submit<PipelineCall, Outcome> submit, Request* request,
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
Handler Batch(const Parts& parts, Submit<PipelineCall, Outcome> submit) {
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
  const Parts parts{pipeline, limits, policies};
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
