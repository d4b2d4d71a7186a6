// Small files: flag files, secrets, ports. All functions block on the file system; thread-safe.
#ifndef ONCE_APP_FILES_H_
#define ONCE_APP_FILES_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/secret.h"

namespace once::app {

inline constexpr size_t kMaxFlagFileBytes = size_t{1} << 20;
inline constexpr size_t kMaxSecretBytes = size_t{64} << 10;

// The whole file. The message says what is wrong without the path; more than `max_bytes` is an
// error.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes);

// From a file, or from "fd:NUMBER", which is read to its end and closed. One line end is cut off;
// an empty secret is an error.
absl::StatusOr<base::Secret> ReadSecret(const std::string& source);

// Makes a new file of mode 0600; ALREADY_EXISTS where there is one. On another error no file is
// left.
absl::Status WriteNewSecretFile(const std::string& path, const base::Secret& secret);

// Writes so that a reader sees the old text or the whole new one.
absl::Status ReplaceFile(const std::string& path, absl::string_view text, unsigned mode);

}  // namespace once::app

#endif  // ONCE_APP_FILES_H_
