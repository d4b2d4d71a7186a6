#include "app/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <cstdlib>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "app/process_stats.h"
#include "app/version.h"

namespace once::app {
namespace {

constexpr absl::string_view kOtherTenants = "~other";  // no tenant can be called that

// Seconds; dense where commits and round trips lie, up to the longest wait.
const std::vector<double>& TimeBuckets() {
  static const auto& buckets = *new std::vector<double>{
      0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60};
  return buckets;
}

const std::vector<double>& CountBuckets() {
  static const auto& buckets =
      *new std::vector<double>{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  return buckets;
}

MetricInfo InfoOf(absl::string_view name) {
  for (MetricInfo& info : AllMetrics()) {
    if (info.name == name) return std::move(info);
  }
  std::abort();  // a metric without its row in the table: every test of this file ends here
}

absl::string_view TypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "";
}

// The metrics of one name, by label values. A family of the library looks labels up by building a
// map of strings; this remembers what it answered.
template <typename Metric>
class Labelled {
 public:
  template <typename... BuildArgs>
  Labelled(prometheus::Registry& registry, absl::string_view name, BuildArgs... build_args)
      : info_(InfoOf(name)),
        family_(Build(registry)),
        add_([this, build_args...](const prometheus::Labels& labels) -> Metric& {
          return family_.Add(labels, build_args...);
        }) {}

  Metric& Get(std::initializer_list<absl::string_view> values) ABSL_LOCKS_EXCLUDED(mutex_) {
    const std::string key = absl::StrJoin(values, absl::string_view("\0", 1));
    {
      absl::ReaderMutexLock lock(&mutex_);
      const auto found = known_.find(key);
      if (found != known_.end()) return *found->second;
    }
    absl::MutexLock lock(&mutex_);
    Metric*& metric = known_[key];
    if (metric == nullptr) metric = &add_(LabelsOf(values));
    return *metric;
  }

  // As Get, but beyond `max` different values `other` is used instead.
  Metric& GetBounded(absl::string_view value, size_t max, absl::string_view other)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    bool full = false;
    {
      absl::ReaderMutexLock lock(&mutex_);
      const auto found = known_.find(value);
      if (found != known_.end()) return *found->second;
      full = known_.size() >= max;
    }
    if (full) return Get({other});
    {
      absl::MutexLock lock(&mutex_);
      Metric*& metric = known_[value];
      if (metric != nullptr) return *metric;
      if (known_.size() <= max) return *(metric = &add_(LabelsOf({value})));
      known_.erase(value);  // others came first
    }
    return Get({other});
  }

 private:
  prometheus::Family<Metric>& Build(prometheus::Registry& registry) const;

  prometheus::Labels LabelsOf(std::initializer_list<absl::string_view> values) const {
    prometheus::Labels labels;
    auto name = info_.labels.begin();
    for (absl::string_view value : values) labels.emplace(*name++, value);
    return labels;
  }

  const MetricInfo info_;
  prometheus::Family<Metric>& family_;
  const std::function<Metric&(const prometheus::Labels&)> add_;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, Metric*> known_ ABSL_GUARDED_BY(mutex_);
};

template <>
prometheus::Family<prometheus::Counter>& Labelled<prometheus::Counter>::Build(
    prometheus::Registry& registry) const {
  return prometheus::BuildCounter()
      .Name(std::string(info_.name))
      .Help(std::string(info_.help))
      .Register(registry);
}

template <>
prometheus::Family<prometheus::Gauge>& Labelled<prometheus::Gauge>::Build(
    prometheus::Registry& registry) const {
  return prometheus::BuildGauge()
      .Name(std::string(info_.name))
      .Help(std::string(info_.help))
      .Register(registry);
}

template <>
prometheus::Family<prometheus::Histogram>& Labelled<prometheus::Histogram>::Build(
    prometheus::Registry& registry) const {
  return prometheus::BuildHistogram()
      .Name(std::string(info_.name))
      .Help(std::string(info_.help))
      .Register(registry);
}

// The metric of a name without labels; there from the start.
template <typename Metric>
class Single {
 public:
  template <typename... BuildArgs>
  Single(prometheus::Registry& registry, absl::string_view name, BuildArgs... build_args)
      : labelled_(registry, name, build_args...), metric_(labelled_.Get({})) {}

