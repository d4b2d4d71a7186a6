#include "convert.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "status_details.h"

namespace once::client_internal {
namespace {

// The range of google.protobuf.Duration: ten thousand years.
constexpr int64_t kMaxProtoSeconds = 315576000000;

absl::Status NotUnderstood(absl::string_view what) {
  return absl::InternalError(absl::StrCat(
      "the answer has ", what, " that this client does not know; it may be older than the server"));
}

// ---- enums ----

v1::DigestScheme EnumToProto(DigestScheme scheme) {
  switch (scheme) {
    case DigestScheme::kHandlerDefault:
      return v1::DIGEST_SCHEME_UNSPECIFIED;
    case DigestScheme::kRawSha256:
      return v1::DIGEST_SCHEME_RAW_SHA256;
    case DigestScheme::kJsonJcsSha256:
      return v1::DIGEST_SCHEME_JSON_JCS_SHA256;
  }
  return v1::DIGEST_SCHEME_UNSPECIFIED;
}

v1::DeliverySource EnumToProto(DeliverySource source) {
  switch (source) {
    case DeliverySource::kUnknown:
      return v1::DELIVERY_SOURCE_UNSPECIFIED;
    case DeliverySource::kFirst:
      return v1::DELIVERY_SOURCE_FIRST;
    case DeliverySource::kRedelivery:
      return v1::DELIVERY_SOURCE_REDELIVERY;
    case DeliverySource::kDeadLetter:
      return v1::DELIVERY_SOURCE_DEAD_LETTER;
    case DeliverySource::kCompensation:
      return v1::DELIVERY_SOURCE_COMPENSATION;
    case DeliverySource::kReplay:
      return v1::DELIVERY_SOURCE_REPLAY;
  }
  return v1::DELIVERY_SOURCE_UNSPECIFIED;
}

v1::ReceiptStatus EnumToProto(ReceiptStatus status) {
  switch (status) {
    case ReceiptStatus::kSucceeded:
      return v1::RECEIPT_STATUS_SUCCEEDED;
    case ReceiptStatus::kRejected:
      return v1::RECEIPT_STATUS_REJECTED;
  }
  return v1::RECEIPT_STATUS_UNSPECIFIED;
}

v1::AbandonRequest::Mode EnumToProto(AbandonMode mode) {
  switch (mode) {
    case AbandonMode::kRelease:
      return v1::AbandonRequest::MODE_RELEASE;
    case AbandonMode::kForget:
      return v1::AbandonRequest::MODE_FORGET;
  }
  return v1::AbandonRequest::MODE_UNSPECIFIED;
}

v1::Role EnumToProto(Role role) {
  switch (role) {
    case Role::kConsumer:
      return v1::ROLE_CONSUMER;
    case Role::kOperator:
      return v1::ROLE_OPERATOR;
    case Role::kAdmin:
      return v1::ROLE_ADMIN;
  }
  return v1::ROLE_UNSPECIFIED;
}

std::optional<ReceiptStatus> EnumFromProto(v1::ReceiptStatus status) {
  if (status == v1::RECEIPT_STATUS_SUCCEEDED) return ReceiptStatus::kSucceeded;
  if (status == v1::RECEIPT_STATUS_REJECTED) return ReceiptStatus::kRejected;
  return std::nullopt;
}

// For people only; an unknown state reads as claimed, the one that promises least.
OperationState EnumFromProto(v1::OperationState state) {
  if (state == v1::OPERATION_STATE_LAPSED) return OperationState::kLapsed;
  if (state == v1::OPERATION_STATE_IN_DOUBT) return OperationState::kInDoubt;
  if (state == v1::OPERATION_STATE_RELEASED) return OperationState::kReleased;
  if (state == v1::OPERATION_STATE_COMPLETED) return OperationState::kCompleted;
  if (state == v1::OPERATION_STATE_TOMBSTONE) return OperationState::kTombstone;
  return OperationState::kClaimed;
}

// ---- parts ----

std::string BytesOf(const AttemptId& id) { return std::string(id.bytes.begin(), id.bytes.end()); }

AttemptId AttemptIdFrom(const std::string& bytes) {
  AttemptId id;
  std::copy_n(bytes.begin(), std::min(bytes.size(), id.bytes.size()), id.bytes.begin());
  return id;
}

template <typename Request>
void SetOperation(const OperationId& operation, Request& request) {
  request.set_handler(operation.handler);
  request.set_event_id(operation.event_id);
}

template <typename Request>
void SetPayload(const Payload& payload, Request& request) {
  if (const auto* content = std::get_if<Content>(&payload)) {
    request.mutable_content()->set_data(content->data);
    request.mutable_content()->set_scheme(EnumToProto(content->scheme));
    return;
  }
  const auto& digest = std::get<Digest>(payload);
  request.mutable_digest()->set_scheme(EnumToProto(digest.scheme));
  request.mutable_digest()->set_sha256(digest.sha256.data(), digest.sha256.size());
}

std::optional<Digest> DigestFrom(const v1::ContentDigest& proto) {
  Digest digest;
  if (proto.sha256().size() != digest.sha256.size()) return std::nullopt;
  digest.scheme = proto.scheme() == v1::DIGEST_SCHEME_JSON_JCS_SHA256 ? DigestScheme::kJsonJcsSha256
                                                                      : DigestScheme::kRawSha256;
  std::copy(proto.sha256().begin(), proto.sha256().end(), digest.sha256.begin());
  return digest;
}

Claim ClaimFrom(const v1::Claim& proto) {
  return {AttemptIdFrom(proto.attempt_id()), Fence{proto.fence()},
          FromProto(proto.lease_remaining()), FromProto(proto.lease_expire_time())};
}

EarlierAttempt EarlierFrom(const v1::EarlierAttempt& proto) {
  return {AttemptIdFrom(proto.attempt_id()),
          Fence{proto.fence()},
          proto.consumer(),
          proto.handler_version(),
          FromProto(proto.begin_time()),
          FromProto(proto.lease_expire_time())};
}

absl::StatusOr<Receipt> ReceiptFrom(const v1::Receipt& proto) {
  const auto status = EnumFromProto(proto.status());
  if (!status.has_value()) return NotUnderstood("a receipt status");
  Receipt receipt;
  receipt.status = *status;
  receipt.result = proto.result();
  receipt.content_type = proto.content_type();
  receipt.handler_version = proto.handler_version();
  receipt.complete_time = FromProto(proto.complete_time());
  receipt.fence = Fence{proto.fence()};
  receipt.result_size = proto.result_size();
  receipt.result_omitted = proto.result_omitted();
  return receipt;
}

Granted GrantedFrom(const v1::Granted& proto) {
  Granted granted;
  granted.claim = ClaimFrom(proto.claim());
  granted.attempt_number = proto.attempt_number();
  if (proto.has_earlier_attempt()) granted.earlier_attempt = EarlierFrom(proto.earlier_attempt());
  granted.recovery = proto.recovery();
  return granted;
}

absl::StatusOr<Completed> CompletedFrom(const v1::Completed& proto) {
  auto receipt = ReceiptFrom(proto.receipt());
  if (!receipt.ok()) return receipt.status();
  Completed completed;
  completed.receipt = *std::move(receipt);
  completed.replayed = proto.replayed();
  if (proto.has_dedupe_guaranteed_until_time()) {
    completed.dedupe_guaranteed_until_time = FromProto(proto.dedupe_guaranteed_until_time());
  }
  return completed;
}

// A reason that this client does not know is as good as HELD: do not execute, come back.
InProgress::Reason ReasonFrom(v1::InProgress::Reason reason) {
  switch (static_cast<int>(reason)) {
    case v1::InProgress::REASON_DELAYED:
      return InProgress::Reason::kDelayed;
    case v1::InProgress::REASON_AGGREGATE_BUSY:
      return InProgress::Reason::kAggregateBusy;
    default:
      return InProgress::Reason::kHeld;
  }
}

InProgress InProgressFrom(const v1::InProgress& proto) {
  InProgress in_progress;
  in_progress.reason = ReasonFrom(proto.reason());
  in_progress.blocking_event_id = proto.blocking_event_id();
  in_progress.consumer = proto.consumer();
  in_progress.handler_version = proto.handler_version();
  in_progress.lease_remaining = FromProto(proto.lease_remaining());
  in_progress.suggested_wait = FromProto(proto.suggested_wait());
  in_progress.begin_time = FromProto(proto.begin_time());
  in_progress.attempt_number = proto.attempt_number();
  in_progress.first_digest = DigestFrom(proto.first_digest());
  return in_progress;
}

Conflict ConflictFrom(const v1::Conflict& proto) {
  Conflict conflict;
  conflict.difference = proto.difference() == v1::Conflict::DIFFERENCE_DIGEST_SCHEME
                            ? Conflict::Difference::kDigestScheme
                            : Conflict::Difference::kDigest;
  conflict.first_digest = DigestFrom(proto.first_digest());
  conflict.request_digest = DigestFrom(proto.request_digest());
  conflict.state = EnumFromProto(proto.state());
  conflict.consumer = proto.consumer();
  conflict.lease_remaining = FromProto(proto.lease_remaining());
  conflict.first_begin_time = FromProto(proto.first_begin_time());
  return conflict;
}

InDoubt InDoubtFrom(const v1::InDoubt& proto) {
  InDoubt in_doubt;
  for (const auto& earlier : proto.earlier_attempts()) {
    in_doubt.earlier_attempts.push_back(EarlierFrom(earlier));
  }
  in_doubt.earlier_attempt_count = proto.earlier_attempt_count();
  in_doubt.resolution = proto.resolution();
  in_doubt.probe_allowed = proto.probe_allowed();
  return in_doubt;
}

Stale StaleFrom(const v1::Stale& proto) {
  return {{proto.current().id(), proto.current().version()}, proto.current_event_id()};
}

absl::StatusOr<Expired> ExpiredFrom(const v1::Expired& proto) {
  const auto status = EnumFromProto(proto.status());
  if (!status.has_value()) return NotUnderstood("a receipt status");
  return Expired{*status, FromProto(proto.complete_time()), proto.handler_version()};
}

Unclaimed UnclaimedFrom(const v1::Unclaimed& proto) {
  Unclaimed unclaimed;
  unclaimed.state = EnumFromProto(proto.state());
  if (proto.has_earlier_attempt()) unclaimed.earlier_attempt = EarlierFrom(proto.earlier_attempt());
  return unclaimed;
}

ClaimLost ClaimLostFrom(const v1::ClaimLost& proto) {
  ClaimLost lost;
  lost.state = EnumFromProto(proto.state());
  lost.consumer = proto.consumer();
  lost.fence = Fence{proto.fence()};
  if (proto.has_take_over_time()) lost.take_over_time = FromProto(proto.take_over_time());
  return lost;
}

// Puts a part that may not be understood into the outcome's variant.
template <typename Outcome, typename Part>
absl::StatusOr<Outcome> Widen(absl::StatusOr<Part> part) {
  if (!part.ok()) return part.status();
  return Outcome(*std::move(part));
}

}  // namespace

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  absl::Duration rest;
  const int64_t seconds = absl::IDivDuration(duration, absl::Seconds(1), &rest);
  if (seconds > kMaxProtoSeconds || seconds < -kMaxProtoSeconds) {
    proto.set_seconds(seconds > 0 ? kMaxProtoSeconds : -kMaxProtoSeconds);
    return proto;
  }
  proto.set_seconds(seconds);
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return proto;
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

absl::Time FromProto(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

v1::BeginRequest ToProto(const BeginRequest& request) {
  v1::BeginRequest proto;
  SetOperation(request.operation, proto);
  SetPayload(request.payload, proto);
  proto.set_attempt_id(BytesOf(request.attempt_id));
  if (request.lease != absl::ZeroDuration()) *proto.mutable_lease() = ToProto(request.lease);
  if (request.wait != absl::ZeroDuration()) *proto.mutable_wait() = ToProto(request.wait);
  proto.set_consumer(request.consumer);
  proto.set_handler_version(request.handler_version);
  if (request.delivery.has_value()) {
    proto.mutable_delivery()->set_reference(request.delivery->reference);
    proto.mutable_delivery()->set_source(EnumToProto(request.delivery->source));
  }
  if (request.causation.has_value()) {
    SetOperation(request.causation->operation, *proto.mutable_causation());
    proto.mutable_causation()->set_reason(request.causation->reason);
  }
  if (request.aggregate.has_value()) {
    proto.mutable_aggregate()->set_id(request.aggregate->id);
    proto.mutable_aggregate()->set_version(request.aggregate->version);
  }
  proto.set_can_probe(request.can_probe);
  return proto;
}

v1::CompleteRequest ToProto(const CompleteRequest& request) {
  v1::CompleteRequest proto;
  SetOperation(request.operation, proto);
  proto.set_attempt_id(BytesOf(request.attempt_id));
  proto.set_fence(request.fence.value);
  proto.set_status(EnumToProto(request.status));
  proto.set_result(request.result);
  proto.set_content_type(request.content_type);
  return proto;
}

v1::AbandonRequest ToProto(const AbandonRequest& request) {
  v1::AbandonRequest proto;
  SetOperation(request.operation, proto);
  proto.set_attempt_id(BytesOf(request.attempt_id));
  proto.set_fence(request.fence.value);
  proto.set_mode(EnumToProto(request.mode));
  if (request.retry_delay != absl::ZeroDuration()) {
    *proto.mutable_retry_delay() = ToProto(request.retry_delay);
  }
  proto.set_reason(request.reason);
  return proto;
}

v1::RenewRequest ToProto(const RenewRequest& request) {
  v1::RenewRequest proto;
  SetOperation(request.operation, proto);
  proto.set_attempt_id(BytesOf(request.attempt_id));
  proto.set_fence(request.fence.value);
  if (request.lease != absl::ZeroDuration()) *proto.mutable_lease() = ToProto(request.lease);
  return proto;
}

v1::LookupRequest ToProto(const LookupRequest& request) {
  v1::LookupRequest proto;
  SetOperation(request.operation, proto);
  if (request.payload.has_value()) SetPayload(*request.payload, proto);
  if (request.wait != absl::ZeroDuration()) *proto.mutable_wait() = ToProto(request.wait);
  return proto;
}

v1::CreateCredentialRequest ToProto(const NewCredential& credential) {
  v1::CreateCredentialRequest proto;
  proto.set_tenant(credential.tenant);
  proto.set_role(EnumToProto(credential.role));
  for (const auto& pattern : credential.handler_patterns) proto.add_handler_patterns(pattern);
  proto.set_description(credential.description);
  if (credential.ttl != absl::ZeroDuration()) *proto.mutable_ttl() = ToProto(credential.ttl);
  return proto;
}

absl::StatusOr<BeginOutcome> FromProto(const v1::BeginResponse& response) {
  switch (response.outcome_case()) {
    case v1::BeginResponse::kGranted:
      return GrantedFrom(response.granted());
    case v1::BeginResponse::kCompleted:
      return Widen<BeginOutcome>(CompletedFrom(response.completed()));
    case v1::BeginResponse::kInProgress:
      return InProgressFrom(response.in_progress());
    case v1::BeginResponse::kConflict:
      return ConflictFrom(response.conflict());
    case v1::BeginResponse::kInDoubt:
      return InDoubtFrom(response.in_doubt());
    case v1::BeginResponse::kStale:
      return StaleFrom(response.stale());
    case v1::BeginResponse::kExpired:
      return Widen<BeginOutcome>(ExpiredFrom(response.expired()));
    case v1::BeginResponse::OUTCOME_NOT_SET:
      break;
  }
  return NotUnderstood("an outcome of Begin");
}

absl::StatusOr<CompleteOutcome> FromProto(const v1::CompleteResponse& response) {
  switch (response.outcome_case()) {
    case v1::CompleteResponse::kCompleted:
      return Widen<CompleteOutcome>(CompletedFrom(response.completed()));
    case v1::CompleteResponse::kClaimLost:
      return ClaimLostFrom(response.claim_lost());
    case v1::CompleteResponse::kConflict: {
      auto receipt = ReceiptFrom(response.conflict().receipt());
      if (!receipt.ok()) return receipt.status();
      return CompletionConflict{*std::move(receipt)};
    }
    case v1::CompleteResponse::OUTCOME_NOT_SET:
      break;
  }
  return NotUnderstood("an outcome of Complete");
}

absl::StatusOr<AbandonOutcome> FromProto(const v1::AbandonResponse& response) {
  switch (response.outcome_case()) {
    case v1::AbandonResponse::kAbandoned:
      return Abandoned{response.abandoned().mode() == v1::AbandonRequest::MODE_FORGET
                           ? AbandonMode::kForget
                           : AbandonMode::kRelease};
    case v1::AbandonResponse::kClaimLost:
      return ClaimLostFrom(response.claim_lost());
    case v1::AbandonResponse::OUTCOME_NOT_SET:
      break;
  }
  return NotUnderstood("an outcome of Abandon");
}

absl::StatusOr<RenewOutcome> FromProto(const v1::RenewResponse& response) {
  switch (response.outcome_case()) {
    case v1::RenewResponse::kClaim:
      return ClaimFrom(response.claim());
    case v1::RenewResponse::kClaimLost:
      return ClaimLostFrom(response.claim_lost());
    case v1::RenewResponse::OUTCOME_NOT_SET:
      break;
  }
  return NotUnderstood("an outcome of Renew");
}

absl::StatusOr<LookupOutcome> FromProto(const v1::LookupResponse& response) {
  switch (response.outcome_case()) {
    case v1::LookupResponse::kCompleted:
      return Widen<LookupOutcome>(CompletedFrom(response.completed()));
    case v1::LookupResponse::kInProgress:
      return InProgressFrom(response.in_progress());
    case v1::LookupResponse::kConflict:
      return ConflictFrom(response.conflict());
    case v1::LookupResponse::kInDoubt:
      return InDoubtFrom(response.in_doubt());
    case v1::LookupResponse::kExpired:
      return Widen<LookupOutcome>(ExpiredFrom(response.expired()));
    case v1::LookupResponse::kUnclaimed:
      return UnclaimedFrom(response.unclaimed());
    case v1::LookupResponse::OUTCOME_NOT_SET:
      break;
  }
  return NotUnderstood("an outcome of Lookup");
}

Tenant FromProto(const v1::Tenant& tenant) {
  return {tenant.name(), FromProto(tenant.create_time())};
}

absl::StatusOr<Credential> FromProto(const v1::Credential& proto) {
  Credential credential;
  credential.credential_id = proto.credential_id();
  credential.tenant = proto.tenant();
  if (proto.role() == v1::ROLE_CONSUMER) {
    credential.role = Role::kConsumer;
  } else if (proto.role() == v1::ROLE_OPERATOR) {
    credential.role = Role::kOperator;
  } else if (proto.role() == v1::ROLE_ADMIN) {
    credential.role = Role::kAdmin;
  } else {
    return NotUnderstood("a role");
  }
  credential.handler_patterns.assign(proto.handler_patterns().begin(),
                                     proto.handler_patterns().end());
  credential.description = proto.description();
  credential.create_time = FromProto(proto.create_time());
  if (proto.has_expire_time()) credential.expire_time = FromProto(proto.expire_time());
  if (proto.has_revoke_time()) credential.revoke_time = FromProto(proto.revoke_time());
  return credential;
}

absl::Status FromProto(const v1::ItemError& error) {
  ErrorInfo info;
  info.reason_name = error.reason();
  info.metadata.insert(error.metadata().begin(), error.metadata().end());
  if (error.has_retry_delay()) info.retry_delay = FromProto(error.retry_delay());
  const bool known = error.code() > 0 && error.code() <= 16;
  return MakeError(known ? static_cast<absl::StatusCode>(error.code()) : absl::StatusCode::kUnknown,
                   error.message(), info);
}

std::string ToBytes(const AttemptId& id) { return BytesOf(id); }
AttemptId FromBytes(const std::string& bytes) { return AttemptIdFrom(bytes); }
OperationState FromProto(v1::OperationState state) { return EnumFromProto(state); }
DeliverySource FromProto(v1::DeliverySource source) {
  switch (static_cast<int>(source)) {
    case v1::DELIVERY_SOURCE_FIRST:
      return DeliverySource::kFirst;
    case v1::DELIVERY_SOURCE_REDELIVERY:
      return DeliverySource::kRedelivery;
    case v1::DELIVERY_SOURCE_DEAD_LETTER:
      return DeliverySource::kDeadLetter;
    case v1::DELIVERY_SOURCE_COMPENSATION:
      return DeliverySource::kCompensation;
    case v1::DELIVERY_SOURCE_REPLAY:
      return DeliverySource::kReplay;
    default:
      return DeliverySource::kUnknown;
  }
}
std::optional<Digest> FromProto(const v1::ContentDigest& digest) { return DigestFrom(digest); }
absl::StatusOr<Receipt> FromProto(const v1::Receipt& receipt) { return ReceiptFrom(receipt); }
absl::StatusOr<Completed> FromProto(const v1::Completed& completed) {
  return CompletedFrom(completed);
}
InProgress FromProto(const v1::InProgress& in_progress) { return InProgressFrom(in_progress); }
ClaimLost FromProto(const v1::ClaimLost& lost) { return ClaimLostFrom(lost); }

}  // namespace once::client_internal
