#include "app/signals.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>

#include "absl/time/clock.h"

namespace once::app {

ShutdownSignals::ShutdownSignals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_CLOEXEC);
  if (signal_fd_ < 0 || wake_fd_ < 0) {
    std::perror("onced: no file descriptors for signals");
    std::abort();
  }
  thread_ = std::thread([this] { Run(); });
}

ShutdownSignals::~ShutdownSignals() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
  close(signal_fd_);
  close(wake_fd_);
}

bool ShutdownSignals::requested() const {
  absl::MutexLock lock(&mutex_);
  return requested_;
}

bool ShutdownSignals::WaitFor(absl::Duration timeout) const {
  const absl::Time deadline = absl::Now() + timeout;
  absl::MutexLock lock(&mutex_);
  while (!requested_) {
    if (changed_.WaitWithDeadline(&mutex_, deadline)) break;
  }
  return requested_;
}

void ShutdownSignals::EndAt(absl::Time deadline, int exit_code, std::function<void()> last_words) {
  {
    absl::MutexLock lock(&mutex_);
    end_at_ = deadline;
    exit_code_ = exit_code;
    last_words_ = std::move(last_words);
  }
  Wake();
}

void ShutdownSignals::Wake() {
  const uint64_t one = 1;
  // Only fails where the counter is full, and then the thread is being woken anyway.
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof(one));
}

int ShutdownSignals::WaitMilliseconds() {
  absl::MutexLock lock(&mutex_);
  if (end_at_ == absl::InfiniteFuture()) return -1;
  const int64_t left = absl::ToInt64Milliseconds(end_at_ - absl::Now()) + 1;
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

void ShutdownSignals::Run() {
  while (true) {
    pollfd files[2] = {{signal_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    poll(files, 2, WaitMilliseconds());
    if ((files[1].revents & POLLIN) != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t size = read(wake_fd_, &count, sizeof(count));
    }
    if ((files[0].revents & POLLIN) != 0) {
      signalfd_siginfo info;
      if (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
        OnSignal(static_cast<int>(info.ssi_signo));
      }
    }
    std::function<void()> last_words;
    int exit_code = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      if (absl::Now() < end_at_) continue;
      last_words = last_words_;
      exit_code = exit_code_;
    }
    if (last_words) last_words();
    _exit(exit_code);
  }
}

void ShutdownSignals::OnSignal(int signal) {
  absl::MutexLock lock(&mutex_);
  // Not exit(): whatever hangs would hang its destructors too.
  if (requested_) _exit(128 + signal);
  requested_ = true;
  changed_.SignalAll();
}

}  // namespace once::app
