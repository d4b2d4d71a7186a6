// Tenants, credentials and handler names.
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "conformance/harness.h"

namespace once::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kThreads = 6;

class ControlPlaneTest : public FreshDatabaseTest {
 protected:
  ControlPlaneTest() : store_(OpenMigrated()), control_(OpenControl()) {}

  std::unique_ptr<store::ControlSession> OpenControl() {
    auto session = store_->OpenControlSession();
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  store::TenantRow Tenant(absl::string_view name) {
    auto row = control_->CreateTenant(name);
    EXPECT_TRUE(row.ok()) << row.status();
    return row.ok() ? *row : store::TenantRow{};
  }

  static store::CredentialRow CredentialOf(absl::string_view id, core::TenantId tenant,
                                           store::Role role = store::Role::kConsumer) {
    store::CredentialRow row;
    row.credential_id = std::string(id);
    row.tenant = tenant;
    row.role = role;
    row.secret_sha256 = DigestOf(id).sha256;
    row.handler_patterns = {"points.*", "order.audit"};
    row.description = "of a test";
    return row;
  }

  store::CredentialRow Credential(absl::string_view id, core::TenantId tenant,
                                  std::optional<absl::Duration> ttl = std::nullopt) {
    auto row = control_->CreateCredential(CredentialOf(id, tenant), ttl);
    EXPECT_TRUE(row.ok()) << row.status();
    return row.ok() ? *row : store::CredentialRow{};
  }

  store::CredentialRow Reread(absl::string_view id) {
    auto row = control_->GetCredential(id);
    EXPECT_TRUE(row.ok()) << row.status();
    return row.ok() ? *row : store::CredentialRow{};
  }

  // Runs `body` on threads with sessions of their own, as close together as can be.
  void InParallel(const std::function<void(store::ControlSession&)>& body) {
    absl::Notification start;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        const auto session = OpenControl();
        start.WaitForNotification();
        body(*session);
      });
    }
    start.Notify();
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

  const std::unique_ptr<store::Store> store_;
  const std::unique_ptr<store::ControlSession> control_;
};

// A call again while another transaction was in the way, as the callers of a store do.
template <typename T>
absl::StatusOr<T> Persistently(const std::function<absl::StatusOr<T>()>& call) {
  absl::StatusOr<T> result = call();
  for (int i = 0; i < 100 && absl::IsAborted(result.status()); ++i) {
    result = call();
  }
  return result;
}

std::vector<std::string> NamesOf(const absl::StatusOr<std::vector<store::TenantRow>>& rows) {
  std::vector<std::string> names;
  if (rows.ok()) {
    for (const store::TenantRow& row : *rows) names.push_back(row.name);
  } else {
    ADD_FAILURE() << rows.status();
  }
  return names;
}

std::vector<std::string> IdsOf(const absl::StatusOr<std::vector<store::CredentialRow>>& rows) {
  std::vector<std::string> ids;
  if (rows.ok()) {
    for (const store::CredentialRow& row : *rows) ids.push_back(row.credential_id);
  } else {
    ADD_FAILURE() << rows.status();
  }
  return ids;
}

// ---- tenants ----

TEST_F(ControlPlaneTest, TenantIsFoundByItsName) {
  const store::TenantRow made = Tenant("shop");
  EXPECT_GT(made.id.value, 0);
  EXPECT_GT(made.created.micros, 0);
  auto found = control_->GetTenant("shop");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->id, made.id);
  EXPECT_EQ(found->name, "shop");
  EXPECT_EQ(found->created, made.created);
  EXPECT_TRUE(absl::IsNotFound(control_->GetTenant("bank").status()));
}

TEST_F(ControlPlaneTest, TenantNamesAreTakenOnce) {
  const store::TenantRow first = Tenant("shop");
  EXPECT_TRUE(absl::IsAlreadyExists(control_->CreateTenant("shop").status()));
  EXPECT_EQ(control_->GetTenant("shop")->id, first.id);
  EXPECT_TRUE(control_->usable());
}

TEST_F(ControlPlaneTest, TenantNamesCompareByteForByte) {
  std::set<core::TenantId> ids;
  for (const char* name : {"shop", "Shop", "shop ", "sh\xc3\xb6p", "sho\xcc\x88p", "shop%"}) {
    ids.insert(Tenant(name).id);
  }
  EXPECT_THAT(ids, SizeIs(6));
}

