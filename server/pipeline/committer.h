// Runs commands in transactions: one connection, one shard of the keys, a batch at a time.
#ifndef ONCE_PIPELINE_COMMITTER_H_
#define ONCE_PIPELINE_COMMITTER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/call.h"
#include "pipeline/deliverer.h"
#include "pipeline/session_holder.h"
#include "pipeline/worker.h"
#include "store/batch.h"
#include "store/store.h"

namespace once::pipeline {

class Committer final : public Worker<WriteCall> {
 public:
  // `deliverer` must outlive it.
  Committer(const Shared& shared, int shard, uint64_t seed, Deliverer* deliverer);

 protected:
  absl::Status Try(std::vector<WriteCall>& calls) override;
  absl::Status Connect() override;
  void OnTaken() override;

 private:
  // Fills in the handlers' numbers. Answers and erases calls on handlers that do not exist or that
  // the store refuses.
  absl::Status Intern(std::vector<WriteCall>& calls);

  const int shard_;
  Deliverer* const deliverer_;
  SessionHolder<store::WriteSession> session_;
  SessionHolder<store::ControlSession> control_;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_COMMITTER_H_
