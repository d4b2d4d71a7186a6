// The numbers at /metrics, as Prometheus text. docs/reference/metrics.md is made from the table
// here.
//
// Label values come from small fixed sets, but for tenants, of which only the first ones get a
// series of their own. Handlers and event ids are never labels.
#ifndef ONCE_APP_METRICS_H_
#define ONCE_APP_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "app/observed.h"
#include "pipeline/pipeline.h"
#include "rpc/call_observer.h"

namespace once::app {

enum class MetricType : uint8_t { kCounter, kGauge, kHistogram };

struct MetricInfo {
  absl::string_view name;
  MetricType type = MetricType::kCounter;
  std::vector<absl::string_view> labels;
  absl::string_view help;
};

// In the order of the documentation.
std::vector<MetricInfo> AllMetrics();

// docs/reference/metrics.md, whole.
std::string MetricsMarkdown();

// Thread-safe; nothing blocks but on short locks.
class Metrics final : public pipeline::Observer,
                      public StoreObserver,
                      public AuthenticationObserver {
 public:
  // Calls of the first `max_tenants` tenants are counted under their names, those of others under
  // "~other".
  explicit Metrics(size_t max_tenants);
  ~Metrics() override;

  void CallStarted(absl::string_view method);
  void CallEnded(const rpc::CallRecord& record);

  void OnBatch(size_t commands, absl::Duration transaction) override;
  void OnRetry(absl::string_view why) override;
  void OnReceiptCache(bool hit) override;
  void OnAttemptsLost(size_t entries) override;
  void OnQueueDepth(int shard, size_t calls) override;
  void OnWaiters(size_t waiting) override;
  void OnReadBatch(size_t keys, absl::Duration query) override;

  void OnSessionOpened(absl::string_view kind, absl::StatusCode result) override;
  void OnSessionClosed(absl::string_view kind) override;

  void OnAuthentication(bool from_cache, absl::StatusCode result) override;

  void OnPoliciesRead(bool good);

  void SetReady(bool ready);
  // Which engine runs, for once_build_info.
  void SetStore(absl::string_view engine);

  // The text for a scraper. `logs_dropped` is the log's count at this time.
  std::string Render(int64_t logs_dropped);

 private:
  struct Series;
  std::unique_ptr<Series> series_;
};

}  // namespace once::app

#endif  // ONCE_APP_METRICS_H_
