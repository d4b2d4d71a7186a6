// Makes absl's locks visible to ThreadSanitizer where the library itself was not built with it.
//
// The linker sends every call of our objects to the wrappers below (--wrap, see CMakeLists.txt
// beside this file); they call the library and tell the sanitizer what happens before what. Calls
// from inside the library stay as they are, so what it does there with locks of its own
// (Notification, the reference count of Status) is told here as well.
//
// absl::Mutex::Await and LockWhen have no wrapper: they are not used in this project.
#include <array>
#include <cstdint>
#include <mutex>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);

// absl's own search for deadlocks allocates under spin locks that nobody can see.
const char* __tsan_default_suppressions() {
  return "called_from_lib:libabsl_graphcycles_internal\n"
         "called_from_lib:libabsl_malloc_internal\n";
}
}

// ONCE_ABSL is the mangled beginning of absl's names, with the inline namespace of the installed
// library.
#define ONCE_REAL(name) asm("__real_" ONCE_ABSL name)
#define ONCE_WRAP(name) asm("__wrap_" ONCE_ABSL name)

namespace {

void Acquire(const void* address) { __tsan_acquire(const_cast<void*>(address)); }
void Release(const void* address) { __tsan_release(const_cast<void*>(address)); }

}  // namespace

// NOLINTBEGIN(readability-identifier-naming)

#define ONCE_WRAP_LOCK(function, name)                     \
  void Real##function(absl::Mutex* mutex) ONCE_REAL(name); \
  void Wrap##function(absl::Mutex* mutex) ONCE_WRAP(name); \
  void Wrap##function(absl::Mutex* mutex) {                \
    Real##function(mutex);                                 \
    Acquire(mutex);                                        \
  }

#define ONCE_WRAP_TRY(function, name)                      \
  bool Real##function(absl::Mutex* mutex) ONCE_REAL(name); \
  bool Wrap##function(absl::Mutex* mutex) ONCE_WRAP(name); \
  bool Wrap##function(absl::Mutex* mutex) {                \
    const bool locked = Real##function(mutex);             \
    if (locked) Acquire(mutex);                            \
    return locked;                                         \
  }

#define ONCE_WRAP_UNLOCK(function, name)                   \
  void Real##function(absl::Mutex* mutex) ONCE_REAL(name); \
  void Wrap##function(absl::Mutex* mutex) ONCE_WRAP(name); \
  void Wrap##function(absl::Mutex* mutex) {                \
    Release(mutex);                                        \
    Real##function(mutex);                                 \
  }

ONCE_WRAP_LOCK(Lock, "5Mutex4LockEv")
ONCE_WRAP_LOCK(ReaderLock, "5Mutex10ReaderLockEv")
ONCE_WRAP_TRY(TryLock, "5Mutex7TryLockEv")
ONCE_WRAP_TRY(ReaderTryLock, "5Mutex13ReaderTryLockEv")
ONCE_WRAP_UNLOCK(Unlock, "5Mutex6UnlockEv")
ONCE_WRAP_UNLOCK(ReaderUnlock, "5Mutex12ReaderUnlockEv")

// A wait gives the lock back and takes it again.
void RealWait(absl::CondVar* condition, absl::Mutex* mutex) ONCE_REAL("7CondVar4WaitEPNS0_5MutexE");
void WrapWait(absl::CondVar* condition, absl::Mutex* mutex) ONCE_WRAP("7CondVar4WaitEPNS0_5MutexE");
void WrapWait(absl::CondVar* condition, absl::Mutex* mutex) {
  Release(mutex);
  RealWait(condition, mutex);
  Acquire(mutex);
}

bool RealWaitWithTimeout(absl::CondVar* condition, absl::Mutex* mutex, absl::Duration timeout)
    ONCE_REAL("7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
bool WrapWaitWithTimeout(absl::CondVar* condition, absl::Mutex* mutex, absl::Duration timeout)
    ONCE_WRAP("7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
bool WrapWaitWithTimeout(absl::CondVar* condition, absl::Mutex* mutex, absl::Duration timeout) {
  Release(mutex);
  const bool late = RealWaitWithTimeout(condition, mutex, timeout);
  Acquire(mutex);
  return late;
}

bool RealWaitWithDeadline(absl::CondVar* condition, absl::Mutex* mutex, absl::Time deadline)
    ONCE_REAL("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
bool WrapWaitWithDeadline(absl::CondVar* condition, absl::Mutex* mutex, absl::Time deadline)
    ONCE_WRAP("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
bool WrapWaitWithDeadline(absl::CondVar* condition, absl::Mutex* mutex, absl::Time deadline) {
  Release(mutex);
  const bool late = RealWaitWithDeadline(condition, mutex, deadline);
  Acquire(mutex);
  return late;
}

// HasBeenNotified() is inline and reads the flag that lies behind the mutex.
void RealNotify(absl::Notification* notification) ONCE_REAL("12Notification6NotifyEv");
void WrapNotify(absl::Notification* notification) ONCE_WRAP("12Notification6NotifyEv");
void WrapNotify(absl::Notification* notification) {
  Release(notification);
  Release(reinterpret_cast<const char*>(notification) + sizeof(absl::Mutex));
  RealNotify(notification);
}

void RealWaitFor(const absl::Notification* notification) asm(
    "__real_" ONCE_ABSL_CONST "12Notification19WaitForNotificationEv");
void WrapWaitFor(const absl::Notification* notification) asm(
    "__wrap_" ONCE_ABSL_CONST "12Notification19WaitForNotificationEv");
void WrapWaitFor(const absl::Notification* notification) {
  RealWaitFor(notification);
  Acquire(notification);
}

bool RealWaitForTimeout(const absl::Notification* notification, absl::Duration timeout) asm(
    "__real_" ONCE_ABSL_CONST "12Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
bool WrapWaitForTimeout(const absl::Notification* notification, absl::Duration timeout) asm(
    "__wrap_" ONCE_ABSL_CONST "12Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
bool WrapWaitForTimeout(const absl::Notification* notification, absl::Duration timeout) {
  const bool notified = RealWaitForTimeout(notification, timeout);
  if (notified) Acquire(notification);
  return notified;
}

// The last one to let go of a shared status frees it: after all the others, whatever order the
// library's count gave them. A lock tells that; one of several, so as not to order what has nothing
// to do with each other.
void RealUnref(uintptr_t representation) ONCE_REAL("6Status15UnrefNonInlinedEm");
void WrapUnref(uintptr_t representation) ONCE_WRAP("6Status15UnrefNonInlinedEm");
void WrapUnref(uintptr_t representation) {
  static std::array<std::mutex, 64>& mutexes = *new std::array<std::mutex, 64>();
  std::lock_guard lock(mutexes[(representation >> 4) % mutexes.size()]);
  RealUnref(representation);
}

// NOLINTEND(readability-identifier-naming)
