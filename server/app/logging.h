// Logs: one record a line on the standard error stream, as text or JSON, written by a thread of its
// own.
//
// Whoever logs never waits for the stream: records go into a bounded queue; where it is full the
// oldest is dropped and counted. Records must not hold content, results, tokens or passwords.
#ifndef ONCE_APP_LOGGING_H_
#define ONCE_APP_LOGGING_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "app/log_fields.h"
#include "app/log_writer.h"
#include "app/settings.h"

namespace once::app {

// Thread-safe. Also becomes spdlog's default logger, for modules that log without fields, until it
// is destroyed.
class Log {
 public:
  explicit Log(const LogSettings& settings, LogOutput output = StandardError());
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  // Writes what is queued; blocks on the stream.
  ~Log();

  bool Enabled(LogLevel level) const { return level >= level_; }

  // `message` is a fixed text, so that records can be counted by it; what varies goes into
  // `fields`. Does not block.
  void Write(LogLevel level, absl::string_view message, const LogFields& fields = {});
  // Blocks until all that was written before has reached the output.
  void Flush() { writer_.Flush(); }
  // For records that come in numbers: written a few milliseconds later, many at once.
  void WriteLater(LogLevel level, absl::string_view message, const LogFields& fields);

  void Info(absl::string_view message, const LogFields& fields = {}) {
    Write(LogLevel::kInfo, message, fields);
  }
  void Warn(absl::string_view message, const LogFields& fields = {}) {
    Write(LogLevel::kWarn, message, fields);
  }
  void Error(absl::string_view message, const LogFields& fields = {}) {
    Write(LogLevel::kError, message, fields);
  }

  // Records dropped since the start.
  int64_t dropped() const { return writer_.dropped(); }

 private:
  const LogFormat format_;
  const LogLevel level_;
  LogWriter writer_;
};

}  // namespace once::app

#endif  // ONCE_APP_LOGGING_H_
