// Early return of errors. Private to `rpc`.
#ifndef ONCE_RPC_STATUS_MACROS_H_
#define ONCE_RPC_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define ONCE_RETURN_IF_ERROR(expression)                        \
  do {                                                          \
    if (::absl::Status failed_ = (expression); !failed_.ok()) { \
      return failed_;                                           \
    }                                                           \
  } while (false)

// `target` is an lvalue or a declaration.
#define ONCE_ASSIGN_OR_RETURN(target, expression) \
  ONCE_ASSIGN_OR_RETURN_IMPL_(ONCE_CONCAT_(value_or_, __LINE__), target, expression)
#define ONCE_ASSIGN_OR_RETURN_IMPL_(value_or, target, expression) \
  auto value_or = (expression);                                   \
  if (!value_or.ok()) {                                           \
    return std::move(value_or).status();                          \
  }                                                               \
  target = *std::move(value_or)
#define ONCE_CONCAT_(a, b) ONCE_CONCAT_IMPL_(a, b)
#define ONCE_CONCAT_IMPL_(a, b) a##b

#endif  // ONCE_RPC_STATUS_MACROS_H_
