#include "rpc/admin_operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "auth/credential.h"
#include "unit/rpc/admin_fixture.h"
#include "unit/rpc/status_matchers.h"

namespace once::rpc {
namespace {

using base::ErrorReason;
using ::once::testing::AdminFixture;
using ::once::testing::HasMetadata;
using ::once::testing::IsError;
using ::once::testing::IsInvalid;
using ::once::testing::IsOk;
using ::testing::AllOf;
using ::testing::ElementsAre;

class AdminOperationsTest : public AdminFixture {
 protected:
  AdminOperationsTest() { MakeTenant("acme"); }

  void MakeTenant(const std::string& name) {
    v1::CreateTenantRequest request;
    request.set_name(name);
    ASSERT_THAT(Run(request), IsOk());
  }
  static v1::CreateCredentialRequest Consumer() {
    v1::CreateCredentialRequest request;
    request.set_tenant("acme");
    request.set_role(v1::ROLE_CONSUMER);
    return request;
  }
  std::string MakeCredential() { return Run(Consumer())->credential().credential_id(); }
};

TEST_F(AdminOperationsTest, TenantIsMadeOnce) {
  v1::CreateTenantRequest request;
  request.set_name("globex");
  const auto made = Run(request);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->tenant().name(), "globex");
  EXPECT_EQ(made->tenant().create_time().seconds(), 1'700'000'000);
  EXPECT_THAT(Run(request), AllOf(IsError(ErrorReason::kTenantAlreadyExists, "globex"),
                                  HasMetadata("tenant", "globex")));
}

TEST_F(AdminOperationsTest, TenantNamesAreChecked) {
  v1::CreateTenantRequest request;
  EXPECT_THAT(Run(request), HasMetadata("field", "name"));
  request.set_name("two words");
  EXPECT_THAT(Run(request), HasMetadata("field", "name"));
  request.set_name(std::string(129, 'x'));
  EXPECT_THAT(Run(request), IsInvalid("name is 129 bytes; the limit is 128"));
}

TEST_F(AdminOperationsTest, TenantsArePaged) {
  for (const char* name : {"d", "b", "c"}) {
    MakeTenant(name);
  }
  v1::ListTenantsRequest request;
  request.set_page_size(2);
  auto page = Run(request);
  ASSERT_THAT(page, IsOk());
  ASSERT_EQ(page->tenants_size(), 2);
  EXPECT_EQ(page->tenants(0).name(), "acme");
  EXPECT_EQ(page->tenants(1).name(), "b");
  request.set_page_token(page->next_page_token());
  page = Run(request);
  ASSERT_EQ(page->tenants_size(), 2);
  EXPECT_EQ(page->tenants(0).name(), "c");
  EXPECT_EQ(page->tenants(1).name(), "d");
  EXPECT_EQ(page->next_page_token(), "");  // exactly full, and the last
  request.set_page_size(1001);
  EXPECT_THAT(Run(request), HasMetadata("field", "page_size"));
}

TEST_F(AdminOperationsTest, CredentialIsShownWithItsTokenOnceAndStoredWithoutIt) {
  v1::CreateCredentialRequest request = Consumer();
  request.add_handler_patterns("points.*");
  request.set_description("points workers");
  request.mutable_ttl()->set_seconds(3600);
  const auto made = Run(request);
  ASSERT_THAT(made, IsOk());
  const v1::Credential& shown = made->credential();
  EXPECT_EQ(shown.tenant(), "acme");
  EXPECT_EQ(shown.role(), v1::ROLE_CONSUMER);
  EXPECT_THAT(shown.handler_patterns(), ElementsAre("points.*"));
  EXPECT_EQ(shown.description(), "points workers");
  EXPECT_EQ(shown.expire_time().seconds(), 1'700'003'600);
  EXPECT_FALSE(shown.has_revoke_time());
  const auto token = auth::ParseToken(made->token());
  ASSERT_TRUE(token.has_value());
  EXPECT_EQ(token->credential_id, shown.credential_id());
  const store::CredentialRow stored = store_.credentials().at(0);
  EXPECT_EQ(stored.secret_sha256, token->secret_sha256);
  EXPECT_EQ(stored.tenant, core::TenantId{1});
}

TEST_F(AdminOperationsTest, CredentialCoversAllHandlersUnlessToldOtherwise) {
  EXPECT_THAT(Run(Consumer())->credential().handler_patterns(), ElementsAre("*"));
}

TEST_F(AdminOperationsTest, CredentialNeedsAnExistingTenant) {
  v1::CreateCredentialRequest request = Consumer();
  request.set_tenant("globex");
  EXPECT_THAT(Run(request), AllOf(IsError(ErrorReason::kTenantNotFound, "no tenant globex"),
                                  HasMetadata("tenant", "globex")));
  request.clear_tenant();
  EXPECT_THAT(Run(request), HasMetadata("field", "tenant"));
}

TEST_F(AdminOperationsTest, AdminBelongsToNoTenant) {
  v1::CreateCredentialRequest request;
  request.set_role(v1::ROLE_ADMIN);
  const auto made = Run(request);
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made->credential().tenant(), "");
  EXPECT_EQ(made->credential().handler_patterns_size(), 0);
  EXPECT_EQ(store_.credentials().at(0).tenant, core::TenantId{0});
  request.add_handler_patterns("*");
  EXPECT_THAT(Run(request), HasMetadata("field", "handler_patterns"));
  request.clear_handler_patterns();
  request.set_tenant("acme");
  EXPECT_THAT(Run(request), HasMetadata("field", "tenant"));
}

TEST_F(AdminOperationsTest, CredentialFieldsAreChecked) {
  v1::CreateCredentialRequest request = Consumer();
  request.set_role(v1::ROLE_UNSPECIFIED);
  EXPECT_THAT(Run(request), IsInvalid("role must be CONSUMER, OPERATOR or ADMIN"));
  request.set_role(static_cast<v1::Role>(9));
  EXPECT_THAT(Run(request), HasMetadata("field", "role"));

  request = Consumer();
  request.set_description(std::string(256, 'x'));
  EXPECT_THAT(Run(request), IsInvalid("description is 256 bytes; the limit is 255"));

  request = Consumer();
  for (int i = 0; i < 64; ++i) {
    request.add_handler_patterns(std::string(128, 'x') + "*");
  }
  EXPECT_THAT(Run(request), IsOk());
  request.add_handler_patterns("x");
  EXPECT_THAT(Run(request), IsInvalid("handler_patterns has 65 items; the limit is 64"));

  request = Consumer();
  request.add_handler_patterns("ok");
  request.add_handler_patterns("not ok");
  EXPECT_THAT(Run(request), HasMetadata("field", "handler_patterns[1]"));

  request = Consumer();
  request.mutable_ttl()->set_nanos(1);
  EXPECT_THAT(Run(request), IsInvalid("ttl is 1ns; the minimum is 1s"));
  request.mutable_ttl()->set_seconds(int64_t{11} * 366 * 86'400);
  EXPECT_THAT(Run(request), HasMetadata("field", "ttl"));
}

TEST_F(AdminOperationsTest, CredentialsArePagedByTenant) {
  MakeTenant("globex");
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(MakeCredential());
  }
  v1::CreateCredentialRequest other = Consumer();
  other.set_tenant("globex");
  ASSERT_THAT(Run(other), IsOk());
  std::sort(ids.begin(), ids.end());

  v1::ListCredentialsRequest request;
  request.set_tenant("acme");
  request.set_page_size(2);
  const auto first = Run(request);
  ASSERT_THAT(first, IsOk());
  request.set_page_token(first->next_page_token());
  const auto second = Run(request);
  ASSERT_THAT(second, IsOk());
  ASSERT_EQ(first->credentials_size(), 2);
  ASSERT_EQ(second->credentials_size(), 1);
  EXPECT_THAT((std::vector<std::string>{first->credentials(0).credential_id(),
                                        first->credentials(1).credential_id(),
                                        second->credentials(0).credential_id()}),
              ::testing::ElementsAreArray(ids));

  request.set_tenant("globex");  // the token belongs to the other list
  EXPECT_THAT(Run(request), HasMetadata("field", "page_token"));
  request.Clear();
  EXPECT_EQ(Run(request)->credentials_size(), 4);
  request.set_tenant("nobody");
  EXPECT_THAT(Run(request), IsError(ErrorReason::kTenantNotFound, ""));
}

TEST_F(AdminOperationsTest, RotationKeepsTheRightsAndLetsTheOldOneEnd) {
  v1::CreateCredentialRequest create = Consumer();
  create.add_handler_patterns("points.*");
  create.set_description("points workers");
  create.mutable_ttl()->set_seconds(10 * 86'400);
  const auto old = Run(create);
  store_.Advance(absl::Hours(48));
  v1::RotateCredentialRequest rotate;
  rotate.set_credential_id(old->credential().credential_id());
  const auto rotated = Run(rotate);
  ASSERT_THAT(rotated, IsOk());
  EXPECT_NE(rotated->credential().credential_id(), old->credential().credential_id());
  EXPECT_EQ(rotated->credential().tenant(), "acme");
  EXPECT_EQ(rotated->credential().role(), v1::ROLE_CONSUMER);
  EXPECT_THAT(rotated->credential().handler_patterns(), ElementsAre("points.*"));
  EXPECT_EQ(rotated->credential().description(), "points workers");
  // The same lifetime, from now on; the old one ends after the default overlap of a day.
  EXPECT_EQ(rotated->credential().expire_time().seconds(), 1'700'000'000 + 12 * 86'400);
  EXPECT_EQ(rotated->replaced().expire_time().seconds(), 1'700'000'000 + 3 * 86'400);
  EXPECT_EQ(rotated->replaced().credential_id(), old->credential().credential_id());
  EXPECT_EQ(auth::ParseToken(rotated->token())->credential_id,
            rotated->credential().credential_id());
}

TEST_F(AdminOperationsTest, RotationWithoutOverlapEndsTheOldOneAtOnce) {
  v1::RotateCredentialRequest rotate;
  rotate.set_credential_id(MakeCredential());
  rotate.mutable_overlap();
  const auto rotated = Run(rotate);
  ASSERT_THAT(rotated, IsOk());
  EXPECT_EQ(rotated->replaced().expire_time().seconds(), 1'700'000'000);
  EXPECT_FALSE(rotated->credential().has_expire_time());
  EXPECT_THAT(Run(rotate),
              IsInvalid("credential_id names a credential that is revoked or expired"));
}

TEST_F(AdminOperationsTest, RotationIsChecked) {
  v1::RotateCredentialRequest rotate;
  rotate.set_credential_id("nonsense");
  EXPECT_THAT(Run(rotate), IsInvalid("credential_id must be 16 lower-case hexadecimal digits"));
  rotate.set_credential_id("0123456789abcdef");
  EXPECT_THAT(Run(rotate),
              AllOf(IsError(ErrorReason::kCredentialNotFound, "no credential 0123456789abcdef"),
                    HasMetadata("credential_id", "0123456789abcdef")));
  rotate.set_credential_id(MakeCredential());
  rotate.mutable_overlap()->set_seconds(30 * 86'400);
  EXPECT_THAT(Run(rotate), IsOk());
  rotate.mutable_overlap()->set_seconds(30 * 86'400 + 1);
  EXPECT_THAT(Run(rotate), HasMetadata("field", "overlap"));
  rotate.mutable_overlap()->set_seconds(-1);
  EXPECT_THAT(Run(rotate), HasMetadata("field", "overlap"));
}

TEST_F(AdminOperationsTest, RevokedCredentialCannotComeBackByRotation) {
  v1::RevokeCredentialRequest revoke;
  revoke.set_credential_id(MakeCredential());
  ASSERT_THAT(Run(revoke), IsOk());
  v1::RotateCredentialRequest rotate;
  rotate.set_credential_id(revoke.credential_id());
  EXPECT_THAT(Run(rotate), HasMetadata("field", "credential_id"));
}

TEST_F(AdminOperationsTest, FailedRotationLeavesTheOldOneGoodAndNoOtherOne) {
  v1::RotateCredentialRequest rotate;
  rotate.set_credential_id(MakeCredential());
  store_.FailNext({absl::OkStatus(), absl::OkStatus(), absl::AbortedError("deadlock")});
  EXPECT_TRUE(absl::IsAborted(Run(rotate).status()));
  for (const store::CredentialRow& row : store_.credentials()) {
    EXPECT_EQ(row.active, row.credential_id == rotate.credential_id());
  }
}

TEST_F(AdminOperationsTest, RevocationIsRepeatable) {
  v1::RevokeCredentialRequest revoke;
  revoke.set_credential_id(MakeCredential());
  const auto first = Run(revoke);
  ASSERT_THAT(first, IsOk());
  store_.Advance(absl::Hours(1));
  const auto second = Run(revoke);
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->credential().revoke_time().seconds(),
            first->credential().revoke_time().seconds());
  revoke.set_credential_id("0123456789abcdef");
  EXPECT_THAT(Run(revoke), IsError(ErrorReason::kCredentialNotFound, ""));
  revoke.set_credential_id("x");
  EXPECT_THAT(Run(revoke), HasMetadata("field", "credential_id"));
}

TEST_F(AdminOperationsTest, ChangesHaveTheirAuthorAndReason) {
  v1::RevokeCredentialRequest request;
  request.set_credential_id(MakeCredential());
  request.set_reason("leaked");
  ASSERT_THAT(Run(request), IsOk());
  const auto records = session_->ListAudit(std::nullopt, INT64_MAX, 9);
  ASSERT_TRUE(records.ok());
  EXPECT_EQ(records->front().author.reason, "leaked");
  EXPECT_EQ(records->front().author.credential_id, "0123456789abcdef");
  request.set_reason(std::string(256, 'r'));
  EXPECT_THAT(Run(request), IsInvalid("reason is 256 bytes; the limit is 255"));
}

}  // namespace
}  // namespace once::rpc
