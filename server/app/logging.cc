#include "app/logging.h"

#include <spdlog/async_logger.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace once::app {
namespace {

using spdlog::level::level_enum;

// Marks a payload that is a JSON object with the record's fields, made by Log::Write; other
// payloads are plain text.
constexpr char kFieldsMark = '\x1e';

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
absl::string_view LevelName(level_enum level) {
  if (level >= level_enum::err) return "error";
  if (level == level_enum::warn) return "warn";
  if (level == level_enum::info) return "info";
  return "debug";
}

std::string Dump(const LogFields& fields) {
  return fields.dump(-1, ' ', false, LogFields::error_handler_t::replace);
}

// A value bare where it reads well that way, else as a JSON string, so that no value can end the
// line or fake another one.
std::string TextValue(const LogFields& value) {
  if (!value.is_string()) return Dump(value);
  const auto& text = value.get_ref<const std::string&>();
  bool plain = !text.empty();
  for (char c : text) {
    plain = plain && absl::ascii_isgraph(static_cast<unsigned char>(c)) && c != '"' && c != '=';
  }
  return plain ? text : Dump(value);
}

class RecordFormatter final : public spdlog::formatter {
 public:
  explicit RecordFormatter(LogFormat format) : format_(format) {}

  void format(const spdlog::details::log_msg& msg, spdlog::memory_buf_t& dest) override {
    const std::string line = Line(msg);
    dest.append(line.data(), line.data() + line.size());
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<RecordFormatter>(format_);
  }

 private:
  std::string Line(const spdlog::details::log_msg& msg) const {
    const std::string time =
        absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromChrono(msg.time), absl::UTCTimeZone());
    const absl::string_view payload(msg.payload.data(), msg.payload.size());
    switch (format_) {
      case LogFormat::kJson:
        return JsonLine(time, LevelName(msg.level), payload);
      case LogFormat::kText:
        return TextLine(time, LevelName(msg.level), payload);
    }
    return "";
  }

  static std::string JsonLine(absl::string_view time, absl::string_view level,
                              absl::string_view payload) {
    if (payload.empty() || payload.front() != kFieldsMark) {
      const LogFields fields = {{"message", std::string(payload)}};
      return absl::StrCat("{\"time\":\"", time, "\",\"level\":\"", level, "\",",
                          Dump(fields).substr(1), "\n");
    }
    // "\x1e{...": the object's opening brace is replaced by ours.
    return absl::StrCat("{\"time\":\"", time, "\",\"level\":\"", level, "\",", payload.substr(2),
                        "\n");
  }

  static std::string TextLine(absl::string_view time, absl::string_view level,
                              absl::string_view payload) {
    std::string line = absl::StrCat(time, " ", absl::AsciiStrToUpper(level), " ");
    if (payload.empty() || payload.front() != kFieldsMark) {
      for (char c : payload)
        line.push_back(absl::ascii_iscntrl(static_cast<unsigned char>(c)) ? ' ' : c);
    } else {
      const LogFields fields = LogFields::parse(payload.substr(1), nullptr, false);
      for (const auto& [name, value] : fields.items()) {
        if (name == "message") {
          absl::StrAppend(&line, value.get_ref<const std::string&>());
        } else {
          absl::StrAppend(&line, " ", name, "=", TextValue(value));
        }
      }
    }
    line.push_back('\n');
    return line;
  }

  LogFormat format_;
};

}  // namespace

Log::Log(const LogSettings& settings, std::shared_ptr<spdlog::sinks::sink> sink)
    : pool_(std::make_shared<spdlog::details::thread_pool>(
          static_cast<size_t>(settings.queue_records), 1)) {
  if (sink == nullptr) sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  sink->set_formatter(std::make_unique<RecordFormatter>(settings.format));
  logger_ = std::make_shared<spdlog::async_logger>("onced", std::move(sink), pool_,
                                                   spdlog::async_overflow_policy::overrun_oldest);
  logger_->set_level(SpdlogLevel(settings.level));
  spdlog::set_default_logger(logger_);
}

Log::~Log() {
  // A logger without sinks: what other threads may still log is not worth a crash.
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("none"));
  logger_.reset();
  pool_.reset();  // writes what is queued
}

bool Log::Enabled(LogLevel level) const { return logger_->should_log(SpdlogLevel(level)); }

void Log::Write(LogLevel level, absl::string_view message, LogFields fields) {
  if (!Enabled(level)) return;
  LogFields record = {{"message", std::string(message)}};
  record.update(fields);
  std::string payload(1, kFieldsMark);
  payload += Dump(record);
  logger_->log(SpdlogLevel(level), spdlog::string_view_t(payload));
}

int64_t Log::dropped() const { return static_cast<int64_t>(pool_->overrun_counter()); }

}  // namespace once::app
