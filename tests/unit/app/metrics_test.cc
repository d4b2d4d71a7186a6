#include "app/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace once::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

rpc::CallRecord Call(absl::string_view method, absl::string_view outcome, std::string tenant) {
  rpc::CallRecord record;
  record.method = method;
  record.outcome = outcome;
  record.tenant = std::move(tenant);
  record.latency = absl::Milliseconds(3);
  return record;
}

// Everything that can happen, once.
void TouchEverything(Metrics& metrics) {
  metrics.SetStore("sqlite");
  metrics.SetReady(true);
  metrics.CallStarted("BatchBegin");
  rpc::CallRecord record = Call("BatchBegin", "batch", "acme");
  record.cancelled = true;
  record.item_outcomes = {{"granted", 2}, {"INVALID_FIELD", 1}};
  metrics.CallEnded(record);
  metrics.OnBatch(3, absl::Milliseconds(2));
  metrics.OnRetry("aborted");
  metrics.OnQueueDepth(0, 7);
  metrics.OnWaiters(5);
  metrics.OnReadBatch(2, absl::Milliseconds(1));
  metrics.OnSessionOpened("write", absl::StatusCode::kOk);
  metrics.OnSessionOpened("write", absl::StatusCode::kUnavailable);
  metrics.OnAuthentication(true, absl::StatusCode::kOk);
}

TEST(Metrics, CountsWhatHappened) {
  Metrics metrics(10);
  TouchEverything(metrics);
  metrics.OnSessionOpened("read", absl::StatusCode::kOk);
  metrics.OnSessionClosed("read");
  const std::string text = metrics.Render(4);
  for (const char* line :
       {"once_calls_total{method=\"BatchBegin\",outcome=\"batch\"} 1",
        "once_calls_in_flight{method=\"BatchBegin\"} 0",
        "once_call_seconds_count{method=\"BatchBegin\"} 1",
        "once_calls_cancelled_total{method=\"BatchBegin\"} 1",
        "once_tenant_calls_total{tenant=\"acme\"} 1",
        "once_batch_items_total{method=\"BatchBegin\",outcome=\"granted\"} 2",
        "once_pipeline_queue_calls{shard=\"0\"} 7", "once_pipeline_waiters 5",
        "once_pipeline_retries_total{why=\"aborted\"} 1",
        "once_pipeline_retries_total{why=\"unknown\"} 0", "once_pipeline_commit_calls_sum 3",
        "once_store_sessions{kind=\"write\"} 1", "once_store_sessions{kind=\"read\"} 0",
        "once_store_sessions_opened_total{kind=\"write\",result=\"unavailable\"} 1",
        "once_authentications_total{result=\"ok\",source=\"cache\"} 1", "once_logs_dropped_total 4",
        "once_ready 1"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat(line, "\n")));
  }
}

TEST(Metrics, CountersFollowTheLogAndNeverGoBack) {
  Metrics metrics(1);
  metrics.Render(4);
  EXPECT_THAT(metrics.Render(9), HasSubstr("once_logs_dropped_total 9\n"));
  EXPECT_THAT(metrics.Render(2), HasSubstr("once_logs_dropped_total 9\n"));
}

TEST(Metrics, OnlyTheFirstTenantsHaveASeriesOfTheirOwn) {
  Metrics metrics(2);
  for (const char* tenant : {"a", "b", "c", "d", "a"}) {
    metrics.CallEnded(Call("Begin", "granted", tenant));
  }
  metrics.CallEnded(Call("Begin", "UNAUTHENTICATED", ""));
  const std::string text = metrics.Render(0);
  EXPECT_THAT(text, HasSubstr("once_tenant_calls_total{tenant=\"a\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("once_tenant_calls_total{tenant=\"b\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("once_tenant_calls_total{tenant=\"~other\"} 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("tenant=\"c\"")));
}

TEST(Metrics, NoTenantsAtAllIsPossible) {
  Metrics metrics(0);
  metrics.CallEnded(Call("Begin", "granted", "a"));
  EXPECT_THAT(metrics.Render(0), HasSubstr("once_tenant_calls_total{tenant=\"~other\"} 1\n"));
}

TEST(Metrics, RendersExactlyTheDocumentedNames) {
  Metrics metrics(1);
  TouchEverything(metrics);
  std::set<std::string> rendered;
  for (absl::string_view line : absl::StrSplit(metrics.Render(0), '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (absl::StartsWith(line, "# TYPE ")) rendered.insert(words[2]);
  }
  std::set<std::string> documented;
  for (const MetricInfo& info : AllMetrics()) documented.insert(std::string(info.name));
  EXPECT_EQ(rendered, documented);
}

TEST(Metrics, ManyThreadsLoseNothing) {
  Metrics metrics(3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics, t] {
      for (int i = 0; i < 500; ++i) {
        metrics.CallStarted("Begin");
        metrics.CallEnded(Call("Begin", i % 2 == 0 ? "granted" : "replayed", absl::StrCat(t)));
        if (i % 100 == 0) metrics.Render(0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = metrics.Render(0);
  EXPECT_THAT(text, HasSubstr("once_calls_total{method=\"Begin\",outcome=\"granted\"} 1000\n"));
  EXPECT_THAT(text, HasSubstr("once_calls_in_flight{method=\"Begin\"} 0\n"));
}

}  // namespace
}  // namespace once::app
