#include "unit/store_sqlite/failing_disk.h"

#include <sqlite3.h>

#include <cstring>

namespace once::store::sqlite {
namespace {

sqlite3_vfs* real_vfs = nullptr;
sqlite3_vfs failing_vfs;
sqlite3_io_methods failing_methods;

// SQLite allocates szOsFile bytes: this, and the real file behind it.
struct File {
  sqlite3_file base;
  bool is_log;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

File* Self(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
sqlite3_file* Real(sqlite3_file* file) { return Self(file)->real(); }

int Fault(sqlite3_file* file, const std::atomic<int>& code) {
  FailingDisk& disk = FailingDisk::Get();
  if (!Self(file)->is_log || code == 0) return SQLITE_OK;
  if (disk.passes > 0) {
    --disk.passes;
    return SQLITE_OK;
  }
  return code;
}

// ---- files ----

int Close(sqlite3_file* f) { return Real(f)->pMethods->xClose(Real(f)); }
int Read(sqlite3_file* f, void* to, int size, sqlite3_int64 at) {
  return Real(f)->pMethods->xRead(Real(f), to, size, at);
}
int Write(sqlite3_file* f, const void* from, int size, sqlite3_int64 at) {
  const int fault = Fault(f, FailingDisk::Get().write);
  return fault != SQLITE_OK ? fault : Real(f)->pMethods->xWrite(Real(f), from, size, at);
}
int Truncate(sqlite3_file* f, sqlite3_int64 size) {
  return Real(f)->pMethods->xTruncate(Real(f), size);
}
int Sync(sqlite3_file* f, int flags) {
  const int fault = Fault(f, FailingDisk::Get().sync);
  return fault != SQLITE_OK ? fault : Real(f)->pMethods->xSync(Real(f), flags);
}
int FileSize(sqlite3_file* f, sqlite3_int64* size) {
  return Real(f)->pMethods->xFileSize(Real(f), size);
}
int Lock(sqlite3_file* f, int kind) { return Real(f)->pMethods->xLock(Real(f), kind); }
int Unlock(sqlite3_file* f, int kind) { return Real(f)->pMethods->xUnlock(Real(f), kind); }
int CheckReservedLock(sqlite3_file* f, int* held) {
  return Real(f)->pMethods->xCheckReservedLock(Real(f), held);
}
int FileControl(sqlite3_file* f, int op, void* argument) {
  return Real(f)->pMethods->xFileControl(Real(f), op, argument);
}
int SectorSize(sqlite3_file* f) { return Real(f)->pMethods->xSectorSize(Real(f)); }
int DeviceCharacteristics(sqlite3_file* f) {
  return Real(f)->pMethods->xDeviceCharacteristics(Real(f));
}
int ShmMap(sqlite3_file* f, int page, int size, int extend, void volatile** to) {
  return Real(f)->pMethods->xShmMap(Real(f), page, size, extend, to);
}
int ShmLock(sqlite3_file* f, int offset, int n, int flags) {
  return Real(f)->pMethods->xShmLock(Real(f), offset, n, flags);
}
void ShmBarrier(sqlite3_file* f) { Real(f)->pMethods->xShmBarrier(Real(f)); }
int ShmUnmap(sqlite3_file* f, int remove) { return Real(f)->pMethods->xShmUnmap(Real(f), remove); }

int Open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  File* self = Self(file);
  self->base.pMethods = nullptr;
  self->is_log = name != nullptr && std::strlen(name) > 4 &&
                 std::strcmp(name + std::strlen(name) - 4, "-wal") == 0;
  const int code = real_vfs->xOpen(real_vfs, name, self->real(), flags, out_flags);
  if (self->real()->pMethods != nullptr) self->base.pMethods = &failing_methods;
  return code;
}

void Install() {
  real_vfs = sqlite3_vfs_find(nullptr);
  failing_methods = {};
  failing_methods.iVersion = 2;
  failing_methods.xClose = Close;
  failing_methods.xRead = Read;
  failing_methods.xWrite = Write;
  failing_methods.xTruncate = Truncate;
  failing_methods.xSync = Sync;
  failing_methods.xFileSize = FileSize;
  failing_methods.xLock = Lock;
  failing_methods.xUnlock = Unlock;
  failing_methods.xCheckReservedLock = CheckReservedLock;
  failing_methods.xFileControl = FileControl;
  failing_methods.xSectorSize = SectorSize;
  failing_methods.xDeviceCharacteristics = DeviceCharacteristics;
  failing_methods.xShmMap = ShmMap;
  failing_methods.xShmLock = ShmLock;
  failing_methods.xShmBarrier = ShmBarrier;
  failing_methods.xShmUnmap = ShmUnmap;
  failing_vfs = *real_vfs;
  failing_vfs.pNext = nullptr;
  failing_vfs.zName = "once-failing";
  failing_vfs.szOsFile = real_vfs->szOsFile + static_cast<int>(sizeof(File));
  failing_vfs.xOpen = Open;
  sqlite3_vfs_register(&failing_vfs, /*makeDflt=*/1);
}

}  // namespace

FailingDisk& FailingDisk::Get() {
  static FailingDisk* const disk = [] {
    Install();
    return new FailingDisk;
  }();
  return *disk;
}

}  // namespace once::store::sqlite