  Metric* operator->() { return &metric_; }
  Metric& operator*() { return metric_; }

 private:
  Labelled<Metric> labelled_;
  Metric& metric_;
};

// "deadline_exceeded"; the status codes that stores and authenticators use.
absl::string_view ResultLabel(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return "ok";
    case absl::StatusCode::kUnauthenticated:
      return "unauthenticated";
    case absl::StatusCode::kUnavailable:
      return "unavailable";
    case absl::StatusCode::kResourceExhausted:
      return "overloaded";
    case absl::StatusCode::kFailedPrecondition:
      return "failed_precondition";
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDataLoss:
    default:  // the enum of a library may grow
      return "error";
  }
}

}  // namespace

std::vector<MetricInfo> AllMetrics() {
  using enum MetricType;
  return {
      {"once_calls_total",
       kCounter,
       {"method", "outcome"},
       "Calls answered. `outcome` is the outcome in lower case (granted, replayed, in_progress, "
       "...), the error's reason in upper "
       "case (INVALID_FIELD, OVERLOADED, ...), `batch` for a batch that was answered, or `ok` for "
       "AdminService and for looks of OperatorService."},
      {"once_call_seconds",
       kHistogram,
       {"method"},
       "Time from a request's arrival to its answer; waiting for an outcome included."},
      {"once_calls_in_flight", kGauge, {"method"}, "Calls that arrived and are not answered yet."},
      {"once_calls_cancelled_total",
       kCounter,
       {"method"},
       "Calls whose caller went away, or whose deadline passed, before the answer."},
      {"once_tenant_calls_total",
       kCounter,
       {"tenant"},
       "Calls by tenant; `~other` for those of tenants beyond --metrics-max-tenants."},
      {"once_batch_items_total",
       kCounter,
       {"method", "outcome"},
       "Items of batch calls, with the outcomes and reasons of single calls."},
      {"once_pipeline_queue_calls",
       kGauge,
       {"shard"},
       "Calls that wait for a committer or reader, when it last took some."},
      {"once_pipeline_commit_calls", kHistogram, {}, "Calls of one transaction."},
      {"once_pipeline_commit_seconds",
       kHistogram,
       {},
       "Time of one transaction, its commit included."},
      {"once_pipeline_retries_total",
       kCounter,
       {"why"},
       "Transactions run again: aborted (deadlock, lock timeout, certification), unavailable "
       "(connection lost before the commit), "
       "unknown (lost during the commit), split (one bad call taken out)."},
      {"once_pipeline_waiters", kGauge, {}, "Calls that wait for another attempt's outcome."},
      {"once_pipeline_read_keys", kHistogram, {}, "Keys of one read."},
      {"once_pipeline_read_seconds", kHistogram, {}, "Time of one read."},
      {"once_receipt_cache_lookups_total",
       kCounter,
       {"result"},
       "Begins and Lookups that were looked for in the receipt cache: hit or miss."},
      {"once_attempt_log_lost_total",
       kCounter,
       {},
       "Entries of the buffered attempt log that could not be written."},
      {"once_store_sessions", kGauge, {"kind"}, "Open database connections: write, read, control."},
      {"once_store_sessions_opened_total",
       kCounter,
       {"kind", "result"},
       "Attempts to open a database connection. More than at the start means lost connections."},
      {"once_authentications_total",
       kCounter,
       {"source", "result"},
       "Credentials checked. `source` is cache, or store where the answer had to be read."},
      {"once_policy_reads_total",
       kCounter,
       {"result"},
       "Reads of handler policies: ok or error. While they fail, the last known ones stay in "
       "force."},
      {"once_policy_read_time_seconds",
       kGauge,
       {},
       "When the handler policies were last read, Unix time: they are not older than that."},
      {"once_logs_dropped_total",
       kCounter,
       {},
       "Log records dropped because the log stream was too slow."},
      {"once_ready", kGauge, {}, "1 while /readyz answers 200."},
      {"once_build_info", kGauge, {"version", "store"}, "Always 1; says what runs."},
      {"process_start_time_seconds", kGauge, {}, "When the process started, Unix time."},
      {"process_cpu_seconds_total", kCounter, {}, "Processor time used."},
      {"process_resident_memory_bytes", kGauge, {}, "Memory in use."},
      {"process_open_fds", kGauge, {}, "Open file descriptors."},
  };
}

