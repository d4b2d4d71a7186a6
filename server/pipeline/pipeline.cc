#include "pipeline/pipeline.h"

#include <algorithm>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "base/random_id.h"
#include "pipeline/attempt_buffer.h"
#include "pipeline/body_reader.h"
#include "pipeline/call.h"
#include "pipeline/committer.h"
#include "pipeline/handler_names.h"
#include "pipeline/reader.h"
#include "pipeline/reply.h"
#include "pipeline/row_cache.h"
#include "pipeline/timekeeper.h"
#include "pipeline/timing.h"
#include "pipeline/wait_poller.h"
#include "pipeline/wait_room.h"
#include "pipeline/worker.h"
#include "store/batch.h"

namespace once::pipeline {
namespace {

constexpr size_t kMaxHandlerNames = 100'000;

// Longer than nearly all work takes; a later Complete reads its row.
constexpr absl::Duration kClaimsKept = absl::Minutes(10);

// A waiting call is answered this long before its deadline, so that the answer still arrives.
constexpr absl::Duration kAnswerMargin = absl::Milliseconds(20);

Life LifeOf(const CallInfo& info, absl::Time now) {
  return Life{.arrived = now, .deadline = info.deadline, .cancellation = info.cancellation};
}

absl::Time WaitUntil(const CallInfo& info, absl::Duration wait, absl::Time now) {
  if (wait <= absl::ZeroDuration()) return absl::InfinitePast();
  return std::min(now + wait, info.deadline - kAnswerMargin);
}

size_t SizeOf(const CallInfo& info) {
  return sizeof(WriteCall) + 2 * (info.handler.size() + info.event_id.size());
}
size_t SizeOf(const store::DeliveryInfo& delivery) {
  return delivery.reference.size() + delivery.cause_handler.size() +
         delivery.cause_event_id.size() + delivery.cause_reason.size() +
         delivery.aggregate_id.size();
}

class PipelineImpl final : public Pipeline {
 public:
  PipelineImpl(const Options& options, store::Store* store, const base::Clock* clock,
               Timing* timing, Observer* observer)
      : options_(options),
        real_timing_(clock),
        timing_(timing != nullptr ? timing : &real_timing_),
        observer_(observer != nullptr ? observer : &deaf_observer_),
        stop_(timing_),
        names_(kMaxHandlerNames),
        receipts_(options.receipt_cache_bytes, options.receipt_cache_ttl),
        claims_(options.claim_cache_bytes, kClaimsKept),
        shared_{&options_, store, timing_, observer_, &stop_, &names_, &receipts_, &claims_},
        timekeeper_(timing_),
        seeds_(options.seed != 0 ? options.seed : std::random_device{}()),
        bodies_(shared_, seeds_()),
        room_(&options_, timing_, observer_, &timekeeper_, &bodies_),
        attempts_(shared_, seeds_()),
        poller_(shared_, seeds_(), &room_, [this](WriteCall& call) { return SendAgain(call); }) {
    const int sessions = std::max(1, store->max_write_sessions());
    shards_ = std::clamp(options.committers, 1, sessions);
    const int per_shard = std::clamp(options.sessions_per_committer, 1, sessions / shards_);
    for (int shard = 0; shard < shards_; ++shard) {
      const auto lane = std::make_shared<Lane<WriteCall>>(
          KeyedQueue<WriteCall>::Bounds{.calls = options.max_queue_calls,
                                        .bytes = options.max_queue_bytes},
          timing_);
      for (int i = 0; i < per_shard; ++i) {
        committers_.push_back(
            std::make_unique<Committer>(shared_, shard, lane, seeds_(), &room_, &bodies_));
      }
    }
    for (int i = 0; i < std::max(1, options.readers); ++i) {
      readers_.push_back(std::make_unique<Reader>(shared_, seeds_(), &room_, &bodies_));
    }
    StartThreads();
  }

