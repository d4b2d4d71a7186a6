#include "store/sqlite/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace once::store::sqlite {
namespace {

// Who holds the lock, for people; may be behind the truth.
std::string HolderIn(int descriptor) {
  std::array<char, 32> text{};
  const ssize_t size = pread(descriptor, text.data(), text.size(), 0);
  const absl::string_view pid = absl::StripAsciiWhitespace(
      absl::string_view(text.data(), size > 0 ? static_cast<size_t>(size) : 0));
  return pid.empty() ? std::string() : absl::StrCat(" (process ", pid, ")");
}

}  // namespace

absl::StatusOr<FileLock> FileLock::Take(const std::string& path) {
  const std::string name = path + ".lock";
  const int descriptor = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) {
    return absl::UnavailableError(
        absl::StrCat("sqlite: cannot open ", name, ": ", std::generic_category().message(errno)));
  }
  FileLock lock(descriptor);
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("sqlite: ", path, " is in use by another server", HolderIn(descriptor),
                     "; one process at a time can have it"));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, pid.data(), pid.size(), 0) < 0) {
    return absl::UnavailableError(absl::StrCat("sqlite: cannot write ", name));
  }
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

}  // namespace once::store::sqlite
