// TLS to the database: what is verified, and what is refused.
#include "integration/mysql/mysql_fixture.h"
#include "store/mysql/mysql_store.h"

namespace once::testing {
namespace {

using ::testing::AnyOf;
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
  std::string Refusal(store::MysqlTlsMode mode, const std::string& ca,
                      const std::string& host = "127.0.0.1") {
    const absl::Status status = OpenWith(mode, ca, host);
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }
};

TEST_F(TlsTest, VerifiedIdentityWorksByAddressAndByName) {
  EXPECT_EQ(OpenWith(store::MysqlTlsMode::kVerifyIdentity, Server().ca()), absl::OkStatus());
  EXPECT_EQ(OpenWith(store::MysqlTlsMode::kVerifyIdentity, Server().ca(), "localhost"),
            absl::OkStatus());
}

TEST_F(TlsTest, AStrangersAuthorityIsRefused) {
  EXPECT_THAT(Refusal(store::MysqlTlsMode::kVerifyIdentity, Server().stranger_ca()),
              HasSubstr("self-signed certificate in certificate chain"));
  // Nor does the system's own list of authorities know the test's.
  EXPECT_THAT(Refusal(store::MysqlTlsMode::kVerifyIdentity, ""),
              HasSubstr("self-signed certificate in certificate chain"));
}

TEST_F(TlsTest, ANameThatTheCertificateDoesNotHaveIsRefused) {
  // Another spelling of the same address, which the resolver understands and the certificate does
  // not name.
  EXPECT_THAT(Refusal(store::MysqlTlsMode::kVerifyIdentity, Server().ca(), "127.1"),
              HasSubstr("Validation of SSL server certificate failed"));
}

TEST_F(TlsTest, RequiredEncryptsWithoutVerification) {
  store::MysqlOptions options = database_.options();
  options.tls.mode = store::MysqlTlsMode::kRequired;
  auto store = store::OpenMysqlStore(options);
  auto session = Write(*store);
  ASSERT_NE(session, nullptr);
  Begin(*session, "a");
}

// The client library alone would log in without TLS, and with the password in the clear.
TEST_F(TlsTest, AServerWithoutTlsIsRefusedBeforeTheLogin) {
  auto plain = DatabaseServer::Start(Engine(), {});
  ASSERT_TRUE(plain.ok()) << plain.status();
  TestDatabase database(**plain);
  EXPECT_TRUE(store::OpenMysqlStore(database.options())->Migrate().ok());
  for (const auto mode : {store::MysqlTlsMode::kRequired, store::MysqlTlsMode::kVerifyIdentity}) {
    store::MysqlOptions options = database.options();
    options.tls.mode = mode;
    // A wrong password would be noticed at the login.
    options.password = base::Secret("wrong");
    const absl::Status status = store::OpenMysqlStore(options)->OpenWriteSession().status();
    EXPECT_THAT(std::string(status.message()),
                AnyOf(HasSubstr("TLS is asked for, but the server offers none"),
                      HasSubstr("SSL is required, but the server does not support it")));
  }
}

TEST_F(TlsTest, AServerThatInsistsOnTlsSaysSo) {
  auto strict =
      DatabaseServer::Start(Engine(), {.tls = true, .variables = {"require-secure-transport=ON"}});
  ASSERT_TRUE(strict.ok()) << strict.status();
  store::MysqlOptions options = (*strict)->Options("d");
  const absl::Status status = store::OpenMysqlStore(options)->Migrate().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AnyOf(HasSubstr("require_secure_transport"), HasSubstr("insists on TLS")));
}

TEST_F(TlsTest, AMissingAuthorityFileIsRefused) {
  EXPECT_THAT(Refusal(store::MysqlTlsMode::kVerifyIdentity, "/nonexistent/ca.pem"),
              HasSubstr("No such file"));
}

}  // namespace
}  // namespace once::testing
