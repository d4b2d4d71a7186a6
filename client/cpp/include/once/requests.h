// What a caller may ask. Plain values, as in types.h; limits and defaults are those of the protocol
// (proto/once/v1/idempotency_service.proto). A zero duration means the default.
#ifndef ONCE_REQUESTS_H_
#define ONCE_REQUESTS_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "once/outcomes.h"
#include "once/types.h"

namespace once {

struct BeginRequest {
  OperationId operation;
  Payload payload;
  // Required: `AttemptId::Generate()`, once per logical try.
  AttemptId attempt_id;
  absl::Duration lease;  // 100 ms to 24 h; default 30 s
  absl::Duration wait;   // while another attempt holds the claim; 0 to 60 s
  std::string consumer;
  std::string handler_version;
  std::optional<Delivery> delivery;
  std::optional<Causation> causation;
  std::optional<Aggregate> aggregate;
  // Granted with an earlier attempt, the caller asks its business data what that one did before it
  // acts. Handlers with the policy PROBE grant such a claim to nobody else.
  bool can_probe = false;
};

struct CompleteRequest {
  OperationId operation;
  AttemptId attempt_id;
  Fence fence;
  ReceiptStatus status = ReceiptStatus::kSucceeded;
  std::string result;  // at most 1 MiB by default
  std::string content_type;
};

struct AbandonRequest {
  OperationId operation;
  AttemptId attempt_id;
  Fence fence;
  AbandonMode mode = AbandonMode::kRelease;
  absl::Duration retry_delay;  // with kRelease: how long nobody shall be granted, 0 to 24 h
  std::string reason;          // for the attempt log, at most 255 bytes
};

struct RenewRequest {
  OperationId operation;
  AttemptId attempt_id;
  Fence fence;
  absl::Duration lease;  // from now on; a renewal never shortens a lease
};

struct LookupRequest {
  OperationId operation;
  std::optional<Payload> payload;  // set: other content is reported as a conflict
  absl::Duration wait;             // for completion, while a claim is held; 0 to 60 s
};

}  // namespace once

#endif  // ONCE_REQUESTS_H_