TEST_F(ControlPlaneTest, TenantsAreListedByNameInPages) {
  for (const char* name : {"d", "b", "a", "c", "\x80"}) {
    (void)Tenant(name);
  }
  EXPECT_THAT(NamesOf(control_->ListTenants("", 2)), ElementsAre("a", "b"));
  EXPECT_THAT(NamesOf(control_->ListTenants("b", 2)), ElementsAre("c", "d"));
  EXPECT_THAT(NamesOf(control_->ListTenants("d", 2)), ElementsAre("\x80"));
  EXPECT_THAT(NamesOf(control_->ListTenants("\x80", 2)), IsEmpty());
}

TEST_F(ControlPlaneTest, TooLongTenantNameIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(control_->CreateTenant(std::string(129, 't')).status()));
  EXPECT_THAT(NamesOf(control_->ListTenants("", 10)), IsEmpty());
  (void)Tenant(std::string(128, 't'));
}

TEST_F(ControlPlaneTest, OneOfManyServersMakesATenant) {
  std::atomic<int> made{0};
  InParallel([&](store::ControlSession& session) {
    auto row = Persistently<store::TenantRow>([&] { return session.CreateTenant("shop"); });
    if (row.ok()) ++made;
    EXPECT_TRUE(row.ok() || absl::IsAlreadyExists(row.status())) << row.status();
  });
  EXPECT_EQ(made, 1);
}

// ---- credentials ----

TEST_F(ControlPlaneTest, CredentialIsReadAsItWasMade) {
  const store::TenantRow tenant = Tenant("shop");
  const store::CredentialRow wanted = CredentialOf("00000000000000aa", tenant.id);
  auto made = control_->CreateCredential(wanted, std::nullopt);
  ASSERT_TRUE(made.ok()) << made.status();
  for (const store::CredentialRow& row : {*made, Reread("00000000000000aa")}) {
    EXPECT_EQ(row.credential_id, wanted.credential_id);
    EXPECT_EQ(row.tenant, tenant.id);
    EXPECT_EQ(row.role, store::Role::kConsumer);
    EXPECT_EQ(row.secret_sha256, wanted.secret_sha256);
    EXPECT_EQ(row.handler_patterns, wanted.handler_patterns);
    EXPECT_EQ(row.description, "of a test");
    EXPECT_GE(row.created, tenant.created);
    EXPECT_FALSE(row.expires.has_value());
    EXPECT_FALSE(row.revoked.has_value());
    EXPECT_TRUE(row.active);
  }
  EXPECT_EQ(Reread("00000000000000aa").tenant_name, "shop");
  EXPECT_TRUE(absl::IsNotFound(control_->GetCredential("00000000000000ab").status()));
}

TEST_F(ControlPlaneTest, CredentialWithoutTenantAndPatterns) {
  store::CredentialRow wanted = CredentialOf("00000000000000aa", {}, store::Role::kAdmin);
  wanted.handler_patterns.clear();
  wanted.description.clear();
  ASSERT_TRUE(control_->CreateCredential(wanted, std::nullopt).ok());
  const store::CredentialRow row = Reread("00000000000000aa");
  EXPECT_EQ(row.role, store::Role::kAdmin);
  EXPECT_EQ(row.tenant, core::TenantId{});
  EXPECT_EQ(row.tenant_name, "");
  EXPECT_THAT(row.handler_patterns, IsEmpty());
  EXPECT_EQ(row.description, "");
}

TEST_F(ControlPlaneTest, CredentialWithTheMostPatternsFits) {
  store::CredentialRow wanted = CredentialOf("00000000000000aa", Tenant("shop").id);
  wanted.handler_patterns.assign(64, std::string(128, 'h'));
  wanted.description = std::string(255, 'd');
  ASSERT_TRUE(control_->CreateCredential(wanted, std::nullopt).ok());
  EXPECT_EQ(Reread("00000000000000aa").handler_patterns, wanted.handler_patterns);
}

TEST_F(ControlPlaneTest, TooLongDescriptionIsRefused) {
  store::CredentialRow wanted = CredentialOf("00000000000000aa", Tenant("shop").id);
  wanted.description = std::string(256, 'd');
  EXPECT_TRUE(absl::IsInvalidArgument(control_->CreateCredential(wanted, std::nullopt).status()));
  EXPECT_TRUE(absl::IsNotFound(control_->GetCredential("00000000000000aa").status()));
}

