// Text to value and back, as flags write values.
//
// Functions of values; thread-safe. Parsers return nothing for text that is not of the form; bounds
// are the caller's.
#ifndef ONCE_APP_VALUES_H_
#define ONCE_APP_VALUES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace once::app {

// "64", "64KiB", "4MiB", "1GiB".
std::optional<int64_t> ParseBytes(absl::string_view text);
std::string BytesText(int64_t bytes);

// "1.5s", "100ms", "1h30m"; finite and not negative. A bare number is refused: its unit would be a
// guess. "0" is fine.
std::optional<absl::Duration> ParseDuration(absl::string_view text);
std::string DurationText(absl::Duration duration);

// "true", "yes", "on", "1" and their opposites.
std::optional<bool> ParseBool(absl::string_view text);

struct HostPort {
  std::string host;  // without brackets
  int port = 0;      // 0: any free one
};
// "127.0.0.1:7447", "localhost:0", "[::1]:7447". The host may not be empty: listening everywhere is
// to be said ("0.0.0.0").
std::optional<HostPort> ParseHostPort(absl::string_view text);
std::string HostPortText(const HostPort& address);

// 127.0.0.0/8, ::1 and the name "localhost".
bool IsLoopback(absl::string_view host);

}  // namespace once::app

#endif  // ONCE_APP_VALUES_H_
