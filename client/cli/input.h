// Values on the command line of oncectl. Pure, except for reading contents.
//
// All return INVALID_ARGUMENT with a message for people for what they do not understand.
#ifndef ONCE_CLIENT_CLI_INPUT_H_
#define ONCE_CLIENT_CLI_INPUT_H_

#include <istream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace once::cli {

// "hex:0a0b" is bytes, "text:…" is what follows, anything else is itself.
absl::StatusOr<std::string> ParseEventId(absl::string_view text);

// The other way round, so that it can be pasted back: hex where there are bytes that a terminal
// does not show.
std::string FormatEventId(absl::string_view event_id);

// "30s", "1h30m", "7d", "0".
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);

// The whole of a file; "-" is `in`. NOT_FOUND and so on where it cannot be read; INVALID_ARGUMENT
// over 64 MiB.
absl::StatusOr<std::string> ReadInput(const std::string& file, std::istream& in);

}  // namespace once::cli

#endif  // ONCE_CLIENT_CLI_INPUT_H_
