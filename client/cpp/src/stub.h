// One sending of one request: what the retry loop repeats, and what tests replace.
//
// Implementations are thread-safe; every method blocks for at most `call.timeout`.
#ifndef ONCE_CLIENT_SRC_STUB_H_
#define ONCE_CLIENT_SRC_STUB_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "once/v1/admin_service.pb.h"
#include "once/v1/idempotency_service.pb.h"
#include "once/v1/operator_service.pb.h"

namespace once::client_internal {

struct RpcCall {
  absl::Duration timeout;
  std::string traceparent;
};

class Stub {
 public:
  virtual ~Stub() = default;
  virtual absl::StatusOr<v1::BeginResponse> Begin(const RpcCall& call,
                                                  const v1::BeginRequest& request) = 0;
  virtual absl::StatusOr<v1::CompleteResponse> Complete(const RpcCall& call,
                                                        const v1::CompleteRequest& request) = 0;
  virtual absl::StatusOr<v1::AbandonResponse> Abandon(const RpcCall& call,
                                                      const v1::AbandonRequest& request) = 0;
  virtual absl::StatusOr<v1::RenewResponse> Renew(const RpcCall& call,
                                                  const v1::RenewRequest& request) = 0;
  virtual absl::StatusOr<v1::LookupResponse> Lookup(const RpcCall& call,
                                                    const v1::LookupRequest& request) = 0;
  virtual absl::StatusOr<v1::BatchBeginResponse> BatchBegin(
      const RpcCall& call, const v1::BatchBeginRequest& request) = 0;
  virtual absl::StatusOr<v1::BatchCompleteResponse> BatchComplete(
      const RpcCall& call, const v1::BatchCompleteRequest& request) = 0;
  virtual absl::StatusOr<v1::BatchRenewResponse> BatchRenew(
      const RpcCall& call, const v1::BatchRenewRequest& request) = 0;
};

class AdminStub {
 public:
  virtual ~AdminStub() = default;
  virtual absl::StatusOr<v1::CreateTenantResponse> CreateTenant(
      const RpcCall& call, const v1::CreateTenantRequest& request) = 0;
  virtual absl::StatusOr<v1::ListTenantsResponse> ListTenants(
      const RpcCall& call, const v1::ListTenantsRequest& request) = 0;
  virtual absl::StatusOr<v1::CreateCredentialResponse> CreateCredential(
      const RpcCall& call, const v1::CreateCredentialRequest& request) = 0;
  virtual absl::StatusOr<v1::ListCredentialsResponse> ListCredentials(
      const RpcCall& call, const v1::ListCredentialsRequest& request) = 0;
  virtual absl::StatusOr<v1::RotateCredentialResponse> RotateCredential(
      const RpcCall& call, const v1::RotateCredentialRequest& request) = 0;
  virtual absl::StatusOr<v1::RevokeCredentialResponse> RevokeCredential(
      const RpcCall& call, const v1::RevokeCredentialRequest& request) = 0;
  virtual absl::StatusOr<v1::GetHandlerPoliciesResponse> GetHandlerPolicies(
      const RpcCall& call, const v1::GetHandlerPoliciesRequest& request) = 0;
  virtual absl::StatusOr<v1::ListHandlerPolicyVersionsResponse> ListHandlerPolicyVersions(
      const RpcCall& call, const v1::ListHandlerPolicyVersionsRequest& request) = 0;
  virtual absl::StatusOr<v1::ApplyHandlerPoliciesResponse> ApplyHandlerPolicies(
      const RpcCall& call, const v1::ApplyHandlerPoliciesRequest& request) = 0;
  virtual absl::StatusOr<v1::ListAuditRecordsResponse> ListAuditRecords(
      const RpcCall& call, const v1::ListAuditRecordsRequest& request) = 0;
};

class OperatorStub {
 public:
  virtual ~OperatorStub() = default;
  virtual absl::StatusOr<v1::GetOperationResponse> GetOperation(
      const RpcCall& call, const v1::GetOperationRequest& request) = 0;
  virtual absl::StatusOr<v1::ListAttemptsResponse> ListAttempts(
      const RpcCall& call, const v1::ListAttemptsRequest& request) = 0;
  virtual absl::StatusOr<v1::ResolveResponse> Resolve(const RpcCall& call,
                                                      const v1::ResolveRequest& request) = 0;
  virtual absl::StatusOr<v1::ResetResponse> Reset(const RpcCall& call,
                                                  const v1::ResetRequest& request) = 0;
};

}  // namespace once::client_internal

#endif  // ONCE_CLIENT_SRC_STUB_H_
