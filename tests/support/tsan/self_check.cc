// Shows that ThreadSanitizer sees through absl's locks: "race" has one and must be reported,
// "guarded" has none and must not.
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

namespace {

constexpr int kRounds = 10'000;

int Race() {
  int count = 0;
  auto add = [&count] {
    for (int i = 0; i < kRounds; ++i) ++count;
  };
  std::thread other(add);
  add();
  other.join();
  return count;
}

// Every kind of lock and signal that the project uses.
int Guarded() {
  absl::Mutex mutex;
  absl::CondVar changed;
  int count = 0;
  auto status = std::make_unique<absl::Status>(absl::InternalError("shared between threads"));
  absl::Notification started;
  std::thread other([&, mine = *status] {
    started.WaitForNotification();
    for (int i = 0; i < kRounds; ++i) {
      absl::MutexLock lock(&mutex);
      ++count;
      changed.Signal();
    }
  });
  started.Notify();
  status.reset();
  absl::Notification seen;
  {
    absl::MutexLock lock(&mutex);
    while (count < kRounds) changed.WaitWithTimeout(&mutex, absl::Milliseconds(10));
    ++count;
  }
  int unguarded = 0;
  std::thread last([&] {
    unguarded = 1;
    seen.Notify();
  });
  while (!seen.HasBeenNotified()) std::this_thread::yield();
  ++unguarded;
  last.join();
  other.join();
  absl::ReaderMutexLock lock(&mutex);
  return count + unguarded;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::cout << (std::strcmp(argv[1], "race") == 0 ? Race() : Guarded()) << " done\n";
  return 0;
}
