// The commit pipeline: bounded queues between RPC handlers and the database.
//
// A handler hands over a call and returns. Committers, each with one connection and one shard of
// the keys, take what has gathered while their last transaction ran (no timer) and run it as one
// short transaction; then every caller is answered. Readers do the same for lookups. Waiting calls
// hold neither a thread nor a connection.
//
// Thread-safety: all public functions may be called from any thread and never block on the
// database. Callbacks run once, on a pipeline thread or (refusals) on the caller's, and must not
// block.
#ifndef ONCE_PIPELINE_PIPELINE_H_
#define ONCE_PIPELINE_PIPELINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "core/decide.h"
#include "core/handler_policy.h"
#include "core/types.h"
#include "store/store.h"

namespace once::pipeline {

// What a server gives each committer: while one connection commits, another works on the next
// transaction; a third where transactions are full.
inline constexpr int kSessionsPerCommitter = 3;

struct Options {
  // Committers = shards of the key space. Bounded by Store::max_write_sessions().
  int committers = 1;
  // Connections of each committer: while one commits, the next takes the turn. Together bounded by
  // Store::max_write_sessions().
  int sessions_per_committer = 1;
  int readers = 1;
  // Claims that are kept in memory until they are completed (bytes by estimate, 0: none), so that
  // Complete needs no read.
  size_t claim_cache_bytes = 0;
  // Completed operations that are kept in memory (bytes by estimate, 0: none), and for how long at
  // most.
  size_t receipt_cache_bytes = 0;
  absl::Duration receipt_cache_ttl = absl::Minutes(1);
  // Log entries of duplicates: written before the answer, or within the window after it. For calls
  // that do not say it themselves.
  core::AttemptLog attempt_log = core::AttemptLog::kDurable;
  absl::Duration attempt_log_window = absl::Milliseconds(200);
  // Per committer and per reader: beyond, calls are refused with OVERLOADED at once.
  size_t max_queue_calls = 10'000;
  size_t max_queue_bytes = size_t{64} << 20;
  // Per transaction.
  size_t max_batch_calls = 256;
  size_t max_batch_bytes = size_t{4} << 20;
  // Waiting calls: in all, and per tenant (beyond: OVERLOADED, QUOTA_EXCEEDED).
  size_t max_waiters = 20'000;
  size_t max_waiters_per_tenant = 10'000;
  // How often keys that are waited for are read, so that completions on other servers are seen.
  // Waking by this server's own commits is immediate.
  absl::Duration wait_poll_interval = absl::Milliseconds(50);
  // The interval grows up to this while a key does not change.
  absl::Duration max_wait_poll_interval = absl::Milliseconds(500);
  // How long a batch is repeated after deadlocks, lost connections and unknown commits before its
  // calls are answered with STORE_UNAVAILABLE or OUTCOME_UNKNOWN.
  absl::Duration retry_window = absl::Seconds(10);
  // Seeds the jitter of retries; 0: from the operating system.
  uint64_t seed = 0;
};

// Set by the RPC layer when the caller went away: the call is dropped before its transaction (never
// inside), or stops waiting.
struct Cancellation {
  std::atomic<bool> cancelled{false};
};

// What every call carries. `handler` is a name; the pipeline interns it.
struct CallInfo {
  core::TenantId tenant;
  std::string handler;
  std::string event_id;
  // By the server's clock. A call whose deadline has passed is answered DEADLINE_EXCEEDED before
  // the transaction.
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<Cancellation> cancellation;  // may be null
};

struct BeginCall {
  CallInfo info;
  core::BeginRequest request;
  store::DeliveryInfo delivery;
  // How long to wait while another attempt holds the claim (0: not at all); the answer then comes
  // before the deadline.
  absl::Duration wait;
  std::optional<core::AttemptLog> attempt_log = std::nullopt;  // of the handler
};
struct CompleteCall {
  CallInfo info;
  core::CompleteRequest request;
};
struct AbandonCall {
  CallInfo info;
  core::AbandonRequest request;
  std::string note;
};
struct RenewCall {
  CallInfo info;
  core::RenewRequest request;
};
struct ResolveCall {
  CallInfo info;
  core::ResolveRequest request;
  store::Author author;  // its reason is the evidence
};
struct ResetCall {
  CallInfo info;
  core::ResetRequest request;
  store::Author author;
};
struct LookupCall {
  CallInfo info;
  core::LookupRequest request;
  absl::Duration wait;
};

// Exactly one call. Errors are made by base::MakeError: OVERLOADED, DRAINING, QUOTA_EXCEEDED,
// STORE_UNAVAILABLE, OUTCOME_UNKNOWN, DEADLINE_EXCEEDED, INTERNAL. NotFound is an outcome here.
// Receipts come with their bodies, but for a CompletionConflict of which only the tombstone is
// left.
template <typename Outcome>
using Done = absl::AnyInvocable<void(absl::StatusOr<Outcome>) &&>;

// Told about what happens; implemented by metrics. All functions may be called from any thread and
// must not block.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void OnBatch(size_t commands, absl::Duration transaction) {
    (void)commands, (void)transaction;
  }
  // `why` is "aborted", "unavailable", "unknown" or "split".
  virtual void OnRetry(absl::string_view why) { (void)why; }
  // After a committer took a batch: what still waits in its queue.
  virtual void OnQueueDepth(int shard, size_t calls) { (void)shard, (void)calls; }
  // Told in order, under the lock of the waiting room: must not call the pipeline.
  virtual void OnWaiters(size_t waiting) { (void)waiting; }
  virtual void OnReadBatch(size_t keys, absl::Duration query) { (void)keys, (void)query; }
  // A Begin or a Lookup was answered from memory, or (false) was not known there.
  virtual void OnReceiptCache(bool hit) { (void)hit; }
  // Entries of the buffered attempt log that could not be written.
  virtual void OnAttemptsLost(size_t entries) { (void)entries; }
  // The store's own words on any failure but a conflict, for the log; callers get none of it.
  virtual void OnStoreError(const absl::Status& status) { (void)status; }
};

