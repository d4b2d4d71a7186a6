// An OperatorConnection for the tests of applications: construct a `once::OperatorClient` with it.
#ifndef ONCE_MOCKS_MOCK_OPERATOR_CONNECTION_H_
#define ONCE_MOCKS_MOCK_OPERATOR_CONNECTION_H_

#include <gmock/gmock.h>

#include "once/operator.h"

namespace once_mocks {

class MockOperatorConnection : public once::OperatorConnection {
 public:
  MOCK_METHOD(absl::StatusOr<once::Operation>, GetOperation,
              (const once::OperationId&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<once::Page<once::LoggedAttempt>>, ListAttempts,
              (const once::OperationId&, const once::PageRequest&, const once::CallOptions&),
              (override));
  MOCK_METHOD(absl::StatusOr<once::ResolveOutcome>, Resolve,
              (const once::Resolution&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<once::ResetOutcome>, Reset,
              (const once::OperationId&, once::Fence, const once::CallOptions&), (override));
};

}  // namespace once_mocks

#endif  // ONCE_MOCKS_MOCK_OPERATOR_CONNECTION_H_
