#include "app/log_writer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace once::app {
namespace {

// Where a write happens though there is more to come.
constexpr size_t kWriteBytes = size_t{64} << 10;

// The least time between two looks at the queue: waking this thread for every record costs more
// than all else about the record. The first record after a quiet time is written at once.
constexpr absl::Duration kPause = absl::Milliseconds(2);

absl::string_view JsonLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "Z\",\"level\":\"debug\",";
    case LogLevel::kInfo:
      return "Z\",\"level\":\"info\",";
    case LogLevel::kWarn:
      return "Z\",\"level\":\"warn\",";
    case LogLevel::kError:
      return "Z\",\"level\":\"error\",";
  }
  return "";
}

absl::string_view TextLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "Z DEBUG ";
    case LogLevel::kInfo:
      return "Z INFO ";
    case LogLevel::kWarn:
      return "Z WARN ";
    case LogLevel::kError:
      return "Z ERROR ";
  }
  return "";
}

void WriteTo(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {  // somebody who shares the stream made it non-blocking
      pollfd writable = {.fd = fd, .events = POLLOUT, .revents = 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

LogOutput StandardError() {
  return [](absl::string_view lines) { WriteTo(STDERR_FILENO, lines); };
}

LogWriter::LogWriter(LogFormat format, size_t max_records, LogOutput output)
    : format_(format),
      max_records_(max_records),
      output_(std::move(output)),
      thread_([this] { Run(); }) {}

LogWriter::~LogWriter() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  wake_.Signal();
  thread_.join();
}

void LogWriter::Push(LogLevel level, std::string record, bool promptly) {
  Record added = {absl::GetCurrentTimeNanos() / 1000, level, std::move(record)};
  bool wake = false;
  {
    absl::MutexLock lock(&mutex_);
    if (queue_.size() < max_records_) {
      queue_.push_back(std::move(added));
      wake = queue_.size() == max_records_ / 2;  // ends a pause
    } else {
      std::swap(queue_[oldest_], added);  // the dropped one is freed without the lock
      oldest_ = (oldest_ + 1) % max_records_;
      ++dropped_;
    }
    ++pushed_;
    promptly_ = promptly_ || promptly;
    wake = std::exchange(idle_, false) || wake || promptly;
  }
  if (wake) wake_.Signal();
}

void LogWriter::Flush() {
  absl::MutexLock lock(&mutex_);
  const int64_t until = pushed_;
  promptly_ = true;  // ends a pause
  wake_.Signal();
  while (written_ < until) flushed_.Wait(&mutex_);
}

int64_t LogWriter::dropped() const {
  absl::MutexLock lock(&mutex_);
  return dropped_;
}

void LogWriter::Run() {
  std::vector<Record> records;
  while (Take(records)) {
    WriteAll(records);
    records.clear();
    {
      absl::MutexLock lock(&mutex_);
      written_ = taken_;
      flushed_.SignalAll();
    }
    Pause();
  }
}

bool LogWriter::Take(std::vector<Record>& taken) {
  size_t oldest = 0;
  {
    absl::MutexLock lock(&mutex_);
    while (queue_.empty() && !stop_) {
      idle_ = true;
      wake_.Wait(&mutex_);
    }
    idle_ = false;
    promptly_ = false;
    taken_ = pushed_;
    queue_.swap(taken);
    oldest = std::exchange(oldest_, 0);
  }
  std::rotate(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(oldest), taken.end());
  return !taken.empty();
}

void LogWriter::WriteAll(const std::vector<Record>& records) {
  for (const Record& record : records) {
    // With the longest head and the newline.
    const size_t bytes = record.text.size() + 64;
    if (!lines_.empty() && lines_.size() + bytes > kWriteBytes) {
      output_(lines_);
      lines_.clear();
    }
    AppendLine(record);
  }
  output_(lines_);
  lines_.clear();
}

void LogWriter::Pause() {
  const absl::Time end = absl::Now() + kPause;
  absl::MutexLock lock(&mutex_);
  while (!stop_ && !promptly_ && queue_.size() < max_records_ / 2) {
    if (wake_.WaitWithDeadline(&mutex_, end)) return;
  }
}

void LogWriter::AppendLine(const Record& record) {
  switch (format_) {
    case LogFormat::kJson:
      lines_ += "{\"time\":\"";
      AppendTime(record.time_us);
      absl::StrAppend(&lines_, JsonLevel(record.level), record.text, "\n");
      break;
    case LogFormat::kText:
      AppendTime(record.time_us);
      absl::StrAppend(&lines_, TextLevel(record.level), record.text, "\n");
      break;
  }
}

void LogWriter::AppendTime(int64_t time_us) {
  const int64_t second = time_us / 1'000'000;
  if (second != second_) {
    second_ = second;
    second_text_ =
        absl::FormatTime("%Y-%m-%dT%H:%M:%S", absl::FromUnixSeconds(second), absl::UTCTimeZone());
  }
  std::array<char, 7> fraction = {'.'};
  int64_t rest = time_us % 1'000'000;
  for (size_t i = 6; i > 0; --i, rest /= 10) fraction[i] = static_cast<char>('0' + rest % 10);
  lines_ += second_text_;
  lines_.append(fraction.data(), fraction.size());
}

}  // namespace once::app
