// Runs commands of one shard of the keys in transactions on a connection, a batch at a time.
#ifndef ONCE_PIPELINE_COMMITTER_H_
#define ONCE_PIPELINE_COMMITTER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/body_reader.h"
#include "pipeline/call.h"
#include "pipeline/session_holder.h"
#include "pipeline/wait_room.h"
#include "pipeline/worker.h"
#include "store/batch.h"
#include "store/store.h"

namespace once::pipeline {

class Committer final : public Worker<WriteCall> {
 public:
  // `room` and `bodies` must outlive it. Committers of one shard share its lane: while one commits
  // and answers, the next works on the next transaction.
  Committer(const Shared& shared, int shard, std::shared_ptr<Lane<WriteCall>> lane, uint64_t seed,
            WaitRoom* room, BodyReader* bodies);

 protected:
  absl::Status Try(std::vector<WriteCall>& calls) override;
  absl::Status Connect() override;
  void OnTaken() override;

 private:
  // Fills in the handlers' numbers. Answers and erases calls on handlers that do not exist or that
  // the store refuses.
  absl::Status Intern(std::vector<WriteCall>& calls);
  void Deliver(std::vector<WriteCall> calls, std::vector<store::Answer> answers);
  void DeliverOne(WriteCall call, store::Answer answer);

  const int shard_;
  WaitRoom* const room_;
  BodyReader* const bodies_;
  SessionHolder<store::WriteSession> session_;
  SessionHolder<store::ControlSession> control_;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_COMMITTER_H_
