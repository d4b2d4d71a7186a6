// What the copies of a Client share.
#ifndef ONCE_CLIENT_SRC_CLIENT_IMPL_H_
#define ONCE_CLIENT_SRC_CLIENT_IMPL_H_

#include <memory>

#include "lease_renewer.h"
#include "once/client.h"

namespace once {

struct Client::Impl {
  Impl(std::shared_ptr<Connection> c, std::shared_ptr<Clock> k,
       client_internal::LeaseRenewer::Drive drive)
      : connection(std::move(c)), clock(std::move(k)), renewer(connection, clock, drive) {}

  const std::shared_ptr<Connection> connection;
  const std::shared_ptr<Clock> clock;
  client_internal::LeaseRenewer renewer;  // last: it uses the others
};

// For the library's own tests: a client without a thread.
struct ClientPeer {
  static Client WithoutThread(std::shared_ptr<Connection> connection,
                              std::shared_ptr<Clock> clock) {
    Client client(connection, clock);
    client.impl_ = std::make_shared<Client::Impl>(std::move(connection), std::move(clock),
                                                  client_internal::LeaseRenewer::Drive::kManual);
    return client;
  }
  static client_internal::LeaseRenewer& Renewer(const Client& client) {
    return client.impl_->renewer;
  }
};

}  // namespace once

#endif  // ONCE_CLIENT_SRC_CLIENT_IMPL_H_
