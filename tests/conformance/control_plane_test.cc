// Tenants, credentials, policies, the audit and handler names.
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "conformance/harness.h"
#include "core/limits.h"

namespace once::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kThreads = 6;

const store::Author kAuthor = {.credential_id = "aaaaaaaaaaaaaaaa", .reason = "a test"};

class ControlPlaneTest : public FreshDatabaseTest {
 protected:
  ControlPlaneTest() : store_(OpenMigrated()), control_(OpenControl()) {}

  std::unique_ptr<store::ControlSession> OpenControl() {
    auto session = store_->OpenControlSession();
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  store::TenantRow Tenant(absl::string_view name) {
    auto row = control_->CreateTenant(name, kAuthor);
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
    auto row = control_->CreateCredential(CredentialOf(id, tenant), ttl, kAuthor);
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
  EXPECT_TRUE(absl::IsAlreadyExists(control_->CreateTenant("shop", kAuthor).status()));
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
  EXPECT_TRUE(
      absl::IsInvalidArgument(control_->CreateTenant(std::string(129, 't'), kAuthor).status()));
  EXPECT_THAT(NamesOf(control_->ListTenants("", 10)), IsEmpty());
  (void)Tenant(std::string(128, 't'));
}

TEST_F(ControlPlaneTest, OneOfManyServersMakesATenant) {
  std::atomic<int> made{0};
  InParallel([&](store::ControlSession& session) {
    auto row =
        Persistently<store::TenantRow>([&] { return session.CreateTenant("shop", kAuthor); });
    if (row.ok()) ++made;
    EXPECT_TRUE(row.ok() || absl::IsAlreadyExists(row.status())) << row.status();
  });
  EXPECT_EQ(made, 1);
}

// ---- credentials ----

TEST_F(ControlPlaneTest, CredentialIsReadAsItWasMade) {
  const store::TenantRow tenant = Tenant("shop");
  const store::CredentialRow wanted = CredentialOf("00000000000000aa", tenant.id);
  auto made = control_->CreateCredential(wanted, std::nullopt, kAuthor);
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
  ASSERT_TRUE(control_->CreateCredential(wanted, std::nullopt, kAuthor).ok());
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
  ASSERT_TRUE(control_->CreateCredential(wanted, std::nullopt, kAuthor).ok());
  EXPECT_EQ(Reread("00000000000000aa").handler_patterns, wanted.handler_patterns);
}

TEST_F(ControlPlaneTest, TooLongDescriptionIsRefused) {
  store::CredentialRow wanted = CredentialOf("00000000000000aa", Tenant("shop").id);
  wanted.description = std::string(256, 'd');
  EXPECT_TRUE(
      absl::IsInvalidArgument(control_->CreateCredential(wanted, std::nullopt, kAuthor).status()));
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

  auto lasting = control_->ExpireCredential("00000000000000aa", absl::Hours(1), kAuthor);
  ASSERT_TRUE(lasting.ok()) << lasting.status();
  EXPECT_TRUE(lasting->active);
  ASSERT_TRUE(lasting->expires.has_value());
  EXPECT_GT(*lasting->expires, lasting->created + absl::Minutes(59));

  const auto before = Reread("00000000000000bb").expires;
  EXPECT_EQ(control_->ExpireCredential("00000000000000bb", absl::Hours(1), kAuthor)->expires,
            before);
  auto ended = control_->ExpireCredential("00000000000000bb", absl::ZeroDuration(), kAuthor);
  ASSERT_TRUE(ended.ok());
  EXPECT_FALSE(ended->active);
  EXPECT_FALSE(Reread("00000000000000bb").active);
  EXPECT_TRUE(absl::IsNotFound(
      control_->ExpireCredential("00000000000000cc", absl::Hours(1), kAuthor).status()));
}

TEST_F(ControlPlaneTest, RevokingAgainKeepsTheFirstTime) {
  (void)Credential("00000000000000aa", Tenant("shop").id);
  auto first = control_->RevokeCredential("00000000000000aa", kAuthor);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->active);
  ASSERT_TRUE(first->revoked.has_value());
  EXPECT_EQ(control_->RevokeCredential("00000000000000aa", kAuthor)->revoked, first->revoked);
  EXPECT_FALSE(Reread("00000000000000aa").active);
  EXPECT_TRUE(absl::IsNotFound(control_->RevokeCredential("00000000000000bb", kAuthor).status()));
}

TEST_F(ControlPlaneTest, OneCredentialsEndIsNotAnothers) {
  const core::TenantId tenant = Tenant("shop").id;
  (void)Credential("00000000000000aa", tenant);
  (void)Credential("00000000000000bb", tenant);
  (void)control_->RevokeCredential("00000000000000aa", kAuthor);
  (void)control_->ExpireCredential("00000000000000aa", absl::ZeroDuration(), kAuthor);
  EXPECT_TRUE(Reread("00000000000000bb").active);
}

// ---- the first admin ----

TEST_F(ControlPlaneTest, FirstAdminIsMadeOnce) {
  auto first =
      control_->BootstrapAdmin(CredentialOf("00000000000000aa", {}, store::Role::kAdmin), kAuthor);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->role, store::Role::kAdmin);
  EXPECT_TRUE(absl::IsAlreadyExists(
      control_->BootstrapAdmin(CredentialOf("00000000000000bb", {}, store::Role::kAdmin), kAuthor)
          .status()));
  EXPECT_TRUE(absl::IsNotFound(control_->GetCredential("00000000000000bb").status()));
}

