// Between the library's own types and protobuf, so that no protobuf type is in an installed header.
//
// Pure functions. An answer whose meaning this library does not know (an outcome or a receipt
// status of a newer server) is an INTERNAL error, never a guess.
#ifndef ONCE_CLIENT_SRC_CONVERT_H_
#define ONCE_CLIENT_SRC_CONVERT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "once/admin.h"
#include "once/outcomes.h"
#include "once/requests.h"
#include "once/v1/admin_service.pb.h"
#include "once/v1/idempotency_service.pb.h"

namespace once::client_internal {

google::protobuf::Duration ToProto(absl::Duration duration);
absl::Duration FromProto(const google::protobuf::Duration& duration);
absl::Time FromProto(const google::protobuf::Timestamp& time);

v1::BeginRequest ToProto(const BeginRequest& request);
v1::CompleteRequest ToProto(const CompleteRequest& request);
v1::AbandonRequest ToProto(const AbandonRequest& request);
v1::RenewRequest ToProto(const RenewRequest& request);
v1::LookupRequest ToProto(const LookupRequest& request);
v1::CreateCredentialRequest ToProto(const NewCredential& credential);

absl::StatusOr<BeginOutcome> FromProto(const v1::BeginResponse& response);
absl::StatusOr<CompleteOutcome> FromProto(const v1::CompleteResponse& response);
absl::StatusOr<AbandonOutcome> FromProto(const v1::AbandonResponse& response);
absl::StatusOr<RenewOutcome> FromProto(const v1::RenewResponse& response);
absl::StatusOr<LookupOutcome> FromProto(const v1::LookupResponse& response);
Tenant FromProto(const v1::Tenant& tenant);
absl::StatusOr<Credential> FromProto(const v1::Credential& credential);
absl::Status FromProto(const v1::ItemError& error);

// Parts that several services answer with.
std::string ToBytes(const AttemptId& id);
AttemptId FromBytes(const std::string& bytes);
OperationState FromProto(v1::OperationState state);
DeliverySource FromProto(v1::DeliverySource source);
std::optional<Digest> FromProto(const v1::ContentDigest& digest);
absl::StatusOr<Receipt> FromProto(const v1::Receipt& receipt);
absl::StatusOr<Completed> FromProto(const v1::Completed& completed);
InProgress FromProto(const v1::InProgress& in_progress);
ClaimLost FromProto(const v1::ClaimLost& lost);

}  // namespace once::client_internal

#endif  // ONCE_CLIENT_SRC_CONVERT_H_
