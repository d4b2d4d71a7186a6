// Gives calls the answers that were committed.
//
// Answering is work for the caller's side (serialising, writing to a connection) that a committer
// does not wait for while others wait for it: then it goes to a thread of its own.
//
// Thread-safe. Only Stop blocks.
#ifndef ONCE_PIPELINE_DELIVERER_H_
#define ONCE_PIPELINE_DELIVERER_H_

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "pipeline/body_reader.h"
#include "pipeline/call.h"
#include "pipeline/timing.h"
#include "pipeline/wait_room.h"
#include "store/batch.h"

namespace once::pipeline {

// The calls of one transaction and their answers, in the same order.
struct Delivery {
  std::vector<WriteCall> calls;
  std::vector<store::Answer> answers;
};

class Deliverer {
 public:
  // All must outlive it.
  Deliverer(Timing* timing, WaitRoom* room, BodyReader* bodies)
      : timing_(timing), room_(room), bodies_(bodies) {}
  ~Deliverer();

  void Start();
  // Delivers what it was given, then ends the thread. Nobody may deliver afterwards.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // Delivers before it returns where the caller has nothing better to do (`busy` is false) and no
  // earlier delivery is under way; otherwise soon. Deliveries follow the order of the calls of this
  // function: a Begin that has to wait must be in the waiting room before the change that ends its
  // wait is told there.
  void Deliver(Delivery delivery, bool busy) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void DeliverNow(Delivery delivery);
  void DeliverOne(WriteCall call, store::Answer answer);

  Timing* const timing_;
  WaitRoom* const room_;
  BodyReader* const bodies_;

  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<Delivery> queue_ ABSL_GUARDED_BY(mutex_);
  bool delivering_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_DELIVERER_H_