TEST_F(ControlPlaneTest, OtherRolesAreNoAdmin) {
  (void)Credential("00000000000000aa", Tenant("shop").id);
  EXPECT_TRUE(
      control_->BootstrapAdmin(CredentialOf("00000000000000bb", {}, store::Role::kAdmin), kAuthor)
          .ok());
}

TEST_F(ControlPlaneTest, AdminIsMadeAgainWhereNoneIsActive) {
  (void)control_->BootstrapAdmin(CredentialOf("00000000000000aa", {}, store::Role::kAdmin),
                                 kAuthor);
  (void)control_->RevokeCredential("00000000000000aa", kAuthor);
  EXPECT_TRUE(
      control_->BootstrapAdmin(CredentialOf("00000000000000bb", {}, store::Role::kAdmin), kAuthor)
          .ok());
  (void)control_->ExpireCredential("00000000000000bb", absl::ZeroDuration(), kAuthor);
  EXPECT_TRUE(
      control_->BootstrapAdmin(CredentialOf("00000000000000cc", {}, store::Role::kAdmin), kAuthor)
          .ok());
}

TEST_F(ControlPlaneTest, OneOfManyServersMakesTheFirstAdmin) {
  std::atomic<int> made{0};
  std::atomic<int> number{0};
  InParallel([&](store::ControlSession& session) {
    const auto row =
        CredentialOf(absl::StrCat("00000000000000a", number++), {}, store::Role::kAdmin);
    auto admin =
        Persistently<store::CredentialRow>([&] { return session.BootstrapAdmin(row, kAuthor); });
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

// ---- policies ----

std::vector<int32_t> VersionsOf(const absl::StatusOr<std::vector<store::PolicyVersionRow>>& rows) {
  std::vector<int32_t> versions;
  if (rows.ok()) {
    for (const store::PolicyVersionRow& row : *rows) versions.push_back(row.version);
  } else {
    ADD_FAILURE() << rows.status();
  }
  return versions;
}

TEST_F(ControlPlaneTest, PoliciesAreReadAsTheyWereApplied) {
  const core::TenantId shop = Tenant("shop").id;
  EXPECT_TRUE(absl::IsNotFound(control_->GetPolicies(shop, 0).status()));
  const std::string document = RandomBytes(core::kMaxPolicyBytes, 1);
  const auto made = control_->ApplyPolicies(shop, 0, document, kAuthor);
  ASSERT_TRUE(made.ok()) << made.status();
  for (const auto& row :
       {*made, *control_->GetPolicies(shop, 0), *control_->GetPolicies(shop, 1)}) {
    EXPECT_EQ(row.tenant, shop);
    EXPECT_EQ(row.version, 1);
    EXPECT_EQ(row.document, document);
    EXPECT_EQ(row.author.credential_id, kAuthor.credential_id);
    EXPECT_EQ(row.author.reason, kAuthor.reason);
    EXPECT_GT(row.created.micros, 0);
    EXPECT_GT(row.change_id, 0);
  }
  EXPECT_TRUE(absl::IsNotFound(control_->GetPolicies(shop, 2).status()));
}

TEST_F(ControlPlaneTest, EarlierVersionsStayAsTheyWere) {
  const core::TenantId shop = Tenant("shop").id;
  ASSERT_TRUE(control_->ApplyPolicies(shop, 0, "one", kAuthor).ok());
  ASSERT_TRUE(control_->ApplyPolicies(shop, 1, "two", {.credential_id = "", .reason = ""}).ok());
  ASSERT_TRUE(control_->ApplyPolicies(shop, 2, "three", kAuthor).ok());
  EXPECT_EQ(control_->GetPolicies(shop, 1)->document, "one");
  EXPECT_EQ(control_->GetPolicies(shop, 2)->document, "two");
  EXPECT_EQ(control_->GetPolicies(shop, 0)->document, "three");
  EXPECT_THAT(VersionsOf(control_->ListPolicyVersions(shop, INT32_MAX, 2)), ElementsAre(3, 2));
  EXPECT_THAT(VersionsOf(control_->ListPolicyVersions(shop, 2, 2)), ElementsAre(1));
  EXPECT_THAT(VersionsOf(control_->ListPolicyVersions({99}, INT32_MAX, 2)), IsEmpty());
  EXPECT_EQ(control_->ListPolicyVersions(shop, 2, 2)->front().author.reason, kAuthor.reason);
}

TEST_F(ControlPlaneTest, PoliciesFollowTheVersionThatTheirAuthorSaw) {
  const core::TenantId shop = Tenant("shop").id;
  EXPECT_TRUE(
      absl::IsFailedPrecondition(control_->ApplyPolicies(shop, 1, "one", kAuthor).status()));
  ASSERT_TRUE(control_->ApplyPolicies(shop, 0, "one", kAuthor).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(control_->ApplyPolicies(shop, 0, "other", kAuthor).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      control_->ApplyPolicies(shop, INT32_MAX, "one", kAuthor).status()));
  ASSERT_TRUE(control_->ApplyPolicies(shop, 1, "two", kAuthor).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(control_->ApplyPolicies(shop, 0, "two", kAuthor).status()));
  EXPECT_EQ(control_->GetPolicies(shop, 0)->version, 2);
  EXPECT_TRUE(control_->usable());
}

TEST_F(ControlPlaneTest, RepeatedApplyIsAnsweredWithWhatItMade) {
  const core::TenantId shop = Tenant("shop").id;
  ASSERT_TRUE(control_->ApplyPolicies(shop, 0, "one", kAuthor).ok());
  for (const int32_t expected : {0, 1}) {  // its answer was lost; nothing has changed since
    const auto again = control_->ApplyPolicies(shop, expected, "one", kAuthor);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->version, 1);
  }
  EXPECT_THAT(VersionsOf(control_->ListPolicyVersions(shop, INT32_MAX, 9)), ElementsAre(1));
  EXPECT_THAT(*control_->ListAudit(shop, INT64_MAX, 9), SizeIs(2));  // the tenant, the version
}

TEST_F(ControlPlaneTest, ChangesAreTheNewestVersionsOfTenantsSince) {
  const core::TenantId shop = Tenant("shop").id;
  const core::TenantId bank = Tenant("bank").id;
  EXPECT_THAT(*control_->ReadPolicyChanges(0), IsEmpty());
  ASSERT_TRUE(control_->ApplyPolicies(shop, 0, "s1", kAuthor).ok());
  ASSERT_TRUE(control_->ApplyPolicies(bank, 0, "b1", kAuthor).ok());
  ASSERT_TRUE(control_->ApplyPolicies(shop, 1, "s2", kAuthor).ok());
  const auto all = control_->ReadPolicyChanges(0);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_THAT(*all, SizeIs(2));
  EXPECT_EQ((*all)[0].document, "b1");
  EXPECT_EQ((*all)[1].document, "s2");
  EXPECT_LT((*all)[0].change_id, (*all)[1].change_id);
  EXPECT_THAT(*control_->ReadPolicyChanges((*all)[0].change_id), SizeIs(1));
  EXPECT_THAT(*control_->ReadPolicyChanges((*all)[1].change_id), IsEmpty());
}

TEST_F(ControlPlaneTest, OfManyWhoApplyAtOnceOneIsFirst) {
  const core::TenantId shop = Tenant("shop").id;
  std::atomic<int> number{0};
  std::atomic<int> made{0};
  InParallel([&](store::ControlSession& session) {
    const std::string document = absl::StrCat("document ", ++number);
    const auto row = Persistently<store::PolicyVersionRow>(
        [&] { return session.ApplyPolicies(shop, 0, document, kAuthor); });
    if (row.ok()) ++made;
    EXPECT_TRUE(row.ok() || absl::IsFailedPrecondition(row.status())) << row.status();
  });
  EXPECT_EQ(made, 1);
}

// Each of them changes a tenant of its own; nobody who reads changes in their order misses one.
TEST_F(ControlPlaneTest, NoChangeIsMissedWhileManyAreMade) {
  std::vector<core::TenantId> tenants;
  for (int i = 0; i < kThreads; ++i) tenants.push_back(Tenant(absl::StrCat("t", i)).id);
  std::atomic<size_t> next{0};
  std::atomic<int> writers{kThreads};
  std::thread reader([&] {
    const auto session = OpenControl();
    std::map<uint32_t, int32_t> seen;
    int64_t change = 0;
    for (bool last = false; !last;) {
      last = writers == 0;
      const auto rows = Persistently<std::vector<store::PolicyVersionRow>>(
          [&] { return session->ReadPolicyChanges(change); });
      ASSERT_TRUE(rows.ok()) << rows.status();
      for (const store::PolicyVersionRow& row : *rows) {
        EXPECT_GT(row.version, seen[row.tenant.value]);
        seen[row.tenant.value] = row.version;
        change = std::max(change, row.change_id);
      }
    }
    for (const core::TenantId tenant : tenants) EXPECT_EQ(seen[tenant.value], 5);
  });
  InParallel([&](store::ControlSession& session) {
    const core::TenantId tenant = tenants[next++];
    for (int32_t version = 0; version < 5; ++version) {
      const std::string document = absl::StrCat("version ", version);
      const auto row = Persistently<store::PolicyVersionRow>(
          [&] { return session.ApplyPolicies(tenant, version, document, kAuthor); });
      EXPECT_TRUE(row.ok()) << row.status();
    }
    --writers;
  });
  reader.join();
}

// ---- audit ----

TEST_F(ControlPlaneTest, EveryChangeIsInTheAuditWithItsAuthor) {
  const core::TenantId shop = Tenant("shop").id;
  (void)Credential("00000000000000aa", shop);
  (void)control_->ExpireCredential("00000000000000aa", absl::Hours(1), kAuthor);
  (void)control_->RevokeCredential("00000000000000aa", {.credential_id = "b", .reason = "leaked"});
  ASSERT_TRUE(control_->ApplyPolicies(shop, 0, "[]", kAuthor).ok());
  ASSERT_TRUE(control_->ApplyPolicies(shop, 1, "[1]", kAuthor).ok());

  const auto records = control_->ListAudit(std::nullopt, INT64_MAX, 10);
  ASSERT_TRUE(records.ok()) << records.status();
  std::vector<store::AuditAction> actions;
  for (const store::AuditRow& row : *records) {
    actions.push_back(row.action);
    EXPECT_EQ(row.tenant, shop);
    EXPECT_EQ(row.tenant_name, "shop");
    EXPECT_GT(row.created.micros, 0);
  }
  using enum store::AuditAction;
  EXPECT_THAT(actions, ElementsAre(kApplyPolicies, kApplyPolicies, kRevokeCredential,
                                   kExpireCredential, kCreateCredential, kCreateTenant));
  const store::AuditRow& applied = (*records)[0];
  EXPECT_EQ(applied.subject, "version 2");
  EXPECT_EQ(applied.before, "[]");
  EXPECT_EQ(applied.after, "[1]");
  EXPECT_EQ(applied.author.credential_id, kAuthor.credential_id);
  EXPECT_EQ(applied.author.reason, kAuthor.reason);
  const store::AuditRow& revoked = (*records)[2];
  EXPECT_EQ(revoked.subject, "00000000000000aa");
  EXPECT_THAT(revoked.before, ::testing::Not(::testing::HasSubstr("revoke_time")));
  EXPECT_THAT(revoked.after, ::testing::HasSubstr("revoke_time"));
  EXPECT_EQ(revoked.author.reason, "leaked");
  // All of it: a secret, or its digest, is not there in any form.
  EXPECT_THAT(
      (*records)[4].after,
      ::testing::MatchesRegex(R"(\{"credential_id":"00000000000000aa","role":"CONSUMER",)"
                              R"("handler_patterns":\["points\.\*","order\.audit"\],)"
                              R"("description":"of a test","create_time":"[-0-9T:.+]*"\})"));
  EXPECT_EQ((*records)[5].before, "");
  EXPECT_EQ((*records)[5].subject, "shop");
}

TEST_F(ControlPlaneTest, WhatChangesNothingIsNotInTheAudit) {
  (void)Credential("00000000000000aa", Tenant("shop").id);
  (void)control_->RevokeCredential("00000000000000aa", kAuthor);
  (void)control_->RevokeCredential("00000000000000aa", kAuthor);
  (void)control_->RevokeCredential("00000000000000bb", kAuthor);
  (void)control_->CreateTenant("shop", kAuthor);
  (void)control_->CreateCredential(CredentialOf("00000000000000aa", {1}), std::nullopt, kAuthor);
  EXPECT_THAT(*control_->ListAudit(std::nullopt, INT64_MAX, 10), SizeIs(3));
}

TEST_F(ControlPlaneTest, AuditIsListedByTenantInPages) {
  const core::TenantId shop = Tenant("shop").id;
  (void)Tenant("bank");
  for (int32_t version = 0; version < 3; ++version) {
    ASSERT_TRUE(control_->ApplyPolicies(shop, version, absl::StrCat(version), kAuthor).ok());
  }
  const auto first = control_->ListAudit(shop, INT64_MAX, 2);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_THAT(*first, SizeIs(2));
  EXPECT_EQ((*first)[0].subject, "version 3");
  const auto second = control_->ListAudit(shop, first->back().audit_id, 9);
  ASSERT_THAT(*second, SizeIs(2));
  EXPECT_EQ(second->back().subject, "shop");
  EXPECT_THAT(*control_->ListAudit(std::nullopt, INT64_MAX, 9), SizeIs(5));
}

TEST_F(ControlPlaneTest, FirstAdminIsInTheAudit) {
  ASSERT_TRUE(
      control_->BootstrapAdmin(CredentialOf("00000000000000aa", {}, store::Role::kAdmin), {}).ok());
  const auto records = control_->ListAudit(std::nullopt, INT64_MAX, 9);
  ASSERT_THAT(*records, SizeIs(1));
  EXPECT_EQ(records->front().subject, "00000000000000aa");
  EXPECT_EQ(records->front().tenant_name, "");
  EXPECT_EQ(records->front().author.credential_id, "");
}

TEST_F(ControlPlaneTest, ChangeWhoseReasonIsTooLongIsNotMade) {
  const store::Author wordy = {.credential_id = "", .reason = std::string(256, 'r')};
  EXPECT_TRUE(absl::IsInvalidArgument(control_->ApplyPolicies({1}, 0, "[]", wordy).status()));
  EXPECT_TRUE(absl::IsNotFound(control_->GetPolicies({1}, 0).status()));
}

}  // namespace
}  // namespace once::conformance
