// A Connection for the tests of applications: construct a `once::Client` with it.
#ifndef ONCE_MOCKS_MOCK_CONNECTION_H_
#define ONCE_MOCKS_MOCK_CONNECTION_H_

#include <gmock/gmock.h>

#include <vector>

#include "once/connection.h"

namespace once_mocks {

class MockConnection : public once::Connection {
 public:
  MOCK_METHOD(absl::StatusOr<once::BeginOutcome>, Begin,
              (const once::BeginRequest&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<once::CompleteOutcome>, Complete,
              (const once::CompleteRequest&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<once::AbandonOutcome>, Abandon,
              (const once::AbandonRequest&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<once::RenewOutcome>, Renew,
              (const once::RenewRequest&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<once::LookupOutcome>, Lookup,
              (const once::LookupRequest&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<std::vector<absl::StatusOr<once::BeginOutcome>>>, BatchBegin,
              (const std::vector<once::BeginRequest>&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<std::vector<absl::StatusOr<once::CompleteOutcome>>>, BatchComplete,
              (const std::vector<once::CompleteRequest>&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<std::vector<absl::StatusOr<once::RenewOutcome>>>, BatchRenew,
              (const std::vector<once::RenewRequest>&, const once::CallOptions&), (override));
};

}  // namespace once_mocks

#endif  // ONCE_MOCKS_MOCK_CONNECTION_H_