TEST_F(ControlPlaneTest, CredentialsAreListedByIdInPages) {
  const core::TenantId shop = Tenant("shop").id;
  const core::TenantId bank = Tenant("bank").id;
  (void)Credential("0000000000000003", shop);
  (void)Credential("0000000000000001", bank);
  (void)Credential("0000000000000002", shop);
  EXPECT_THAT(IdsOf(control_->ListCredentials(std::nullopt, "", 2)),
              ElementsAre("0000000000000001", "0000000000000002"));
  EXPECT_THAT(IdsOf(control_->ListCredentials(std::nullopt, "0000000000000002", 2)),
              ElementsAre("0000000000000003"));
  EXPECT_THAT(IdsOf(control_->ListCredentials(shop, "", 10)),
              ElementsAre("0000000000000002", "0000000000000003"));
  EXPECT_THAT(IdsOf(control_->ListCredentials(shop, "0000000000000003", 10)), IsEmpty());
  EXPECT_THAT(IdsOf(control_->ListCredentials(core::TenantId{999}, "", 10)), IsEmpty());
}

TEST_F(ControlPlaneTest, CredentialEndsWithItsTime) {
  const core::TenantId tenant = Tenant("shop").id;
  const store::CredentialRow lasting = Credential("00000000000000aa", tenant, absl::Hours(1));
  ASSERT_TRUE(lasting.expires.has_value());
  EXPECT_EQ(*lasting.expires - lasting.created, absl::Hours(1));
  EXPECT_TRUE(Reread("00000000000000aa").active);
  EXPECT_FALSE(Credential("00000000000000bb", tenant, absl::ZeroDuration()).active);
  EXPECT_FALSE(Reread("00000000000000bb").active);
}

TEST_F(ControlPlaneTest, ExpiringNeverMakesACredentialLastLonger) {
  const core::TenantId tenant = Tenant("shop").id;
  (void)Credential("00000000000000aa", tenant);
  (void)Credential("00000000000000bb", tenant, absl::Minutes(1));

  auto lasting = control_->ExpireCredential("00000000000000aa", absl::Hours(1));
  ASSERT_TRUE(lasting.ok()) << lasting.status();
  EXPECT_TRUE(lasting->active);
  ASSERT_TRUE(lasting->expires.has_value());
  EXPECT_GT(*lasting->expires, lasting->created + absl::Minutes(59));

  const auto before = Reread("00000000000000bb").expires;
  EXPECT_EQ(control_->ExpireCredential("00000000000000bb", absl::Hours(1))->expires, before);
  auto ended = control_->ExpireCredential("00000000000000bb", absl::ZeroDuration());
  ASSERT_TRUE(ended.ok());
  EXPECT_FALSE(ended->active);
  EXPECT_FALSE(Reread("00000000000000bb").active);
  EXPECT_TRUE(
      absl::IsNotFound(control_->ExpireCredential("00000000000000cc", absl::Hours(1)).status()));
}

TEST_F(ControlPlaneTest, RevokingAgainKeepsTheFirstTime) {
  (void)Credential("00000000000000aa", Tenant("shop").id);
  auto first = control_->RevokeCredential("00000000000000aa");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->active);
  ASSERT_TRUE(first->revoked.has_value());
  EXPECT_EQ(control_->RevokeCredential("00000000000000aa")->revoked, first->revoked);
  EXPECT_FALSE(Reread("00000000000000aa").active);
  EXPECT_TRUE(absl::IsNotFound(control_->RevokeCredential("00000000000000bb").status()));
}

TEST_F(ControlPlaneTest, OneCredentialsEndIsNotAnothers) {
  const core::TenantId tenant = Tenant("shop").id;
  (void)Credential("00000000000000aa", tenant);
  (void)Credential("00000000000000bb", tenant);
  (void)control_->RevokeCredential("00000000000000aa");
  (void)control_->ExpireCredential("00000000000000aa", absl::ZeroDuration());
  EXPECT_TRUE(Reread("00000000000000bb").active);
}

// ---- the first admin ----

TEST_F(ControlPlaneTest, FirstAdminIsMadeOnce) {
  auto first = control_->BootstrapAdmin(CredentialOf("00000000000000aa", {}, store::Role::kAdmin));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->role, store::Role::kAdmin);
  EXPECT_TRUE(absl::IsAlreadyExists(
      control_->BootstrapAdmin(CredentialOf("00000000000000bb", {}, store::Role::kAdmin))
          .status()));
  EXPECT_TRUE(absl::IsNotFound(control_->GetCredential("00000000000000bb").status()));
}

