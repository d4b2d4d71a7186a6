// One thread with one control session, behind a bounded queue: where calls of AdminService meet the
// database.
//
// Thread-safe. Answers run on the executor's thread, or (refusals) on the caller's.
#ifndef ONCE_RPC_ADMIN_EXECUTOR_H_
#define ONCE_RPC_ADMIN_EXECUTOR_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "pipeline/pipeline.h"
#include "store/store.h"

namespace once::rpc {

struct AdminTask {
  // Runs the task on a session; may be called again after a lost connection. Returns what the
  // session said, or an error of base::MakeError, which is final.
  std::function<absl::Status(store::ControlSession&)> run;
  // Whether running it again after its outcome became unknown gives the right answer.
  bool repeatable = false;
  // A task whose caller is gone is not started.
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<pipeline::Cancellation> cancellation;  // may be null
  // OK, an error of base::MakeError that `run` returned, STORE_UNAVAILABLE, OUTCOME_UNKNOWN,
  // DEADLINE_EXCEEDED, OVERLOADED or DRAINING; anything else is a defect. Called once.
  absl::AnyInvocable<void(absl::Status) &&> done;
};

class AdminExecutor {
 public:
  // `store` and `clock` must outlive it.
  AdminExecutor(size_t max_queue, store::Store* store, const base::Clock* clock);
  // Ends the running task, answers the others with DRAINING.
  ~AdminExecutor();

  // Never blocks.
  void Submit(AdminTask task);

 private:
  void Loop();
  absl::Status RunTask(AdminTask& task);
  absl::Status TryOnce(AdminTask& task);

  const size_t max_queue_;
  store::Store* const store_;
  const base::Clock* const clock_;
  std::unique_ptr<store::ControlSession> session_;  // of the thread

  absl::Mutex mutex_;
  absl::CondVar work_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<AdminTask> queue_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // last: runs on all of the above
};

}  // namespace once::rpc

#endif  // ONCE_RPC_ADMIN_EXECUTOR_H_