std::string MetricsMarkdown() {
  std::string out =
      "# Metrics of onced\n\n"
      "<!-- Made by `onced help-markdown metrics`; a test compares this page with the program. "
      "-->\n\n"
      "`GET /metrics` on the HTTP address gives Prometheus text. Series appear when they first "
      "have a value. Names and labels are "
      "kept\n"
      "stable within a major version. No label holds a handler, an event id or anything else that "
      "callers choose freely.\n\n"
      "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n";
  for (const MetricInfo& info : AllMetrics()) {
    absl::StrAppend(&out, "| `", info.name, "` | ", TypeName(info.type), " | ",
                    absl::StrJoin(info.labels, ", "), " | ", info.help, " |\n");
  }
  return out;
}

struct Metrics::Series {
  template <typename Metric>
  using L = Labelled<Metric>;
  template <typename Metric>
  using S = Single<Metric>;
  using Counter = prometheus::Counter;
  using Gauge = prometheus::Gauge;
  using Histogram = prometheus::Histogram;

  // What every call of one method and outcome is counted by.
  struct Call {
    Gauge* in_flight = nullptr;
    Counter* calls = nullptr;
    Histogram* seconds = nullptr;
  };

  explicit Series(size_t tenants) : max_tenants(tenants) {}

  // Found with one look-up. Both names must have static storage.
  Call CallOf(absl::string_view method, absl::string_view outcome)
      ABSL_LOCKS_EXCLUDED(known_mutex) {
    const std::pair key(method, outcome);
    {
      absl::ReaderMutexLock lock(&known_mutex);
      const auto found = known_calls.find(key);
      if (found != known_calls.end()) return found->second;
    }
    const Call call = {&in_flight.Get({method}), &calls.Get({method, outcome}),
                       &call_seconds.Get({method})};
    absl::MutexLock lock(&known_mutex);
    known_calls.emplace(key, call);
    return call;
  }

  const size_t max_tenants;
  prometheus::Registry registry;
  L<Counter> calls{registry, "once_calls_total"};
  L<Histogram> call_seconds{registry, "once_call_seconds", TimeBuckets()};
  L<Gauge> in_flight{registry, "once_calls_in_flight"};
  L<Counter> cancelled{registry, "once_calls_cancelled_total"};
  L<Counter> tenant_calls{registry, "once_tenant_calls_total"};
  L<Counter> batch_items{registry, "once_batch_items_total"};
  L<Gauge> queue_calls{registry, "once_pipeline_queue_calls"};
  S<Histogram> commit_calls{registry, "once_pipeline_commit_calls", CountBuckets()};
  S<Histogram> commit_seconds{registry, "once_pipeline_commit_seconds", TimeBuckets()};
  L<Counter> retries{registry, "once_pipeline_retries_total"};
  S<Gauge> waiters{registry, "once_pipeline_waiters"};
  S<Histogram> read_keys{registry, "once_pipeline_read_keys", CountBuckets()};
  S<Histogram> read_seconds{registry, "once_pipeline_read_seconds", TimeBuckets()};
  L<Counter> receipt_cache{registry, "once_receipt_cache_lookups_total"};
  S<Counter> attempts_lost{registry, "once_attempt_log_lost_total"};
  L<Gauge> sessions{registry, "once_store_sessions"};
  L<Counter> sessions_opened{registry, "once_store_sessions_opened_total"};
  L<Counter> authentications{registry, "once_authentications_total"};
  L<Counter> policy_reads{registry, "once_policy_reads_total"};
  S<Gauge> policy_read_time{registry, "once_policy_read_time_seconds"};
  S<Counter> logs_dropped{registry, "once_logs_dropped_total"};
  S<Gauge> ready{registry, "once_ready"};
  L<Gauge> build_info{registry, "once_build_info"};
  S<Gauge> start_time{registry, "process_start_time_seconds"};
  S<Counter> cpu{registry, "process_cpu_seconds_total"};
  S<Gauge> memory{registry, "process_resident_memory_bytes"};
  S<Gauge> open_files{registry, "process_open_fds"};
  absl::Mutex known_mutex;
  absl::flat_hash_map<std::pair<absl::string_view, absl::string_view>, Call> known_calls
      ABSL_GUARDED_BY(known_mutex);
  absl::Mutex
      render_mutex;  // counters that follow another count are moved by one scraper at a time
};

