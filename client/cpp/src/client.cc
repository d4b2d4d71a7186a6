#include "once/client.h"

#include <utility>

#include "client_impl.h"
#include "execution.h"

namespace once {

Client::Client(std::shared_ptr<Connection> connection, std::shared_ptr<Clock> clock)
    : impl_(std::make_shared<Impl>(std::move(connection),
                                   clock == nullptr ? MakeSystemClock() : std::move(clock),
                                   client_internal::LeaseRenewer::Drive::kThread)) {}

absl::StatusOr<BeginOutcome> Client::Begin(const BeginRequest& request,
                                           const CallOptions& options) const {
  return impl_->connection->Begin(request, options);
}

absl::StatusOr<CompleteOutcome> Client::Complete(const CompleteRequest& request,
                                                 const CallOptions& options) const {
  return impl_->connection->Complete(request, options);
}

absl::StatusOr<AbandonOutcome> Client::Abandon(const AbandonRequest& request,
                                               const CallOptions& options) const {
  return impl_->connection->Abandon(request, options);
}

absl::StatusOr<RenewOutcome> Client::Renew(const RenewRequest& request,
                                           const CallOptions& options) const {
  return impl_->connection->Renew(request, options);
}

absl::StatusOr<LookupOutcome> Client::Lookup(const LookupRequest& request,
                                             const CallOptions& options) const {
  return impl_->connection->Lookup(request, options);
}

absl::StatusOr<std::vector<absl::StatusOr<BeginOutcome>>> Client::BatchBegin(
    const std::vector<BeginRequest>& requests, const CallOptions& options) const {
  return impl_->connection->BatchBegin(requests, options);
}

absl::StatusOr<std::vector<absl::StatusOr<CompleteOutcome>>> Client::BatchComplete(
    const std::vector<CompleteRequest>& requests, const CallOptions& options) const {
  return impl_->connection->BatchComplete(requests, options);
}

absl::StatusOr<std::vector<absl::StatusOr<RenewOutcome>>> Client::BatchRenew(
    const std::vector<RenewRequest>& requests, const CallOptions& options) const {
  return impl_->connection->BatchRenew(requests, options);
}

absl::StatusOr<Executed> Client::Execute(const OperationId& operation, const Payload& payload,
                                         Handler handler, const ExecuteOptions& options) const {
  // Keeps the renewer alive even where the handler drops the last client.
  const std::shared_ptr<Impl> impl = impl_;
  client_internal::Execution execution(*impl->connection, *impl->clock, impl->renewer, operation,
                                       payload, options);
  return execution.Run(handler);
}

}  // namespace once
