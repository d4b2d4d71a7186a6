// Stubs over gRPC, and the check of the options that they are made from.
#ifndef ONCE_CLIENT_SRC_GRPC_STUB_H_
#define ONCE_CLIENT_SRC_GRPC_STUB_H_

#include <memory>

#include "absl/status/statusor.h"
#include "once/options.h"
#include "retry_loop.h"
#include "stub.h"

namespace once::client_internal {

// INVALID_ARGUMENT: lists every problem.
absl::Status CheckOptions(const ConnectionOptions& options);

// Fills in the system's clock and random source.
ConnectionOptions WithDefaults(ConnectionOptions options);

// The policies of a connection for one of its calls.
RetryContext ContextFor(const ConnectionOptions& connection, const CallOptions& call);

// All expect checked options with defaults. Errors: a TLS file that cannot be read.
absl::StatusOr<std::shared_ptr<Stub>> MakeGrpcStub(const ConnectionOptions& options);
absl::StatusOr<std::shared_ptr<AdminStub>> MakeGrpcAdminStub(const ConnectionOptions& options);
absl::StatusOr<std::shared_ptr<OperatorStub>> MakeGrpcOperatorStub(
    const ConnectionOptions& options);

}  // namespace once::client_internal

#endif  // ONCE_CLIENT_SRC_GRPC_STUB_H_
