// AdminService from the wire to the store and back.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>

#include "unit/rpc/server_fixture.h"

namespace once::rpc {
namespace {

using ::once::testing::ErrorOf;
using ::once::testing::IsGrpcError;
using ::once::testing::IsGrpcOk;
using ::testing::Contains;
using ::testing::Pair;

using AdminServiceTest = ::once::testing::ServerTest;

TEST_F(AdminServiceTest, LifeOfACredential) {
  Start();
  v1::CreateTenantRequest tenant;
  tenant.set_name("acme");
  v1::CreateTenantResponse made_tenant;
  ASSERT_THAT(admin_stub_->CreateTenant(Context("admin").get(), tenant, &made_tenant), IsGrpcOk());
  EXPECT_EQ(made_tenant.tenant().name(), "acme");

  v1::ListTenantsResponse tenants;
  ASSERT_THAT(admin_stub_->ListTenants(Context("admin").get(), {}, &tenants), IsGrpcOk());
  EXPECT_EQ(tenants.tenants_size(), 1);

  v1::CreateCredentialRequest create;
  create.set_tenant("acme");
  create.set_role(v1::ROLE_OPERATOR);
  v1::CreateCredentialResponse created;
  ASSERT_THAT(admin_stub_->CreateCredential(Context("admin").get(), create, &created), IsGrpcOk());

  v1::RotateCredentialRequest rotate;
  rotate.set_credential_id(created.credential().credential_id());
  v1::RotateCredentialResponse rotated;
  ASSERT_THAT(admin_stub_->RotateCredential(Context("admin").get(), rotate, &rotated), IsGrpcOk());

  v1::RevokeCredentialRequest revoke;
  revoke.set_credential_id(created.credential().credential_id());
  v1::RevokeCredentialResponse revoked;
  ASSERT_THAT(admin_stub_->RevokeCredential(Context("admin").get(), revoke, &revoked), IsGrpcOk());
  EXPECT_TRUE(revoked.credential().has_revoke_time());

  v1::ListCredentialsResponse credentials;
  ASSERT_THAT(admin_stub_->ListCredentials(Context("admin").get(), {}, &credentials), IsGrpcOk());
  EXPECT_EQ(credentials.credentials_size(), 2);

  // The log says who changed what; secrets are nowhere.
  EXPECT_EQ(observer_.Await(0).subject, "tenant acme");
  EXPECT_EQ(observer_.Await(1).subject, "");
  EXPECT_EQ(observer_.Await(2).subject, "credential " + created.credential().credential_id());
  EXPECT_EQ(observer_.Await(3).subject, "credential " + created.credential().credential_id() +
                                            " replaced by " + rotated.credential().credential_id());
  EXPECT_EQ(observer_.Await(4).subject, "credential " + created.credential().credential_id());
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(observer_.Await(i).outcome, "ok");
    EXPECT_EQ(observer_.Await(i).credential_id, "id-of-admin");
  }
}

TEST_F(AdminServiceTest, ErrorsHaveTheirReasons) {
  Start();
  v1::CreateTenantRequest tenant;
  v1::CreateTenantResponse made;
  EXPECT_THAT(admin_stub_->CreateTenant(Context("admin").get(), tenant, &made),
              IsGrpcError(grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD"));
  tenant.set_name("acme");
  ASSERT_THAT(admin_stub_->CreateTenant(Context("admin").get(), tenant, &made), IsGrpcOk());
  const grpc::Status again = admin_stub_->CreateTenant(Context("admin").get(), tenant, &made);
  EXPECT_THAT(again, IsGrpcError(grpc::StatusCode::ALREADY_EXISTS, "TENANT_ALREADY_EXISTS"));
  EXPECT_THAT(ErrorOf(again).metadata, Contains(Pair("tenant", "acme")));
  store_.SetDown(absl::UnavailableError("gone"));
  const grpc::Status away = admin_stub_->CreateTenant(Context("admin").get(), tenant, &made);
  EXPECT_THAT(away, IsGrpcError(grpc::StatusCode::UNAVAILABLE, "STORE_UNAVAILABLE"));
  EXPECT_TRUE(ErrorOf(away).retryable);
}

}  // namespace
}  // namespace once::rpc
