#include "rpc/operator_operations.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "rpc/page_token.h"
#include "rpc/response.h"
#include "rpc/status_macros.h"
#include "rpc/validate.h"

namespace once::rpc {
namespace {

using base::InvalidField;

// An operation by its names.
struct Named {
  core::TenantId tenant;
  std::string handler;
  std::string event_id;
};

template <typename Request>
absl::StatusOr<Named> ToNamed(const Request& request, const RequestContext& context) {
  ONCE_RETURN_IF_ERROR(CheckName(Field("handler"), request.handler(), core::kMaxHandlerBytes));
  ONCE_RETURN_IF_ERROR(CheckCovered(context.principal, request.handler()));
  ONCE_RETURN_IF_ERROR(
      CheckNotEmpty(Field("event_id"), request.event_id(), core::kMaxEventIdBytes));
  return Named{.tenant = context.principal.tenant,
               .handler = request.handler(),
               .event_id = request.event_id()};
}

absl::Status NoSuchOperation(const Named& named) {
  return base::MakeError(base::ErrorReason::kOperationNotFound,
                         "no such operation: it was never begun, or it was forgotten",
                         {{"handler", named.handler}});
}

// OPERATION_NOT_FOUND where nobody ever used the handler's name.
absl::StatusOr<core::OperationKey> KeyOf(store::ControlSession& session, const Named& named) {
  const absl::StatusOr<core::HandlerId> handler =
      session.InternHandler(named.tenant, named.handler, /*create=*/false);
  if (absl::IsNotFound(handler.status())) return NoSuchOperation(named);
  ONCE_RETURN_IF_ERROR(handler.status());
  return core::OperationKey{
      .tenant = named.tenant, .handler = *handler, .event_id = named.event_id};
}

absl::StatusOr<v1::GetOperationResponse> Get(store::ControlSession& session, const Named& named,
                                             core::LapsePolicy on_lapse) {
  ONCE_ASSIGN_OR_RETURN(const core::OperationKey key, KeyOf(session, named));
  ONCE_ASSIGN_OR_RETURN(store::OperationRead read, session.ReadOperation(key));
  if (!read.row.has_value()) return NoSuchOperation(named);
  v1::GetOperationResponse response;
  FillOperation({.handler = named.handler, .event_id = named.event_id, .on_lapse = on_lapse},
                *std::move(read.row), read.now, response.mutable_operation());
  FillPastReceipts(std::move(read.past), response.mutable_operation());
  return response;
}

absl::StatusOr<v1::ListAttemptsResponse> List(store::ControlSession& session, const Named& named,
                                              const std::string& query,
                                              const std::optional<store::EntryId>& after,
                                              int size) {
  ONCE_ASSIGN_OR_RETURN(const core::OperationKey key, KeyOf(session, named));
  // One more than the page, to know whether there is another one.
  ONCE_ASSIGN_OR_RETURN(std::vector<store::LoggedAttempt> rows,
                        session.ListAttempts(key, after, size + 1));
  if (rows.empty() && !after.has_value()) return NoSuchOperation(named);
  v1::ListAttemptsResponse response;
  store::EntryId last{};
  for (store::LoggedAttempt& row : rows) {
    if (response.attempts_size() == size) {
      response.set_next_page_token(MakePageToken(
          query, absl::string_view(reinterpret_cast<const char*>(last.data()), last.size())));
      break;
    }
    last = row.entry.entry;
    FillAttempt(std::move(row), response.add_attempts());
  }
  return response;
}

}  // namespace

absl::StatusOr<AdminWork<v1::GetOperationResponse>> Prepare(const v1::GetOperationRequest& request,
                                                            const RequestContext& context) {
  ONCE_ASSIGN_OR_RETURN(Named named, ToNamed(request, context));
  const core::LapsePolicy on_lapse = context.policies.For(named.tenant, named.handler).on_lapse;
  return [named = std::move(named), on_lapse](store::ControlSession& session) {
    return Get(session, named, on_lapse);
  };
}

absl::StatusOr<AdminWork<v1::ListAttemptsResponse>> Prepare(const v1::ListAttemptsRequest& request,
                                                            const RequestContext& context) {
  ONCE_ASSIGN_OR_RETURN(Named named, ToNamed(request, context));
  ONCE_ASSIGN_OR_RETURN(const int size,
                        ParsePageSize(Field("page_size"), request.page_size(), context.limits));
  std::string query = absl::StrCat("attempts ", named.tenant.value, " ", named.handler, " ",
                                   absl::BytesToHexString(named.event_id));
  ONCE_ASSIGN_OR_RETURN(const std::string last, ParsePageToken(query, request.page_token()));
  std::optional<store::EntryId> after;
  if (!last.empty()) {
    if (last.size() != sizeof(store::EntryId)) {
      return InvalidField("page_token",
                          "is not the next_page_token of an earlier page of the same query");
    }
    std::memcpy(after.emplace().data(), last.data(), last.size());
  }
  return [named = std::move(named), query = std::move(query), after, size](
             store::ControlSession& session) { return List(session, named, query, after, size); };
}

}  // namespace once::rpc