TEST_F(ControlPlaneTest, OtherRolesAreNoAdmin) {
  (void)Credential("00000000000000aa", Tenant("shop").id);
  EXPECT_TRUE(
      control_->BootstrapAdmin(CredentialOf("00000000000000bb", {}, store::Role::kAdmin)).ok());
}

TEST_F(ControlPlaneTest, AdminIsMadeAgainWhereNoneIsActive) {
  (void)control_->BootstrapAdmin(CredentialOf("00000000000000aa", {}, store::Role::kAdmin));
  (void)control_->RevokeCredential("00000000000000aa");
  EXPECT_TRUE(
      control_->BootstrapAdmin(CredentialOf("00000000000000bb", {}, store::Role::kAdmin)).ok());
  (void)control_->ExpireCredential("00000000000000bb", absl::ZeroDuration());
  EXPECT_TRUE(
      control_->BootstrapAdmin(CredentialOf("00000000000000cc", {}, store::Role::kAdmin)).ok());
}

TEST_F(ControlPlaneTest, OneOfManyServersMakesTheFirstAdmin) {
  std::atomic<int> made{0};
  std::atomic<int> number{0};
  InParallel([&](store::ControlSession& session) {
    const auto row =
        CredentialOf(absl::StrCat("00000000000000a", number++), {}, store::Role::kAdmin);
    auto admin = Persistently<store::CredentialRow>([&] { return session.BootstrapAdmin(row); });
    if (admin.ok()) ++made;
    EXPECT_TRUE(admin.ok() || absl::IsAlreadyExists(admin.status())) << admin.status();
  });
  EXPECT_EQ(made, 1);
  EXPECT_THAT(IdsOf(control_->ListCredentials(std::nullopt, "", 100)), SizeIs(1));
}

// ---- handlers ----

TEST_F(ControlPlaneTest, HandlerNamesKeepTheirIds) {
  const core::TenantId tenant = Tenant("shop").id;
  EXPECT_TRUE(absl::IsNotFound(control_->InternHandler(tenant, "points", false).status()));
  auto made = control_->InternHandler(tenant, "points", true);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_GT(made->value, 0);
  EXPECT_EQ(*control_->InternHandler(tenant, "points", true), *made);
  EXPECT_EQ(*control_->InternHandler(tenant, "points", false), *made);
  EXPECT_EQ(*OpenControl()->InternHandler(tenant, "points", true), *made);
}

TEST_F(ControlPlaneTest, HandlersOfTenantsAndNamesDiffer) {
  const core::TenantId shop = Tenant("shop").id;
  const core::TenantId bank = Tenant("bank").id;
  std::set<core::HandlerId> ids;
  for (const core::TenantId tenant : {shop, bank}) {
    for (const char* name : {"points", "Points", "points.grant"}) {
      auto id = control_->InternHandler(tenant, name, true);
      ASSERT_TRUE(id.ok()) << id.status();
      ids.insert(*id);
    }
  }
  EXPECT_THAT(ids, SizeIs(6));
}

TEST_F(ControlPlaneTest, ManyServersInternTheSameNamesAtOnce) {
  const core::TenantId tenant = Tenant("shop").id;
  absl::Mutex mutex;
  std::vector<std::set<core::HandlerId>> ids(20);
  InParallel([&](store::ControlSession& session) {
    for (size_t i = 0; i < ids.size(); ++i) {
      auto id = Persistently<core::HandlerId>(
          [&] { return session.InternHandler(tenant, absl::StrCat("handler-", i), true); });
      ASSERT_TRUE(id.ok()) << id.status();
      absl::MutexLock lock(&mutex);
      ids[i].insert(*id);
    }
  });
  std::set<core::HandlerId> all;
  for (const std::set<core::HandlerId>& of_one_name : ids) {
    EXPECT_THAT(of_one_name, SizeIs(1));
    all.insert(of_one_name.begin(), of_one_name.end());
  }
  EXPECT_THAT(all, SizeIs(ids.size()));
}

TEST_F(ControlPlaneTest, TooLongHandlerNameIsRefused) {
  const core::TenantId tenant = Tenant("shop").id;
  EXPECT_TRUE(absl::IsInvalidArgument(
      control_->InternHandler(tenant, std::string(129, 'h'), true).status()));
  EXPECT_TRUE(control_->InternHandler(tenant, std::string(128, 'h'), true).ok());
}

}  // namespace
}  // namespace once::conformance
