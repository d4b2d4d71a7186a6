// Reads the rows of operations that calls wait for: one thread, one connection, many keys a read.
#ifndef ONCE_PIPELINE_WAIT_POLLER_H_
#define ONCE_PIPELINE_WAIT_POLLER_H_

#include <cstdint>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/types.h"
#include "pipeline/call.h"
#include "pipeline/session_holder.h"
#include "pipeline/trouble.h"
#include "pipeline/wait_room.h"
#include "pipeline/worker.h"
#include "store/store.h"

namespace once::pipeline {

class WaitPoller {
 public:
  // Gives a Begin to its committer; false, with the call untouched, where that is full.
  using Send = std::function<bool(WriteCall& call)>;

  // `room` must outlive it.
  WaitPoller(const Shared& shared, uint64_t seed, WaitRoom* room, Send send);
  ~WaitPoller() { Stop(); }

  void Start();
  // Joins the thread.
  void Stop();

 private:
  void Run();
  absl::Status Look(absl::Span<const core::OperationKey> keys);

  const Shared shared_;
  WaitRoom* const room_;
  const Send send_;
  SessionHolder<store::ReadSession> session_;
  Trouble trouble_;
  std::thread thread_;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_WAIT_POLLER_H_
