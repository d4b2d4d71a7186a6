// An AdminConnection for the tests of applications: construct a `once::AdminClient` with it.
#ifndef ONCE_MOCKS_MOCK_ADMIN_CONNECTION_H_
#define ONCE_MOCKS_MOCK_ADMIN_CONNECTION_H_

#include <gmock/gmock.h>

#include <optional>
#include <string>

#include "once/admin.h"

namespace once_mocks {

class MockAdminConnection : public once::AdminConnection {
 public:
  MOCK_METHOD(absl::StatusOr<once::Tenant>, CreateTenant,
              (const std::string&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<once::Page<once::Tenant>>, ListTenants,
              (const once::PageRequest&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<once::IssuedCredential>, CreateCredential,
              (const once::NewCredential&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<once::Page<once::Credential>>, ListCredentials,
              (const std::string&, const once::PageRequest&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<once::RotatedCredential>, RotateCredential,
              (const std::string&, std::optional<absl::Duration>, const once::CallOptions&),
              (override));
  MOCK_METHOD(absl::StatusOr<once::Credential>, RevokeCredential,
              (const std::string&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<once::VersionedPolicies>, GetPolicies,
              (const std::string&, int32_t, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<once::Page<once::PolicyVersion>>, ListPolicyVersions,
              (const std::string&, const once::PageRequest&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<once::VersionedPolicies>, ApplyPolicies,
              (const once::PolicyChange&, const once::CallOptions&), (override));
  MOCK_METHOD(absl::StatusOr<once::Page<once::AuditRecord>>, ListAuditRecords,
              (const std::string&, const once::PageRequest&, const once::CallOptions&), (override));
};

}  // namespace once_mocks

#endif  // ONCE_MOCKS_MOCK_ADMIN_CONNECTION_H_
