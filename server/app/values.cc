#include "app/values.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace once::app {
namespace {

struct Unit {
  absl::string_view suffix;
  int64_t factor;
};
// Largest first, for printing.
constexpr Unit kByteUnits[] = {
    {"GiB", int64_t{1} << 30}, {"MiB", int64_t{1} << 20}, {"KiB", int64_t{1} << 10}};

// Only digits: SimpleAtoi would take signs and white space too.
std::optional<int64_t> ParseDigits(absl::string_view text) {
  if (text.empty()) return std::nullopt;
  for (char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return std::nullopt;
  }
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

}  // namespace

std::optional<int64_t> ParseBytes(absl::string_view text) {
  int64_t factor = 1;
  for (const Unit& unit : kByteUnits) {
    if (absl::ConsumeSuffix(&text, unit.suffix)) {
      factor = unit.factor;
      break;
    }
  }
  const std::optional<int64_t> number = ParseDigits(text);
  if (!number.has_value() || *number > std::numeric_limits<int64_t>::max() / factor) {
    return std::nullopt;
  }
  return *number * factor;
}

std::string BytesText(int64_t bytes) {
  for (const Unit& unit : kByteUnits) {
    if (bytes != 0 && bytes % unit.factor == 0) {
      return absl::StrCat(bytes / unit.factor, unit.suffix);
    }
  }
  return absl::StrCat(bytes);
}

std::optional<absl::Duration> ParseDuration(absl::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration)) return std::nullopt;
  if (duration < absl::ZeroDuration() || duration == absl::InfiniteDuration()) return std::nullopt;
  return duration;
}

std::string DurationText(absl::Duration duration) { return absl::FormatDuration(duration); }

std::optional<bool> ParseBool(absl::string_view text) {
  bool value = false;
  if (!absl::SimpleAtob(text, &value)) {
    if (absl::EqualsIgnoreCase(text, "on")) return true;
    if (absl::EqualsIgnoreCase(text, "off")) return false;
    return std::nullopt;
  }
  return value;
}

std::optional<HostPort> ParseHostPort(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return std::nullopt;
  const std::optional<int64_t> port = ParseDigits(text.substr(colon + 1));
  if (!port.has_value() || *port > 65535) return std::nullopt;
  absl::string_view host = text.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) {
    if (!absl::ConsumeSuffix(&host, "]")) return std::nullopt;
    in6_addr address;
    if (inet_pton(AF_INET6, std::string(host).c_str(), &address) != 1) return std::nullopt;
  } else if (host.empty() || host.find_first_of(":[]/ \t") != absl::string_view::npos) {
    return std::nullopt;
  }
  return HostPort{std::string(host), static_cast<int>(*port)};
}

std::string HostPortText(const HostPort& address) {
  if (address.host.find(':') != std::string::npos) {
    return absl::StrCat("[", address.host, "]:", address.port);
  }
  return absl::StrCat(address.host, ":", address.port);
}

bool IsLoopback(absl::string_view host) {
  const std::string text(host);
  in_addr v4;
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  if (inet_pton(AF_INET6, text.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

}  // namespace once::app
