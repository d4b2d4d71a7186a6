// Time that moves only when told: by Advance, or by somebody sleeping.
#ifndef ONCE_TESTS_UNIT_CLIENT_FAKE_CLOCK_H_
#define ONCE_TESTS_UNIT_CLIENT_FAKE_CLOCK_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "once/options.h"

namespace once::testing_support {

class FakeClock final : public Clock {
 public:
  absl::Duration Elapsed() const override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  void Sleep(absl::Duration duration) override {
    absl::MutexLock lock(&mutex_);
    sleeps_.push_back(duration);
    now_ += duration;
  }
  void Advance(absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    now_ += duration;
  }
  std::vector<absl::Duration> sleeps() const {
    absl::MutexLock lock(&mutex_);
    return sleeps_;
  }

 private:
  mutable absl::Mutex mutex_;
  absl::Duration now_ ABSL_GUARDED_BY(mutex_) = absl::Hours(1);
  std::vector<absl::Duration> sleeps_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace once::testing_support

#endif  // ONCE_TESTS_UNIT_CLIENT_FAKE_CLOCK_H_
