// A method whose every call is one command of the pipeline.
#ifndef ONCE_RPC_SINGLE_CALL_H_
#define ONCE_RPC_SINGLE_CALL_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "core/limits.h"
#include "pipeline/pipeline.h"
#include "policy/policy_cache.h"
#include "rpc/call.h"
#include "rpc/guarded_service.h"
#include "rpc/request.h"
#include "rpc/response.h"

namespace once::rpc {

// All outlive the handlers.
struct PipelineParts {
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
  constexpr size_t kLoggedEventIdBytes = 64;
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

// The fence that was given, where one was.
template <typename Response>
void NoteFence(const Response& response, CallRecord* record) {
  if constexpr (requires { response.granted(); }) {
    record->fence = response.granted().claim().fence();
  }
}

// What its handler's policy promises of a receipt.
inline std::optional<absl::Duration> DedupeRetention(const RequestContext& context,
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
Handler Single(const PipelineParts& parts, Submit<PipelineCall, Outcome> submit) {
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

}  // namespace once::rpc

#endif  // ONCE_RPC_SINGLE_CALL_H_