  ~PipelineImpl() override {
    Drain(timing_->Now());
    stop_.Stop();
    ForEachWorker([](auto& worker) { worker.Close(); });
    poller_.Stop();
    ForEachWorker([](auto& worker) { worker.Join(); });
    timekeeper_.Stop();
  }

  void Begin(BeginCall call, Done<core::BeginOutcome> done) override {
    const size_t bytes = SizeOf(call.delivery) + call.request.consumer.size();
    const absl::Duration wait = call.wait;
    const core::AttemptLog log = call.attempt_log.value_or(options_.attempt_log);
    store::BeginCommand command{{}, {}, std::move(call.request), std::move(call.delivery)};
    // In the durable mode a transaction is needed anyway, and then the row counts its deliveries.
    if (receipts_.enabled() && log == core::AttemptLog::kBuffered) {
      if (const auto known = Known(call.info)) {
        return AnswerRepeated(*known, std::move(call.info), std::move(command), bytes,
                              std::move(done));
      }
    }
    Submit<core::BeginOutcome>(std::move(call.info), std::move(command), bytes, wait,
                               std::move(done));
  }
  void Complete(CompleteCall call, Done<core::CompleteOutcome> done) override {
    const size_t bytes = call.request.result.size() + call.request.content_type.size();
    store::CompleteCommand command{{}, {}, std::move(call.request), nullptr};
    if (claims_.enabled()) {
      // Once completed it is of no use, and a Complete that is repeated reads the row.
      command.known =
          claims_.Take({call.info.tenant, call.info.handler, call.info.event_id}, timing_->Now());
    }
    Submit<core::CompleteOutcome>(std::move(call.info), std::move(command), bytes,
                                  absl::ZeroDuration(), std::move(done));
  }
  void Abandon(AbandonCall call, Done<core::AbandonOutcome> done) override {
    const size_t bytes = call.note.size();
    Submit<core::AbandonOutcome>(
        std::move(call.info),
        store::AbandonCommand{{}, {}, std::move(call.request), std::move(call.note)}, bytes,
        absl::ZeroDuration(), std::move(done));
  }
  void Renew(RenewCall call, Done<core::RenewOutcome> done) override {
    Submit<core::RenewOutcome>(std::move(call.info),
                               store::RenewCommand{{}, {}, std::move(call.request)}, 0,
                               absl::ZeroDuration(), std::move(done));
  }

  void Resolve(ResolveCall call, Done<core::ResolveOutcome> done) override {
    if (claims_.enabled()) {
      claims_.Take({call.info.tenant, call.info.handler, call.info.event_id}, timing_->Now());
    }
    const size_t bytes = call.request.result.size() + call.author.reason.size();
    store::ResolveCommand command;  // member by member: GCC 12 warns of the list, wrongly
    command.request = std::move(call.request);
    command.handler = call.info.handler;
    command.author = std::move(call.author);
    Submit<core::ResolveOutcome>(std::move(call.info), std::move(command), bytes,
                                 absl::ZeroDuration(), std::move(done));
  }

  void Reset(ResetCall call, Done<core::ResetOutcome> done) override {
    const size_t bytes = call.author.reason.size();
    store::ResetCommand command;  // as in Resolve
    command.request = call.request;
    command.handler = call.info.handler;
    command.author = std::move(call.author);
    Submit<core::ResetOutcome>(std::move(call.info), std::move(command), bytes,
                               absl::ZeroDuration(), std::move(done));
  }

