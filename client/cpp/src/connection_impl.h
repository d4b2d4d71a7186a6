// Connections that repeat what may be repeated, over a stub.
#ifndef ONCE_CLIENT_SRC_CONNECTION_IMPL_H_
#define ONCE_CLIENT_SRC_CONNECTION_IMPL_H_

#include <memory>

#include "once/admin.h"
#include "once/connection.h"
#include "once/operator.h"
#include "once/options.h"
#include "stub.h"

namespace once::client_internal {

// `options` must have a clock and a random source.
std::shared_ptr<Connection> MakeConnectionOver(std::shared_ptr<Stub> stub,
                                               ConnectionOptions options);
std::shared_ptr<AdminConnection> MakeAdminConnectionOver(std::shared_ptr<AdminStub> stub,
                                                         ConnectionOptions options);

std::shared_ptr<OperatorConnection> MakeOperatorConnectionOver(std::shared_ptr<OperatorStub> stub,
                                                               ConnectionOptions options);

}  // namespace once::client_internal

#endif  // ONCE_CLIENT_SRC_CONNECTION_IMPL_H_
