// Writes log records by a thread of its own, many with one write.
#ifndef ONCE_APP_LOG_WRITER_H_
#define ONCE_APP_LOG_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "app/settings.h"

namespace once::app {

// Where lines go: one or more whole lines at a time, from one thread. May block.
using LogOutput = std::function<void(absl::string_view lines)>;

// Output to the standard error stream. What the stream does not take is lost.
LogOutput StandardError();

// Thread-safe.
class LogWriter {
 public:
  // At most `max_records` wait; beyond, the oldest is dropped. As many may be with the output.
  LogWriter(LogFormat format, size_t max_records, LogOutput output);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  // Writes what waits; blocks on the output. Nobody may push any more.
  ~LogWriter();

  // `record`: its line but for time and level, as RenderRecord makes it. Does not block.
  // `promptly`: written, with all before it, as soon as the thread gets to it.
  void Push(LogLevel level, std::string record, bool promptly = false) ABSL_LOCKS_EXCLUDED(mutex_);

  // Blocks until what was pushed before is written.
  void Flush() ABSL_LOCKS_EXCLUDED(mutex_);

  // Records dropped since the start.
  int64_t dropped() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Record {
    int64_t time_us = 0;  // Unix time
    LogLevel level = LogLevel::kInfo;
    std::string text;
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // Moves what waits to `taken`, oldest first; waits for something. False: that was all.
  bool Take(std::vector<Record>& taken) ABSL_LOCKS_EXCLUDED(mutex_);
  void WriteAll(const std::vector<Record>& records);
  void Pause() ABSL_LOCKS_EXCLUDED(mutex_);
  void AppendLine(const Record& record);
  void AppendTime(int64_t time_us);

  const LogFormat format_;
  const size_t max_records_;
  const LogOutput output_;

  mutable absl::Mutex mutex_;
  absl::CondVar flushed_;
  absl::CondVar wake_;  // the thread; only where it waits for it
  std::vector<Record> queue_ ABSL_GUARDED_BY(mutex_);
  size_t oldest_ ABSL_GUARDED_BY(mutex_) = 0;  // index in queue_; not 0 only when it is full
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  bool idle_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t pushed_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;  // of those pushed
  int64_t written_ ABSL_GUARDED_BY(mutex_) = 0;
  bool promptly_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  // Of the thread.
  std::string lines_;
  int64_t second_ = -1;
  std::string second_text_;  // "2026-01-31T23:59:59", of `second_`

  std::thread thread_;
};

}  // namespace once::app

#endif  // ONCE_APP_LOG_WRITER_H_
