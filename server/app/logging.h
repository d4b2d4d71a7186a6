// Logs: one record a line on the standard error stream, as text or JSON, written by a thread of its
// own.
//
// Whoever logs never waits for the stream: records go into a bounded queue; where it is full the
// oldest is dropped and counted. Records must not hold content, results, tokens or passwords.
#ifndef ONCE_APP_LOGGING_H_
#define ONCE_APP_LOGGING_H_

#include <spdlog/async.h>
#include <spdlog/sinks/sink.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"
#include "app/settings.h"

namespace once::app {

// Named values of a record, in order. Bytes that are not UTF-8 are replaced when it is written.
using LogFields = nlohmann::ordered_json;

// Thread-safe. Also becomes spdlog's default logger, for modules that log without fields, until it
// is destroyed.
class Log {
 public:
  // `sink`: where lines go; null: the standard error stream.
  explicit Log(const LogSettings& settings, std::shared_ptr<spdlog::sinks::sink> sink = nullptr);
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  // Writes what is queued; blocks on the stream.
  ~Log();

  bool Enabled(LogLevel level) const;

  // `message` is a fixed text, so that records can be counted by it; what varies goes into
  // `fields`. Does not block.
  void Write(LogLevel level, absl::string_view message, LogFields fields = LogFields::object());

  void Info(absl::string_view message, LogFields fields = LogFields::object()) {
    Write(LogLevel::kInfo, message, std::move(fields));
  }
  void Warn(absl::string_view message, LogFields fields = LogFields::object()) {
    Write(LogLevel::kWarn, message, std::move(fields));
  }
  void Error(absl::string_view message, LogFields fields = LogFields::object()) {
    Write(LogLevel::kError, message, std::move(fields));
  }

  // Records dropped since the start.
  int64_t dropped() const;

 private:
  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace once::app

#endif  // ONCE_APP_LOGGING_H_
