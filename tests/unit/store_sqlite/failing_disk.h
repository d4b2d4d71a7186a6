// A disk under SQLite that fails on request. Becomes SQLite's default for all files of the process
// when made, for good.
//
// Thread-safe.
#ifndef ONCE_TESTS_UNIT_STORE_SQLITE_FAILING_DISK_H_
#define ONCE_TESTS_UNIT_STORE_SQLITE_FAILING_DISK_H_

#include <atomic>

namespace once::store::sqlite {

// Which calls fail from now on, with which SQLite result code; 0 lets them pass. Only files whose
// name ends in "-wal".
struct FailingDisk {
  std::atomic<int> write{0};
  std::atomic<int> sync{0};
  // Lets so many calls of the kind pass first.
  std::atomic<int> passes{0};

  void Heal() {
    write = 0;
    sync = 0;
    passes = 0;
  }

  static FailingDisk& Get();
};

}  // namespace once::store::sqlite

#endif  // ONCE_TESTS_UNIT_STORE_SQLITE_FAILING_DISK_H_
