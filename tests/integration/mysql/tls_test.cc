// TLS to the database: what is verified, and what is refused.
#include "integration/mysql/mysql_fixture.h"
#include "store/mysql/mysql_store.h"

namespace once::testing {
namespace {

using ::testing::HasSubstr;

class TlsTest : public MysqlStoreTest {
 protected:
  absl::Status OpenWith(store::MysqlTlsMode mode, const std::string& ca,
                        const std::string& host = "127.0.0.1") {
    store::MysqlOptions options = database_.options();
    options.hosts[0].host = host;
    options.tls = {.mode = mode, .ca = ca, .cert = "", .key = ""};
    return store::OpenMysqlStore(options)->OpenWriteSession().status();
  }
};

TEST_F(TlsTest, VerifiedIdentityWorksByAddressAndByName) {
  EXPECT_EQ(OpenWith(store::MysqlTlsMode::kVerifyIdentity, Server().ca()), absl::OkStatus());
  EXPECT_EQ(OpenWith(store::MysqlTlsMode::kVerifyIdentity, Server().ca(), "localhost"),
            absl::OkStatus());
}

TEST_F(TlsTest, AStrangersAuthorityIsRefused) {
  for (const auto mode : {store::MysqlTlsMode::kVerifyIdentity, store::MysqlTlsMode::kVerifyCa}) {
    EXPECT_FALSE(OpenWith(mode, Server().stranger_ca()).ok());
  }
  // Nor does the system's own list of authorities know the test's.
  EXPECT_FALSE(OpenWith(store::MysqlTlsMode::kVerifyIdentity, "").ok());
}

TEST_F(TlsTest, ANameThatTheCertificateDoesNotHaveIsRefused) {
  // Another spelling of the same address, which the resolver understands and the certificate does
  // not name.
  const std::string other_name = "127.1";
  EXPECT_FALSE(OpenWith(store::MysqlTlsMode::kVerifyIdentity, Server().ca(), other_name).ok());
  EXPECT_EQ(OpenWith(store::MysqlTlsMode::kVerifyCa, Server().ca(), other_name), absl::OkStatus());
}

TEST_F(TlsTest, RequiredEncryptsWithoutVerification) {
  store::MysqlOptions options = database_.options();
  options.tls.mode = store::MysqlTlsMode::kRequired;
  auto store = store::OpenMysqlStore(options);
  auto session = Write(*store);
  ASSERT_NE(session, nullptr);
  Begin(*session, "a");
}

TEST_F(TlsTest, AServerWithoutTlsIsRefusedInEveryModeThatAsksForIt) {
  auto plain = DatabaseServer::Start(Engine(), {});
  ASSERT_TRUE(plain.ok()) << plain.status();
  TestDatabase database(**plain);
  EXPECT_TRUE(store::OpenMysqlStore(database.options())->Migrate().ok());
  for (const auto mode : {store::MysqlTlsMode::kRequired, store::MysqlTlsMode::kVerifyCa,
                          store::MysqlTlsMode::kVerifyIdentity}) {
    store::MysqlOptions options = database.options();
    options.tls.mode = mode;
    if (mode != store::MysqlTlsMode::kRequired) options.tls.ca = Server().ca();
    EXPECT_FALSE(store::OpenMysqlStore(options)->OpenWriteSession().ok());
  }
}

TEST_F(TlsTest, AMissingAuthorityFileIsRefused) {
  EXPECT_FALSE(OpenWith(store::MysqlTlsMode::kVerifyIdentity, "/nonexistent/ca.pem").ok());
}

}  // namespace
}  // namespace once::testing
