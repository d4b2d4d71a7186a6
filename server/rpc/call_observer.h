// What the RPC layer tells about the calls it answers; implemented by `app` for metrics and logs.
//
// Never holds content, results, tokens or secrets. Functions may be called from any thread, also
// from threads of gRPC and of the pipeline: they must not block.
#ifndef ONCE_RPC_CALL_OBSERVER_H_
#define ONCE_RPC_CALL_OBSERVER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace once::rpc {

// One finished call.
struct CallRecord {
  // "Begin" and so on: the name of the method without its service. Static storage.
  absl::string_view method;
  // "granted", "completed", "replayed" and so on; for errors the reason ("INVALID_FIELD"); "batch"
  // for a batch that was answered; "ok" for calls of AdminService. From a small fixed set, fit for
  // a metric's label. Static storage.
  absl::string_view outcome;
  absl::StatusCode code = absl::StatusCode::kOk;
  // The caller went away, or its deadline passed, before the answer.
  bool cancelled = false;
  absl::Duration latency;  // from the arrival of the request to the answer

  // Empty where the call was refused before they were known.
  std::string tenant;
  std::string credential_id;
  std::string handler;
  std::string event_id;  // escaped, cut to 64 bytes
  size_t event_id_bytes = 0;
  std::string attempt_id;  // 32 hexadecimal digits
  int64_t fence = 0;       // that was granted or sent; 0: none
  std::string trace_id;    // 32 hexadecimal digits of a valid traceparent
  std::string peer;
  // Of an error; without anything that came from content.
  std::string message;
  // Calls of AdminService that change something: what they changed, "tenant acme", "credential
  // 0123456789abcdef".
  std::string subject;
  // Batches: the number of items, and how many had which outcome or reason.
  size_t items = 0;
  std::vector<std::pair<absl::string_view, size_t>> item_outcomes;
};

class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // A call of one of our services arrived; one OnCall follows.
  virtual void OnCallStarted(absl::string_view method) = 0;
  virtual void OnCall(const CallRecord& record) = 0;
};

}  // namespace once::rpc

#endif  // ONCE_RPC_CALL_OBSERVER_H_
