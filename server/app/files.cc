#include "app/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace once::app {
namespace {

absl::StatusOr<std::string> ReadAll(int fd, size_t max_bytes) {
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t size = read(fd, buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return absl::ErrnoToStatus(errno, "cannot be read");
    if (size == 0) return text;
    text.append(buffer, static_cast<size_t>(size));
    if (text.size() > max_bytes) {
      return absl::OutOfRangeError(absl::StrCat("is larger than ", max_bytes, " bytes"));
    }
  }
}

absl::Status WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t size = write(fd, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return absl::ErrnoToStatus(errno, "cannot be written");
    text.remove_prefix(static_cast<size_t>(size));
  }
  if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS) {
    return absl::ErrnoToStatus(errno, "cannot be written");
  }
  return absl::OkStatus();
}

absl::StatusOr<int> OpenSource(const std::string& source) {
  absl::string_view number = source;
  if (!absl::ConsumePrefix(&number, "fd:")) {
    const int fd = open(source.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return absl::ErrnoToStatus(errno, "cannot be opened");
    return fd;
  }
  int fd = -1;
  if (!absl::SimpleAtoi(number, &fd) || fd < 0) {
    return absl::InvalidArgumentError("must be fd: and the number of an open file");
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot be opened");
  const absl::Cleanup close_fd = [fd] { close(fd); };
  return ReadAll(fd, max_bytes);
}

absl::StatusOr<base::Secret> ReadSecret(const std::string& source) {
  const absl::StatusOr<int> fd = OpenSource(source);
  if (!fd.ok()) return fd.status();
  const absl::Cleanup close_fd = [&fd] { close(*fd); };
  absl::StatusOr<std::string> text = ReadAll(*fd, kMaxSecretBytes);
  if (!text.ok()) return text.status();
  absl::string_view value = *text;
  absl::ConsumeSuffix(&value, "\n");
  absl::ConsumeSuffix(&value, "\r");
  if (value.empty()) return absl::InvalidArgumentError("is empty");
  return base::Secret(std::string(value));
}

absl::Status WriteNewSecretFile(const std::string& path, const base::Secret& secret) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot be made");
  const absl::Cleanup close_fd = [fd] { close(fd); };
  absl::Status status = WriteAll(fd, absl::StrCat(secret.Reveal(), "\n"));
  if (!status.ok()) unlink(path.c_str());
  return status;
}

absl::Status ReplaceFile(const std::string& path, absl::string_view text, unsigned mode) {
  const std::string fresh = absl::StrCat(path, ".new.", getpid());
  unlink(fresh.c_str());
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return absl::ErrnoToStatus(errno, "cannot be made");
  absl::Status status = WriteAll(fd, text);
  close(fd);
  if (status.ok() && rename(fresh.c_str(), path.c_str()) != 0) {
    status = absl::ErrnoToStatus(errno, "cannot be replaced");
  }
  if (!status.ok()) unlink(fresh.c_str());
  return status;
}

}  // namespace once::app
