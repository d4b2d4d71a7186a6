// One log record and the metrics for every call.
#ifndef ONCE_APP_CALL_LOG_H_
#define ONCE_APP_CALL_LOG_H_

#include "absl/strings/string_view.h"
#include "app/logging.h"
#include "app/metrics.h"
#include "app/settings.h"
#include "rpc/call_observer.h"

namespace once::app {

// Thread-safe; does not block. `log` and `metrics` must outlive it.
class CallLog final : public rpc::CallObserver {
 public:
  CallLog(LogCalls which, Log* log, Metrics* metrics)
      : which_(which), log_(log), metrics_(metrics) {}

  void OnCallStarted(absl::string_view method) override { metrics_->CallStarted(method); }
  void OnCall(const rpc::CallRecord& record) override;

 private:
  const LogCalls which_;
  Log* const log_;
  Metrics* const metrics_;
};

}  // namespace once::app

#endif  // ONCE_APP_CALL_LOG_H_