class Pipeline {
 public:
  virtual ~Pipeline() = default;

  virtual void Begin(BeginCall call, Done<core::BeginOutcome> done) = 0;
  virtual void Complete(CompleteCall call, Done<core::CompleteOutcome> done) = 0;
  virtual void Abandon(AbandonCall call, Done<core::AbandonOutcome> done) = 0;
  virtual void Renew(RenewCall call, Done<core::RenewOutcome> done) = 0;
  // An operator's decision; also ends what this server remembers of the claim.
  virtual void Resolve(ResolveCall call, Done<core::ResolveOutcome> done) = 0;
  // Likewise, and of the receipt. Other servers remember receipts for receipt_cache_ttl at most.
  virtual void Reset(ResetCall call, Done<core::ResetOutcome> done) = 0;
  virtual void Lookup(LookupCall call, Done<core::LookupOutcome> done) = 0;

  // True while the last contact of every committer with the database succeeded; for readiness. An
  // idle committer tries to connect until it can, so that readiness comes back without calls.
  virtual bool healthy() const = 0;

  // Refuses new calls with DRAINING, answers waiting calls with what is known now (in progress),
  // runs what is queued, and returns when all calls are answered, or at `deadline` after answering
  // the rest with DRAINING (queued) or OUTCOME_UNKNOWN (in a transaction). Blocks.
  virtual void Drain(absl::Time deadline) = 0;
};

// Starts the threads. `store`, `clock` and `observer` (may be null) must outlive the pipeline. The
// destructor drains without grace, then waits for threads that hang in the database.
std::unique_ptr<Pipeline> StartPipeline(const Options& options, store::Store* store,
                                        const base::Clock* clock, Observer* observer);

// For tests: with a clock that they move (see timing.h).
class Timing;
std::unique_ptr<Pipeline> StartPipelineWithTiming(const Options& options, store::Store* store,
                                                  Timing* timing, Observer* observer);

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_PIPELINE_H_
