#include "app/call_log.h"

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace once::app {
namespace {

// A caller's mistake is his to look after; what the server could not do is ours.
LogLevel LevelOf(absl::StatusCode code) {
  if (code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
      code == absl::StatusCode::kDataLoss) {
    return LogLevel::kError;
  }
  if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kResourceExhausted) {
    return LogLevel::kWarn;
  }
  return LogLevel::kInfo;
}

void AddText(LogFields& fields, absl::string_view name, absl::string_view value) {
  if (!value.empty()) fields.Add(name, value);
}

// Refers to `record`. `code` is the code's name.
LogFields FieldsOf(const rpc::CallRecord& record, absl::string_view code) {
  LogFields fields = {{"method", record.method}, {"outcome", record.outcome}};
  if (record.code != absl::StatusCode::kOk) fields.Add("code", code);
  fields.Add("latency_ms", static_cast<double>(absl::ToInt64Microseconds(record.latency)) / 1000);
  AddText(fields, "tenant", record.tenant);
  AddText(fields, "credential", record.credential_id);
  AddText(fields, "handler", record.handler);
  AddText(fields, "event_id", record.event_id);
  if (record.event_id_bytes > 0) fields.Add("event_id_bytes", record.event_id_bytes);
  AddText(fields, "attempt_id", record.attempt_id);
  if (record.fence != 0) fields.Add("fence", record.fence);
  AddText(fields, "trace_id", record.trace_id);
  AddText(fields, "peer", record.peer);
  AddText(fields, "subject", record.subject);
  if (record.items > 0) {
    fields.Add("items", record.items);
    fields.Add("item_outcomes", absl::MakeConstSpan(record.item_outcomes));
  }
  if (record.cancelled) fields.Add("cancelled", true);
  AddText(fields, "error", record.message);
  return fields;
}

bool Wanted(LogCalls which, const rpc::CallRecord& record) {
  switch (which) {
    case LogCalls::kAll:
      return true;
    case LogCalls::kProblems:
      return record.code != absl::StatusCode::kOk;
    case LogCalls::kNone:
      return false;
  }
  return true;
}

}  // namespace

void CallLog::OnCall(const rpc::CallRecord& record) {
  metrics_->CallEnded(record);
  const LogLevel level = LevelOf(record.code);
  if (!Wanted(which_, record) || !log_->Enabled(level)) return;
  log_->WriteLater(level, "call", FieldsOf(record, absl::StatusCodeToString(record.code)));
}

}  // namespace once::app
