#include "rpc/request.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "core/content_digest.h"
#include "core/fingerprint.h"
#include "core/json_fault.h"
#include "rpc/status_macros.h"
#include "rpc/validate.h"

namespace once::rpc {
namespace {

using base::ErrorReason;
using base::InvalidField;

// The fields that name the operation, the same in every request.
template <typename Request>
absl::StatusOr<pipeline::CallInfo> ToInfo(Request& request, const RequestContext& context,
                                          const FieldPath& path) {
  ONCE_RETURN_IF_ERROR(CheckName(path.To("handler"), request.handler(), core::kMaxHandlerBytes));
  ONCE_RETURN_IF_ERROR(CheckCovered(context.principal, request.handler()));
  ONCE_RETURN_IF_ERROR(
      CheckNotEmpty(path.To("event_id"), request.event_id(), core::kMaxEventIdBytes));
  return pipeline::CallInfo{.tenant = context.principal.tenant,
                            .handler = std::move(*request.mutable_handler()),
                            .event_id = std::move(*request.mutable_event_id()),
                            .deadline = context.deadline,
                            .cancellation = context.cancellation};
}

absl::StatusOr<core::DigestScheme> ToScheme(v1::DigestScheme scheme, const Field& field) {
  switch (static_cast<int>(scheme)) {
    case v1::DIGEST_SCHEME_RAW_SHA256:
      return core::DigestScheme::kRawSha256;
    case v1::DIGEST_SCHEME_JSON_JCS_SHA256:
      return core::DigestScheme::kJsonJcsSha256;
    case v1::DIGEST_SCHEME_UNSPECIFIED:
      return InvalidField(field.Text(), "is not set; say what was digested");
    default:  // an open enum of the wire: any number may come
      return InvalidField(
          field.Text(),
          absl::StrCat("is ", static_cast<int>(scheme), ", which this server does not know"),
          {{"value", absl::StrCat(static_cast<int>(scheme))}});
  }
}

absl::Status NotCanonical(const FieldPath& path, const absl::Status& status) {
  const std::optional<core::JsonFault> fault = core::JsonFaultFromStatus(status);
  if (!fault.has_value()) {
    return base::MakeError(ErrorReason::kInternal,
                           absl::StrCat("the content cannot be digested: ", status.message()));
  }
  // The pointer may be long and every detail is sent more than once: whole in the metadata, cut in
  // the message.
  constexpr size_t kPointerInMessage = 200;
  absl::string_view pointer = fault->pointer;
  const bool cut = pointer.size() > kPointerInMessage;
  if (cut) {
    pointer = pointer.substr(0, kPointerInMessage);
    while (!pointer.empty() && (static_cast<unsigned char>(pointer.back()) & 0xC0) == 0x80) {
      pointer.remove_suffix(1);
    }
    if (!pointer.empty() && static_cast<unsigned char>(pointer.back()) >= 0xC0) {
      pointer.remove_suffix(1);
    }
  }
  const std::string field = path.To("content.data").Text();
  return base::MakeError(
      ErrorReason::kContentNotCanonical,
      absl::StrCat(field, " is not I-JSON at \"", pointer, cut ? "…" : "", "\" (byte ",
                   fault->offset, "): ", fault->what),
      {{"field", field}, {"pointer", fault->pointer}, {"offset", absl::StrCat(fault->offset)}});
}

absl::StatusOr<core::Digest> DigestOf(const v1::Content& content, const core::DigestPolicy& policy,
                                      const RequestContext& context, const FieldPath& path) {
  core::DigestScheme scheme = policy.scheme;
  if (content.scheme() != v1::DIGEST_SCHEME_UNSPECIFIED) {
    ONCE_ASSIGN_OR_RETURN(scheme, ToScheme(content.scheme(), path.To("content.scheme")));
  }
  ONCE_RETURN_IF_ERROR(
      CheckSize(path.To("content.data"), content.data(), context.limits.max_content_bytes));
  auto digest = core::DigestContent(scheme, content.data(), policy.ignored_members,
                                    core::JsonLimits{.max_depth = context.limits.max_json_depth});
  if (!digest.ok()) {
    return NotCanonical(path, digest.status());
  }
  return digest;
}

absl::StatusOr<core::Digest> ToDigest(const v1::ContentDigest& digest, const FieldPath& path) {
  core::Digest made;
  ONCE_ASSIGN_OR_RETURN(made.scheme, ToScheme(digest.scheme(), path.To("digest.scheme")));
  if (digest.sha256().size() != made.sha256.size()) {
    return InvalidField(path.To("digest.sha256").Text(),
                        absl::StrCat("is ", digest.sha256().size(), " bytes; it needs exactly ",
                                     made.sha256.size()),
                        {{"size", absl::StrCat(digest.sha256().size())},
                         {"limit", absl::StrCat(made.sha256.size())}});
  }
  std::memcpy(made.sha256.data(), digest.sha256().data(), made.sha256.size());
  return made;
}

absl::StatusOr<store::DeliveryInfo> ToDelivery(v1::BeginRequest& request, const FieldPath& path) {
  store::DeliveryInfo info;
  v1::Delivery& delivery = *request.mutable_delivery();
  ONCE_RETURN_IF_ERROR(
      CheckSize(path.To("delivery.reference"), delivery.reference(), core::kMaxReferenceBytes));
  if (!v1::DeliverySource_IsValid(delivery.source())) {
    return InvalidField(path.To("delivery.source").Text(),
                        absl::StrCat("is ", static_cast<int>(delivery.source()),
                                     ", which this server does not know"),
                        {{"value", absl::StrCat(static_cast<int>(delivery.source()))}});
  }
  info.reference = std::move(*delivery.mutable_reference());
  info.source = static_cast<uint8_t>(delivery.source());
  if (request.has_causation()) {
    v1::Causation& cause = *request.mutable_causation();
    ONCE_RETURN_IF_ERROR(
        CheckName(path.To("causation.handler"), cause.handler(), core::kMaxHandlerBytes));
    ONCE_RETURN_IF_ERROR(
        CheckNotEmpty(path.To("causation.event_id"), cause.event_id(), core::kMaxEventIdBytes));
    ONCE_RETURN_IF_ERROR(
        CheckSize(path.To("causation.reason"), cause.reason(), core::kMaxReasonBytes));
    info.cause_handler = std::move(*cause.mutable_handler());
    info.cause_event_id = std::move(*cause.mutable_event_id());
    info.cause_reason = std::move(*cause.mutable_reason());
  }
  if (request.has_aggregate()) {
    v1::Aggregate& aggregate = *request.mutable_aggregate();
    ONCE_RETURN_IF_ERROR(
        CheckNotEmpty(path.To("aggregate.id"), aggregate.id(), core::kMaxAggregateIdBytes));
    if (aggregate.version() < 0) {
      return InvalidField(path.To("aggregate.version").Text(),
                          absl::StrCat("is ", aggregate.version(), "; the minimum is 0"),
                          {{"value", absl::StrCat(aggregate.version())}, {"limit", "0"}});
    }
    info.aggregate_id = std::move(*aggregate.mutable_id());
    info.aggregate_version = aggregate.version();
  }
  return info;
}

absl::StatusOr<absl::Duration> ToWait(const google::protobuf::Duration& wait,
                                      const RequestContext& context, const FieldPath& path) {
  auto parsed = ParseDuration(path.To("wait"), wait, absl::ZeroDuration(), context.limits.max_wait);
  if (parsed.ok() && path.in_batch() && *parsed != absl::ZeroDuration()) {
    return InvalidField(path.To("wait").Text(), "must not be set in a batch");
  }
  return parsed;
}

absl::StatusOr<core::ReceiptStatus> ToReceiptStatus(v1::ReceiptStatus status, const Field& field) {
  switch (static_cast<int>(status)) {
    case v1::RECEIPT_STATUS_SUCCEEDED:
      return core::ReceiptStatus::kSucceeded;
    case v1::RECEIPT_STATUS_REJECTED:
      return core::ReceiptStatus::kRejected;
    default:  // an open enum of the wire: any number may come
      return InvalidField(field.Text(), "must be SUCCEEDED or REJECTED",
                          {{"value", absl::StrCat(static_cast<int>(status))}});
  }
}

// Unset where the policy wants no order.
absl::StatusOr<std::optional<core::OrderRequest>> ToOrder(const store::DeliveryInfo& delivery,
                                                          const policy::Rules& rules,
                                                          const FieldPath& path) {
  if (!rules.order.ordered()) return std::nullopt;
  if (delivery.aggregate_id.empty()) {
    return InvalidField(
        path.To("aggregate").Text(),
        absl::StrCat("is not set; the policy for ", rules.pattern, " orders by aggregate"),
        {{"pattern", rules.pattern}});
  }
  return core::OrderRequest{.aggregate_id = delivery.aggregate_id,
                            .version = delivery.aggregate_version,
                            .guards_versions = rules.order.guards_versions,
                            .one_at_a_time = rules.order.one_at_a_time};
}

// Unset where the request has neither content nor digest.
template <typename Request>
absl::StatusOr<std::optional<core::Digest>> DigestOfPayload(const Request& request,
                                                            const core::DigestPolicy& policy,
                                                            const RequestContext& context,
                                                            const FieldPath& path) {
  if (request.has_content()) {
    return DigestOf(request.content(), policy, context, path);
  }
  if (request.has_digest()) {
    return ToDigest(request.digest(), path);
  }
  return std::nullopt;
}

absl::Status CheckAdmitted(const policy::Rules& rules, absl::string_view handler) {
  switch (rules.admission) {
    case core::Admission::kAllowed:
      return absl::OkStatus();
    case core::Admission::kRefused:
      break;
  }
  return base::MakeError(
      ErrorReason::kHandlerNotAllowed,
      absl::StrCat("the policy for ", rules.pattern, " refuses new work of the handler ", handler),
      {{"handler", std::string(handler)}, {"pattern", rules.pattern}});
}

absl::Status ResultTooLarge(const Field& field, size_t size, size_t limit) {
  return base::MakeError(
      ErrorReason::kResultTooLarge,
      absl::StrCat(field.Text(), " is ", size, " bytes; the limit is ", limit,
                   ". The claim stays: complete again with a smaller result"),
      {{"field", field.Text()}, {"size", absl::StrCat(size)}, {"limit", absl::StrCat(limit)}});
}

absl::StatusOr<core::Verdict> ToVerdict(v1::ResolveRequest::Verdict verdict, const Field& field) {
  switch (static_cast<int>(verdict)) {
    case v1::ResolveRequest::VERDICT_DONE:
      return core::Verdict::kDone;
    case v1::ResolveRequest::VERDICT_REFUSED:
      return core::Verdict::kRefused;
    case v1::ResolveRequest::VERDICT_NOT_DONE:
      return core::Verdict::kNotDone;
    default:  // an open enum of the wire: any number may come
      return InvalidField(field.Text(), "must be DONE, REFUSED or NOT_DONE",
                          {{"value", absl::StrCat(static_cast<int>(verdict))}});
  }
}

absl::StatusOr<bool> ToForget(v1::AbandonRequest::Mode mode, const Field& field) {
  switch (static_cast<int>(mode)) {
    case v1::AbandonRequest::MODE_RELEASE:
      return false;
    case v1::AbandonRequest::MODE_FORGET:
      return true;
    default:  // an open enum of the wire: any number may come
      return InvalidField(field.Text(), "must be RELEASE or FORGET",
                          {{"value", absl::StrCat(static_cast<int>(mode))}});
  }
}

}  // namespace

absl::Status CheckCovered(const auth::Principal& principal, absl::string_view handler) {
  if (auth::CoversHandler(principal, handler)) {
    return absl::OkStatus();
  }
  return base::MakeError(ErrorReason::kPermissionDenied,
                         absl::StrCat("the credential does not cover the handler ", handler),
                         {{"handler", std::string(handler)}});
}

absl::Status CheckItemCount(int items, const core::Limits& limits) {
  if (items >= 1 && items <= limits.max_batch_items) {
    return absl::OkStatus();
  }
  return InvalidField(
      "requests",
      absl::StrCat("has ", items, " items; ", items == 0 ? "it needs 1 to " : "the limit is ",
                   limits.max_batch_items),
      {{"size", absl::StrCat(items)}, {"limit", absl::StrCat(limits.max_batch_items)}});
}

absl::Status CheckMessageSize(size_t bytes, const core::Limits& limits) {
  if (bytes <= limits.max_message_bytes) {
    return absl::OkStatus();
  }
  return InvalidField(
      "requests",
      absl::StrCat("is ", bytes, " bytes in all; the limit is ", limits.max_message_bytes),
      {{"size", absl::StrCat(bytes)}, {"limit", absl::StrCat(limits.max_message_bytes)}});
}

absl::StatusOr<pipeline::BeginCall> ToCall(v1::BeginRequest&& request,
                                           const RequestContext& context, const FieldPath& path) {
  pipeline::BeginCall call;
  core::BeginRequest& begin = call.request;
  ONCE_ASSIGN_OR_RETURN(call.info, ToInfo(request, context, path));
  const policy::Rules& rules = context.policies.For(call.info.tenant, call.info.handler);
  ONCE_RETURN_IF_ERROR(CheckAdmitted(rules, call.info.handler));
  ONCE_ASSIGN_OR_RETURN(begin.attempt, ParseAttemptId(path.To("attempt_id"), request.attempt_id()));
  ONCE_ASSIGN_OR_RETURN(begin.lease, ParseLease(path.To("lease"), request.lease(), rules.lease));
  ONCE_ASSIGN_OR_RETURN(call.wait, ToWait(request.wait(), context, path));
  ONCE_RETURN_IF_ERROR(CheckSize(path.To("consumer"), request.consumer(), core::kMaxConsumerBytes));
  ONCE_RETURN_IF_ERROR(CheckSize(path.To("handler_version"), request.handler_version(),
                                 core::kMaxHandlerVersionBytes));
  ONCE_ASSIGN_OR_RETURN(call.delivery, ToDelivery(request, path));
  ONCE_ASSIGN_OR_RETURN(begin.order, ToOrder(call.delivery, rules, path));
  // Last, because it is the only part that costs time.
  ONCE_ASSIGN_OR_RETURN(std::optional<core::Digest> digest,
                        DigestOfPayload(request, rules.digest, context, path));
  if (!digest.has_value()) {
    return InvalidField(path.To("payload").Text(), "is not set; send content or digest");
  }
  begin.digest = *digest;
  begin.consumer = std::move(*request.mutable_consumer());
  begin.handler_version = std::move(*request.mutable_handler_version());
  begin.on_lapse = rules.on_lapse;
  begin.readable_versions = rules.readable_versions;
  begin.can_probe = request.can_probe();
  call.attempt_log = rules.attempt_log;
  return call;
}

absl::StatusOr<pipeline::CompleteCall> ToCall(v1::CompleteRequest&& request,
                                              const RequestContext& context,
                                              const FieldPath& path) {
  pipeline::CompleteCall call;
  core::CompleteRequest& complete = call.request;
  ONCE_ASSIGN_OR_RETURN(call.info, ToInfo(request, context, path));
  ONCE_ASSIGN_OR_RETURN(complete.attempt,
                        ParseAttemptId(path.To("attempt_id"), request.attempt_id()));
  ONCE_ASSIGN_OR_RETURN(complete.fence, ParseFence(path.To("fence"), request.fence()));
  ONCE_ASSIGN_OR_RETURN(complete.status, ToReceiptStatus(request.status(), path.To("status")));
  ONCE_RETURN_IF_ERROR(
      CheckSize(path.To("content_type"), request.content_type(), core::kMaxContentTypeBytes));
  if (request.result().size() > context.limits.max_result_bytes) {
    return ResultTooLarge(path.To("result"), request.result().size(),
                          context.limits.max_result_bytes);
  }
  complete.result = std::move(*request.mutable_result());
  complete.content_type = std::move(*request.mutable_content_type());
  complete.fingerprint =
      core::FingerprintOf(complete.status, complete.content_type, complete.result);
  return call;
}

absl::StatusOr<pipeline::AbandonCall> ToCall(v1::AbandonRequest&& request,
                                             const RequestContext& context, const FieldPath& path) {
  pipeline::AbandonCall call;
  core::AbandonRequest& abandon = call.request;
  ONCE_ASSIGN_OR_RETURN(call.info, ToInfo(request, context, path));
  ONCE_ASSIGN_OR_RETURN(abandon.attempt,
                        ParseAttemptId(path.To("attempt_id"), request.attempt_id()));
  ONCE_ASSIGN_OR_RETURN(abandon.fence, ParseFence(path.To("fence"), request.fence()));
  ONCE_ASSIGN_OR_RETURN(abandon.forget, ToForget(request.mode(), path.To("mode")));
  ONCE_ASSIGN_OR_RETURN(abandon.retry_delay,
                        ParseDuration(path.To("retry_delay"), request.retry_delay(),
                                      absl::ZeroDuration(), context.limits.max_retry_delay));
  if (abandon.forget && abandon.retry_delay != absl::ZeroDuration()) {
    return InvalidField(path.To("retry_delay").Text(), "has no meaning with FORGET; use RELEASE");
  }
  ONCE_RETURN_IF_ERROR(CheckSize(path.To("reason"), request.reason(), core::kMaxReasonBytes));
  call.note = std::move(*request.mutable_reason());
  return call;
}

absl::StatusOr<pipeline::RenewCall> ToCall(v1::RenewRequest&& request,
                                           const RequestContext& context, const FieldPath& path) {
  pipeline::RenewCall call;
  core::RenewRequest& renew = call.request;
  ONCE_ASSIGN_OR_RETURN(call.info, ToInfo(request, context, path));
  ONCE_ASSIGN_OR_RETURN(renew.attempt, ParseAttemptId(path.To("attempt_id"), request.attempt_id()));
  ONCE_ASSIGN_OR_RETURN(renew.fence, ParseFence(path.To("fence"), request.fence()));
  const core::LeaseRange& allowed = context.policies.For(call.info.tenant, call.info.handler).lease;
  core::LeaseRange server = core::LeaseRangeOf(context.limits);
  server.normal = allowed.normal;
  ONCE_ASSIGN_OR_RETURN(renew.lease, ParseLease(path.To("lease"), request.lease(), server));
  // The claim may be older than the policy: refusing its renewals would end it.
  renew.lease = std::clamp(renew.lease, allowed.least, allowed.greatest);
  return call;
}

absl::StatusOr<pipeline::ResolveCall> ToCall(v1::ResolveRequest&& request,
                                             const RequestContext& context, const FieldPath& path) {
  pipeline::ResolveCall call;
  core::ResolveRequest& resolve = call.request;
  ONCE_ASSIGN_OR_RETURN(call.info, ToInfo(request, context, path));
  ONCE_ASSIGN_OR_RETURN(resolve.attempt,
                        ParseAttemptId(path.To("attempt_id"), request.attempt_id()));
  ONCE_ASSIGN_OR_RETURN(resolve.fence, ParseFence(path.To("fence"), request.fence()));
  ONCE_ASSIGN_OR_RETURN(resolve.verdict, ToVerdict(request.verdict(), path.To("verdict")));
  ONCE_RETURN_IF_ERROR(
      CheckSize(path.To("content_type"), request.content_type(), core::kMaxContentTypeBytes));
  if (request.result().size() > context.limits.max_result_bytes) {
    return ResultTooLarge(path.To("result"), request.result().size(),
                          context.limits.max_result_bytes);
  }
  if (resolve.verdict == core::Verdict::kNotDone &&
      !(request.result().empty() && request.content_type().empty())) {
    return InvalidField(path.To("result").Text(), "has no meaning with NOT_DONE");
  }
  ONCE_RETURN_IF_ERROR(
      CheckNotEmpty(path.To("evidence"), request.evidence(), core::kMaxReasonBytes));
  resolve.result = std::move(*request.mutable_result());
  resolve.content_type = std::move(*request.mutable_content_type());
  resolve.fingerprint =
      core::FingerprintOf(resolve.verdict == core::Verdict::kDone ? core::ReceiptStatus::kSucceeded
                                                                  : core::ReceiptStatus::kRejected,
                          resolve.content_type, resolve.result);
  call.author = {.credential_id = context.principal.credential_id,
                 .reason = std::move(*request.mutable_evidence())};
  return call;
}

absl::StatusOr<pipeline::ResetCall> ToCall(v1::ResetRequest&& request,
                                           const RequestContext& context, const FieldPath& path) {
  pipeline::ResetCall call;
  ONCE_ASSIGN_OR_RETURN(call.info, ToInfo(request, context, path));
  ONCE_ASSIGN_OR_RETURN(call.request.fence, ParseFence(path.To("fence"), request.fence()));
  ONCE_RETURN_IF_ERROR(CheckNotEmpty(path.To("reason"), request.reason(), core::kMaxReasonBytes));
  call.author = {.credential_id = context.principal.credential_id,
                 .reason = std::move(*request.mutable_reason())};
  return call;
}

absl::StatusOr<pipeline::LookupCall> ToCall(v1::LookupRequest&& request,
                                            const RequestContext& context, const FieldPath& path) {
  pipeline::LookupCall call;
  ONCE_ASSIGN_OR_RETURN(call.info, ToInfo(request, context, path));
  ONCE_ASSIGN_OR_RETURN(call.wait, ToWait(request.wait(), context, path));
  const policy::Rules& rules = context.policies.For(call.info.tenant, call.info.handler);
  ONCE_ASSIGN_OR_RETURN(call.request.digest, DigestOfPayload(request, rules.digest, context, path));
  call.request.on_lapse = rules.on_lapse;
  call.request.readable_versions = rules.readable_versions;
  return call;
}

}  // namespace once::rpc
