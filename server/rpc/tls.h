// Server credentials from PEM files that are watched for renewal.
#ifndef ONCE_RPC_TLS_H_
#define ONCE_RPC_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "absl/status/statusor.h"
#include "rpc/server.h"

namespace once::rpc {

// INVALID_ARGUMENT with the file at fault: unreadable, no certificate, a key that does not belong
// to it. gRPC itself would start and then refuse every handshake without a word. Blocks on the
// files.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeTlsCredentials(
    const TlsOptions& options);

}  // namespace once::rpc

#endif  // ONCE_RPC_TLS_H_