  void Lookup(LookupCall call, Done<core::LookupOutcome> done) override {
    const absl::Time now = timing_->Now();
    auto reply = Admit(call.info, now, std::move(done));
    if (reply == nullptr) return;
    if (receipts_.enabled()) {
      if (const auto known = Known(call.info)) {
        reply->Answer(core::DecideLookup(&known->row, call.request, core::DbTime{}));
        return;
      }
    }
    ReadCall read;
    read.life = LifeOf(call.info, now);
    read.operation = {call.info.tenant, {}, call.info.event_id};
    read.request = std::move(call.request);
    read.reply = std::move(reply);
    read.bytes = SizeOf(call.info);
    read.wait_until = WaitUntil(call.info, call.wait, now);
    read.key = {call.info.tenant, std::move(call.info.handler), std::move(call.info.event_id)};
    // Before the call moves: arguments are evaluated in any order.
    Reader& reader = *readers_[ShardOf(read.key, readers_.size())];
    Push(reader, std::move(read), "lookups");
  }

  bool healthy() const override {
    return std::all_of(committers_.begin(), committers_.end(),
                       [](const auto& committer) { return committer->healthy(); });
  }

  void Drain(absl::Time deadline) override {
    DrainCalls(deadline);
    attempts_.Stop(deadline);
  }

 private:
  void DrainCalls(absl::Time deadline) {
    gauge_.Close();
    room_.Close();
    if (gauge_.WaitIdle(timing_, deadline)) return;
    // Whoever takes a call after this sees the signal and refuses it.
    stop_.Stop();
    ForEachWorker([](auto& worker) {
      worker.Close();
      worker.FailQueued(DrainingError());
    });
    // Committers last: an answer that only lacks its body is not unknown.
    bodies_.FailInFlight(DrainingError());
    for (auto& reader : readers_) reader->FailInFlight(DrainingError());
    for (auto& committer : committers_) committer->FailInFlight(UnknownOutcomeError());
    gauge_.WaitIdle(timing_, absl::InfiniteFuture());
  }

  std::shared_ptr<const store::KnownOperation> Known(const CallInfo& info) {
    auto known = receipts_.Find({info.tenant, info.handler, info.event_id}, timing_->Now());
    observer_->OnReceiptCache(known != nullptr);
    return known;
  }

  // A Begin on a completed operation whose log entry may be written later. A full buffer sends it
  // the durable way.
  void AnswerRepeated(const store::KnownOperation& known, CallInfo info,
                      store::BeginCommand command, size_t bytes, Done<core::BeginOutcome> done) {
    const absl::Time now = timing_->Now();
    auto reply = Admit(info, now, std::move(done));
    if (reply == nullptr) return;
    command.key = known.key;
    command.entry = base::MakeUuidV7(now);
    store::RepeatedBegin repeated = store::DecideRepeated(command, known.row);
    if (attempts_.Add(repeated.entry)) {
      reply->Answer(std::move(repeated.outcome));
    } else {
      Send(std::move(info), std::move(command), bytes, absl::ZeroDuration(), now, std::move(reply));
    }
  }

  template <typename Function>
  void ForEachWorker(Function function) {
    for (auto& committer : committers_) function(*committer);
    for (auto& reader : readers_) function(*reader);
    function(bodies_);
  }

  void StartThreads() {
    std::vector<Timekeeper::Duty> duties = {
        {[this] { return room_.NextEnd(); }, [this](absl::Time now) { room_.FailOver(now); }}};
    ForEachWorker([&duties](auto& worker) {
      worker.Start();
      duties.push_back({[&worker] { return worker.NextDeadline(); },
                        [&worker](absl::Time now) { worker.FailOver(now); }});
    });
    attempts_.Start();
    poller_.Start();
    timekeeper_.Start(std::move(duties));
  }

  static size_t ShardOf(const CallKey& key, size_t shards) {
    return absl::Hash<CallKey>()(key) % shards;
  }

  // Null where the call was refused, and answered.
  template <typename Outcome>
  std::shared_ptr<Reply<Outcome>> Admit(const CallInfo& info, absl::Time now, Done<Outcome> done) {
    if (!gauge_.Admit()) {
      std::move(done)(DrainingError());
      return nullptr;
    }
    auto reply = std::make_shared<Reply<Outcome>>(std::move(done), &gauge_);
    if (LifeOf(info, now).over(now)) {
      reply->Fail(DeadlineError());
      return nullptr;
    }
    return reply;
  }