Metrics::Metrics(size_t max_tenants) : series_(std::make_unique<Series>(max_tenants)) {
  Series& s = *series_;
  s.start_time->Set(ReadProcessStats().start_time_seconds);
  s.waiters->Set(0);
  s.ready->Set(0);
  // Known from the start, so that a rate over the first retry is right.
  for (absl::string_view why : {"aborted", "unavailable", "unknown", "split"}) {
    s.retries.Get({why});
  }
  for (absl::string_view result : {"hit", "miss"}) s.receipt_cache.Get({result});
  for (absl::string_view result : {"ok", "error"}) s.policy_reads.Get({result});
}

Metrics::~Metrics() = default;

void Metrics::CallStarted(absl::string_view method) {
  series_->in_flight.Get({method}).Increment();
}

void Metrics::CallEnded(const rpc::CallRecord& record) {
  Series& s = *series_;
  const Series::Call call = s.CallOf(record.method, record.outcome);
  call.in_flight->Decrement();
  call.calls->Increment();
  call.seconds->Observe(absl::ToDoubleSeconds(record.latency));
  if (record.cancelled) s.cancelled.Get({record.method}).Increment();
  if (!record.tenant.empty()) {
    s.tenant_calls.GetBounded(record.tenant, s.max_tenants, kOtherTenants).Increment();
  }
  for (const auto& [outcome, count] : record.item_outcomes) {
    s.batch_items.Get({record.method, outcome}).Increment(static_cast<double>(count));
  }
}

void Metrics::OnBatch(size_t commands, absl::Duration transaction) {
  series_->commit_calls->Observe(static_cast<double>(commands));
  series_->commit_seconds->Observe(absl::ToDoubleSeconds(transaction));
}

void Metrics::OnRetry(absl::string_view why) { series_->retries.Get({why}).Increment(); }

void Metrics::OnReceiptCache(bool hit) {
  series_->receipt_cache.Get({hit ? "hit" : "miss"}).Increment();
}

void Metrics::OnAttemptsLost(size_t entries) {
  series_->attempts_lost->Increment(static_cast<double>(entries));
}

void Metrics::OnQueueDepth(int shard, size_t calls) {
  series_->queue_calls.Get({absl::StrCat(shard)}).Set(static_cast<double>(calls));
}

void Metrics::OnWaiters(size_t waiting) { series_->waiters->Set(static_cast<double>(waiting)); }

void Metrics::OnReadBatch(size_t keys, absl::Duration query) {
  series_->read_keys->Observe(static_cast<double>(keys));
  series_->read_seconds->Observe(absl::ToDoubleSeconds(query));
}

void Metrics::OnSessionOpened(absl::string_view kind, absl::StatusCode result) {
  series_->sessions_opened.Get({kind, ResultLabel(result)}).Increment();
  if (result == absl::StatusCode::kOk) series_->sessions.Get({kind}).Increment();
}

void Metrics::OnSessionClosed(absl::string_view kind) { series_->sessions.Get({kind}).Decrement(); }

void Metrics::OnAuthentication(bool from_cache, absl::StatusCode result) {
  series_->authentications.Get({from_cache ? "cache" : "store", ResultLabel(result)}).Increment();
}

void Metrics::OnPoliciesRead(bool good) {
  series_->policy_reads.Get({good ? "ok" : "error"}).Increment();
  if (good) series_->policy_read_time->SetToCurrentTime();
}

void Metrics::SetReady(bool ready) { series_->ready->Set(ready ? 1 : 0); }

void Metrics::SetStore(absl::string_view engine) {
  series_->build_info.Get({Version(), engine}).Set(1);
}

std::string Metrics::Render(int64_t logs_dropped) {
  Series& s = *series_;
  absl::MutexLock lock(&s.render_mutex);
  const ProcessStats process = ReadProcessStats();
  s.memory->Set(process.resident_bytes);
  s.open_files->Set(process.open_files);
  const auto follow = [](prometheus::Counter& counter, double value) {
    if (value > counter.Value()) counter.Increment(value - counter.Value());
  };
  follow(*s.cpu, process.cpu_seconds);
  follow(*s.logs_dropped, static_cast<double>(logs_dropped));
  return prometheus::TextSerializer().Serialize(s.registry.Collect());
}

}  // namespace once::app
