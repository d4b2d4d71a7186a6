#include "pipeline/pipeline.h"

#include <fstream>
#include <utility>

#include "base/clock.h"
#include "contenders.h"
#include "core/content_digest.h"
#include "core/fingerprint.h"
#include "store/mysql/mysql_store.h"

namespace once::bench {
namespace {

core::AttemptId AttemptOf(const std::string& bytes) {
  core::AttemptId id;
  for (size_t i = 0; i < id.bytes.size(); ++i) id.bytes[i] = static_cast<uint8_t>(bytes[i]);
  return id;
}

pipeline::CallInfo InfoFor(const std::string& id) {
  pipeline::CallInfo info;
  info.tenant = {1};
  info.handler = "bench.points";
  info.event_id = id;
  return info;
}

class PipelineCaller final : public Caller {
 public:
  PipelineCaller(pipeline::Pipeline* pipeline, const OnceWork& work, const Events& events)
      : pipeline_(pipeline), work_(work), known_(work.known_run, IdOrder::kTime), events_(events) {}

  void Cycle(uint64_t number, CycleEnd* end) override {
    const bool duplicate = work_.mode == Mode::kBegin;
    const std::string id = duplicate ? known_.Id(number % work_.known) : events_.Id(number);
    pipeline::BeginCall call;
    call.info = InfoFor(id);
    call.request.digest = *core::DigestContent(core::DigestScheme::kJsonJcsSha256, ContentFor(id));
    call.request.attempt = AttemptOf(NewAttemptId());
    call.request.lease = absl::Seconds(30);
    call.request.consumer = "bench";
    pipeline_->Begin(
        std::move(call), [this, id, duplicate, end](absl::StatusOr<core::BeginOutcome> outcome) {
          if (duplicate) {
            return end->Ended(
                outcome.ok() && std::holds_alternative<core::Completed>(*outcome) ? 1 : 0);
          }
          const auto* granted = outcome.ok() ? std::get_if<core::Granted>(&*outcome) : nullptr;
          if (granted == nullptr) return end->Ended(0);
          Complete(id, granted->claim, end);
        });
  }

 private:
  void Complete(const std::string& id, const core::ClaimInfo& claim, CycleEnd* end) {
    pipeline::CompleteCall call;
    call.info = InfoFor(id);
    call.request.attempt = claim.attempt;
    call.request.fence = claim.fence;
    call.request.result = events_.result();
    call.request.content_type = "application/json";
    call.request.fingerprint =
        core::FingerprintOf(call.request.status, call.request.content_type, call.request.result);
    pipeline_->Complete(std::move(call), [end](absl::StatusOr<core::CompleteOutcome> outcome) {
      end->Ended(outcome.ok() && std::holds_alternative<core::Completed>(*outcome) ? 1 : 0);
    });
  }

  pipeline::Pipeline* const pipeline_;
  const OnceWork& work_;
  const Events known_;
  const Events& events_;
};

class PipelineContender final : public Contender {
 public:
  PipelineContender(const DatabaseTarget& target, const OnceWork& work, const Events& events,
                    int committers)
      : work_(work), events_(events) {
    store::MysqlOptions options;
    options.hosts = {{target.host, static_cast<uint16_t>(target.port)}};
    options.user = target.user;
    std::string password;
    std::ifstream in(target.password_file);
    std::getline(in, password);
    options.password = base::Secret(password);
    options.database = target.database;
    options.max_write_sessions = committers * pipeline::kSessionsPerCommitter;
    store_ = store::OpenMysqlStore(options);
    pipeline::Options pipeline_options;
    pipeline_options.committers = committers;
    pipeline_options.sessions_per_committer = pipeline::kSessionsPerCommitter;
    pipeline_ = pipeline::StartPipeline(pipeline_options, store_.get(), &clock_, nullptr);
  }
  bool blocking() const override { return false; }
  std::unique_ptr<Caller> NewCaller(int) override {
    return std::make_unique<PipelineCaller>(pipeline_.get(), work_, events_);
  }

 private:
  const OnceWork work_;
  const Events& events_;
  base::RealClock clock_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<pipeline::Pipeline> pipeline_;
};

}  // namespace

std::unique_ptr<Contender> NewPipeline(const DatabaseTarget& target, const OnceWork& work,
                                       const Events& events, int committers) {
  return std::make_unique<PipelineContender>(target, work, events, committers);
}

}  // namespace once::bench