  template <typename Outcome, typename Command>
  void Submit(CallInfo info, Command command, size_t bytes, absl::Duration wait,
              Done<Outcome> done) {
    const absl::Time now = timing_->Now();
    auto reply = Admit(info, now, std::move(done));
    if (reply == nullptr) return;
    Send(std::move(info), std::move(command), bytes, wait, now, std::move(reply));
  }

  template <typename Outcome, typename Command>
  void Send(CallInfo info, Command command, size_t bytes, absl::Duration wait, absl::Time now,
            std::shared_ptr<Reply<Outcome>> reply) {
    command.key = {info.tenant, {}, info.event_id};
    command.entry = base::MakeUuidV7(now);
    WriteCall call;
    call.life = LifeOf(info, now);
    call.command = std::move(command);
    call.reply = std::move(reply);
    call.bytes = bytes + SizeOf(info);
    call.wait_until = WaitUntil(info, wait, now);
    call.key = {info.tenant, std::move(info.handler), std::move(info.event_id)};
    // Before the call moves: arguments are evaluated in any order.
    Committer& committer = CommitterOf(call);
    Push(committer, std::move(call), "commands");
  }

  Committer& CommitterOf(const WriteCall& call) {
    const size_t per_shard = committers_.size() / static_cast<size_t>(shards_);
    return *committers_[ShardOf(call.key, static_cast<size_t>(shards_)) * per_shard];
  }

  template <typename Call>
  void Push(Worker<Call>& worker, Call call, absl::string_view what) {
    using Pushed = typename KeyedQueue<Call>::Pushed;
    const absl::Time deadline = call.life.deadline;
    switch (worker.Push(call)) {
      case Pushed::kTaken:
        if (deadline != absl::InfiniteFuture()) timekeeper_.Nudge(deadline);
        return;
      case Pushed::kFull:
        PendingOf(call)->Fail(OverloadedError(what, options_.max_queue_calls));
        return;
      case Pushed::kClosed:
        PendingOf(call)->Fail(DrainingError());
        return;
    }
  }

  // A waiting Begin gets another transaction: the same attempt, a delivery of its own in the log.
  bool SendAgain(WriteCall& call) {
    const absl::Time now = timing_->Now();
    std::get<store::BeginCommand>(call.command).entry = base::MakeUuidV7(now);
    call.life.arrived = now;
    call.tried = false;
    const absl::Time deadline = call.life.deadline;
    if (CommitterOf(call).Push(call) != KeyedQueue<WriteCall>::Pushed::kTaken) return false;
    timekeeper_.Nudge(deadline);
    return true;
  }

  const Options options_;
  RealTiming real_timing_;
  Timing* const timing_;
  Observer deaf_observer_;
  Observer* const observer_;
  StopSignal stop_;
  HandlerNames names_;
  RowCache receipts_;
  RowCache claims_;
  CallGauge gauge_;
  const Shared shared_;
  Timekeeper timekeeper_;
  std::mt19937_64 seeds_;
  BodyReader bodies_;
  WaitRoom room_;
  AttemptBuffer attempts_;
  int shards_ = 1;
  std::vector<std::unique_ptr<Committer>> committers_;  // those of a shard beside each other
  std::vector<std::unique_ptr<Reader>> readers_;
  WaitPoller poller_;
};

}  // namespace

std::unique_ptr<Pipeline> StartPipeline(const Options& options, store::Store* store,
                                        const base::Clock* clock, Observer* observer) {
  return std::make_unique<PipelineImpl>(options, store, clock, nullptr, observer);
}

std::unique_ptr<Pipeline> StartPipelineWithTiming(const Options& options, store::Store* store,
                                                  Timing* timing, Observer* observer) {
  return std::make_unique<PipelineImpl>(options, store, timing, timing, observer);
}

}  // namespace once::pipeline
