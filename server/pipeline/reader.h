// Answers lookups: one connection that reads, a batch of keys at a time.
#ifndef ONCE_PIPELINE_READER_H_
#define ONCE_PIPELINE_READER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/body_reader.h"
#include "pipeline/call.h"
#include "pipeline/session_holder.h"
#include "pipeline/wait_room.h"
#include "pipeline/worker.h"
#include "store/store.h"

namespace once::pipeline {

class Reader final : public Worker<ReadCall> {
 public:
  // `room` and `bodies` must outlive it.
  Reader(const Shared& shared, uint64_t seed, WaitRoom* room, BodyReader* bodies);

 protected:
  absl::Status Try(std::vector<ReadCall>& calls) override;
  absl::Status Connect() override;

 private:
  // Fills in the handlers' numbers; answers and erases calls on handlers that do not exist.
  absl::Status Intern(std::vector<ReadCall>& calls);
  void Deliver(ReadCall call, core::LookupOutcome outcome);

  WaitRoom* const room_;
  BodyReader* const bodies_;
  SessionHolder<store::ReadSession> session_;
  SessionHolder<store::ControlSession> control_;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_READER_H_
