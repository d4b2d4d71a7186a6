// From errors inside to errors on the wire: google.rpc.Status with ErrorInfo, RetryInfo and
// BadRequest under the standard type URLs.
//
// Pure functions; thread-safe. An error that was not made by base::MakeError is a defect: it
// becomes INTERNAL with a fixed text, so that nothing from inside (SQL, host names, other tenants'
// data) leaks.
#ifndef ONCE_RPC_ERROR_DETAILS_H_
#define ONCE_RPC_ERROR_DETAILS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "once/v1/types.pb.h"

namespace once::rpc {

// The same error, or INTERNAL where it is not one of ours. `error` is not OK.
absl::Status Public(const absl::Status& error);

grpc::Status ToGrpcStatus(const absl::Status& error);

void FillItemError(const absl::Status& error, v1::ItemError* item);

}  // namespace once::rpc

#endif  // ONCE_RPC_ERROR_DETAILS_H_
