// Transactions of the claim path on one connection. See store.h.
#ifndef ONCE_STORE_SQLITE_WRITE_SESSION_H_
#define ONCE_STORE_SQLITE_WRITE_SESSION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "store/sqlite/file.h"
#include "store/store.h"

namespace once::store::sqlite {

// `file` must outlive the session.
absl::StatusOr<std::unique_ptr<WriteSession>> OpenWriteSession(File* file);

}  // namespace once::store::sqlite

#endif  // ONCE_STORE_SQLITE_WRITE_SESSION_H_
