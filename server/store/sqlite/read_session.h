// Reads on one connection, beside the writers. See store.h.
#ifndef ONCE_STORE_SQLITE_READ_SESSION_H_
#define ONCE_STORE_SQLITE_READ_SESSION_H_

#include <memory>

#include "absl/status/statusor.h"
#include "store/sqlite/file.h"
#include "store/store.h"

namespace once::store::sqlite {

// `file` must outlive the session.
absl::StatusOr<std::unique_ptr<ReadSession>> OpenReadSession(File* file);

}  // namespace once::store::sqlite

#endif  // ONCE_STORE_SQLITE_READ_SESSION_H_
