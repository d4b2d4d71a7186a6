// Log entries that need not be durable before their callers are answered: those of duplicates, in
// the buffered mode of the attempt log. A thread writes them within the window; what the server had
// not written when it was killed is lost.
//
// Thread-safe. Only Stop blocks.
#ifndef ONCE_PIPELINE_ATTEMPT_BUFFER_H_
#define ONCE_PIPELINE_ATTEMPT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "pipeline/session_holder.h"
#include "pipeline/trouble.h"
#include "pipeline/worker.h"
#include "store/store.h"

namespace once::pipeline {

class AttemptBuffer {
 public:
  AttemptBuffer(const Shared& shared, uint64_t seed);
  ~AttemptBuffer();

  void Start();
  // Writes what is left, but tries no longer than until `deadline`; the rest is told to the
  // observer as lost. Repeatable.
  void Stop(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);

  // False where the buffer is full or stopped: then the entry must go another way.
  bool Add(store::AttemptEntry& entry) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Entries = std::vector<store::AttemptEntry>;

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for entries to write; empty at the end.
  Entries Take() ABSL_LOCKS_EXCLUDED(mutex_);
  bool GivesUp() const ABSL_LOCKS_EXCLUDED(mutex_);
  void WriteAll(Entries entries);
  absl::Status Write(const Entries& entries, bool repeated);

  const Shared shared_;
  SessionHolder<store::WriteSession> session_;  // of the thread
  Trouble trouble_;                             // of the thread

  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  absl::Time oldest_ ABSL_GUARDED_BY(mutex_);  // when the first of `entries_` came
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time give_up_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  std::thread thread_;
};

}  // namespace once::pipeline

#endif  // ONCE_PIPELINE_ATTEMPT_BUFFER_H_
