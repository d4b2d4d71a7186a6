// Whether a server's own settings are good enough for the contract.
#ifndef ONCE_STORE_MYSQL_SERVER_CHECK_H_
#define ONCE_STORE_MYSQL_SERVER_CHECK_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "store/mysql/mysql_store.h"
#include "store/mysql/session.h"

namespace once::store::mysql {

// Global variables by name, in lower case.
using Variables = absl::flat_hash_map<std::string, std::string>;

// FAILED_PRECONDITION listing every setting with which promises cannot be kept; otherwise warnings.
// A function of values.
absl::StatusOr<std::vector<std::string>> JudgeServer(const Variables& variables,
                                                     size_t max_result_bytes);

// Reads the variables and judges them. Blocking.
absl::StatusOr<std::vector<std::string>> CheckServer(Session& session, const MysqlOptions& options,
                                                     size_t max_result_bytes);

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_SERVER_CHECK_H_
