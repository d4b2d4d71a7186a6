// How error details travel inside an absl::Status: as payloads under the type URLs of google.rpc,
// just as they came over the wire, so that other code that knows those reads them too.
//
// Functions of values; thread-safe.
#ifndef ONCE_CLIENT_SRC_STATUS_DETAILS_H_
#define ONCE_CLIENT_SRC_STATUS_DETAILS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "once/error.h"

namespace once::client_internal {

// A status with details made here: outcomes that Execute reports as errors.
absl::Status MakeError(absl::StatusCode code, absl::string_view message, const ErrorInfo& info);

// From what gRPC delivers: code, message, and the serialised google.rpc.Status with the details, if
// any.
absl::Status FromWire(int code, absl::string_view message, absl::string_view serialized_details);

// The same status with a longer message.
absl::Status Annotate(const absl::Status& status, absl::string_view suffix);

// What a handler said about its failure.
struct HandlerVerdict {
  enum class Kind { kRelease, kForget, kUnknown };
  Kind kind = Kind::kRelease;
  absl::Duration delay;
};
HandlerVerdict VerdictOf(const absl::Status& status);

// The server's name of the reason → enum; kUnknown where it is not known.
ErrorReason ReasonFromName(absl::string_view name);

}  // namespace once::client_internal

#endif  // ONCE_CLIENT_SRC_STATUS_DETAILS_H_
