#include "app/logging.h"

#include <spdlog/formatter.h>
#include <spdlog/sinks/sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>

namespace once::app {
namespace {

using spdlog::level::level_enum;

level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return level_enum::debug;
    case LogLevel::kInfo:
      return level_enum::info;
    case LogLevel::kWarn:
      return level_enum::warn;
    case LogLevel::kError:
      return level_enum::err;
  }
  return level_enum::info;
}

// Ours has four; whatever else a library uses falls on the nearest.
LogLevel LevelOf(level_enum level) {
  if (level >= level_enum::err) return LogLevel::kError;
  if (level == level_enum::warn) return LogLevel::kWarn;
  if (level == level_enum::info) return LogLevel::kInfo;
  return LogLevel::kDebug;
}

// What others log by spdlog.
class Sink final : public spdlog::sinks::sink {
 public:
  explicit Sink(Log* log) : log_(log) {}

  void log(const spdlog::details::log_msg& msg) override {
    log_->Write(LevelOf(msg.level), absl::string_view(msg.payload.data(), msg.payload.size()));
  }
  void flush() override {}
  void set_pattern(const std::string& /*pattern*/) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter> /*formatter*/) override {}

 private:
  Log* const log_;
};

}  // namespace

Log::Log(const LogSettings& settings, LogOutput output)
    : format_(settings.format),
      level_(settings.level),
      writer_(settings.format, static_cast<size_t>(settings.queue_records), std::move(output)) {
  auto logger = std::make_shared<spdlog::logger>("onced", std::make_shared<Sink>(this));
  logger->set_level(SpdlogLevel(settings.level));
  spdlog::set_default_logger(std::move(logger));
}

Log::~Log() {
  // A logger without sinks: what other threads may still log is not worth a crash.
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("none"));
}

void Log::Write(LogLevel level, absl::string_view message, const LogFields& fields) {
  if (!Enabled(level)) return;
  writer_.Push(level, RenderRecord(format_, message, fields), /*promptly=*/true);
}

void Log::WriteLater(LogLevel level, absl::string_view message, const LogFields& fields) {
  if (Enabled(level)) writer_.Push(level, RenderRecord(format_, message, fields));
}

}  // namespace once::app
