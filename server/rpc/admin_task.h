// A call whose answer is work on a control session.
#ifndef ONCE_RPC_ADMIN_TASK_H_
#define ONCE_RPC_ADMIN_TASK_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "rpc/admin_executor.h"
#include "rpc/admin_operations.h"
#include "rpc/call.h"

namespace once::rpc {

// The call while it is under way, and the last run's response.
template <typename Response>
struct RunningTask {
  explicit RunningTask(Call c) : call(std::move(c)) {}
  Call call;
  Response response;
};

// Runs `work`, answers `call`. `subject` says for the log what was changed; empty for nothing.
template <typename Response>
AdminTask MakeTask(Call call, AdminWork<Response> work, bool repeatable,
                   std::function<std::string(const Response&)> subject) {
  AdminTask task;
  task.repeatable = repeatable;
  task.deadline = call.deadline();
  task.cancellation = call.cancellation();
  auto running = std::make_shared<RunningTask<Response>>(std::move(call));
  task.run = [running, work = std::move(work)](store::ControlSession& session) {
    absl::StatusOr<Response> response = work(session);
    if (response.ok()) {
      running->response = *std::move(response);
    }
    return response.status();
  };
  task.done = [running, subject = std::move(subject)](const absl::Status& result) {
    if (!result.ok()) {
      std::move(running->call).Fail(result);
      return;
    }
    running->call.record().subject = subject(running->response);
    std::move(running->call).Answer(running->response, "ok");
  };
  return task;
}

}  // namespace once::rpc

#endif  // ONCE_RPC_ADMIN_TASK_H_
