#include "token_source.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace once::client_internal {
namespace {

constexpr absl::Duration kLookEvery = absl::Seconds(1);
constexpr size_t kMaxTokenBytes = 4096;

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// gRPC aborts the process on metadata that is not printable ASCII.
absl::StatusOr<std::string> Checked(absl::string_view token, absl::string_view whence) {
  const auto printable = [](char c) { return c > ' ' && c < 0x7F; };
  if (token.size() > kMaxTokenBytes || !std::all_of(token.begin(), token.end(), printable)) {
    return absl::UnauthenticatedError(absl::StrCat(whence, " is not a token: at most ",
                                                   kMaxTokenBytes, " printable ASCII characters"));
  }
  return std::string(token);
}

absl::StatusOr<std::string> ReadToken(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return absl::UnauthenticatedError(absl::StrCat("cannot read the token file ", file));
  std::string text(kMaxTokenBytes + 2, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  if (token.empty()) {
    return absl::UnauthenticatedError(absl::StrCat("the token file ", file, " is empty"));
  }
  return Checked(token, absl::StrCat("the content of ", file));
}

}  // namespace

TokenSource::TokenSource(std::string token, std::string file, std::shared_ptr<Clock> clock)
    : file_(std::move(file)), clock_(std::move(clock)) {
  absl::MutexLock lock(&mutex_);
  token_ = Checked(absl::StripAsciiWhitespace(token), "the token");
}

absl::StatusOr<std::string> TokenSource::Get() {
  absl::MutexLock lock(&mutex_);
  if (!file_.empty() && clock_->Elapsed() >= next_look_) Refresh();
  return token_;
}

void TokenSource::Refresh() {
  next_look_ = clock_->Elapsed() + kLookEvery;
  const bool have_one = token_.ok() && !token_->empty();
  struct stat now = {};
  if (stat(file_.c_str(), &now) == 0 && have_one && SameFile(now, seen_)) return;
  auto fresh = ReadToken(file_);
  if (fresh.ok()) {
    seen_ = now;
    token_ = std::move(fresh);
    return;
  }
  if (!have_one) {
    token_ = std::move(fresh);
    next_look_ =
        -absl::InfiniteDuration();  // nothing works until the file is there: look each time
  }
}

}  // namespace once::client_internal
