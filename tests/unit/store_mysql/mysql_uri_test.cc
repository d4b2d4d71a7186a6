#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "store/mysql/mysql_store.h"

namespace once::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string RefusalOf(absl::string_view uri) {
  const absl::StatusOr<MysqlOptions> options = ParseMysqlUri(uri);
  EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument) << uri;
  return std::string(options.status().message());
}

TEST(MysqlUri, GivesHostsInOrderUserAndDatabase) {
  const auto options = ParseMysqlUri("mysql://once@db1,db2:3307,[::1]:3308/ledger");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->user, "once");
  EXPECT_EQ(options->database, "ledger");
  EXPECT_THAT(options->hosts,
              ElementsAre(HostPort{"db1", 3306}, HostPort{"db2", 3307}, HostPort{"::1", 3308}));
  EXPECT_EQ(options->tls.mode, MysqlTlsMode::kDisabled);
}

TEST(MysqlUri, ReadsTlsParameters) {
  const auto options = ParseMysqlUri(
      "mysql://o%40x@db/d?tls=verify-identity&tls-ca=/etc/ca%20file.pem&tls-cert=/c&tls-key=/k");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->user, "o@x");
  EXPECT_EQ(options->tls.mode, MysqlTlsMode::kVerifyIdentity);
  EXPECT_EQ(options->tls.ca, "/etc/ca file.pem");
  EXPECT_EQ(options->tls.cert, "/c");
  EXPECT_EQ(options->tls.key, "/k");
}

TEST(MysqlUri, AuthorityWithoutModeVerifiesIdentity) {
  const auto options = ParseMysqlUri("mysql://o@db/d?tls-ca=/ca.pem");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->tls.mode, MysqlTlsMode::kVerifyIdentity);
}

TEST(MysqlUri, PasswordIsRefusedAndNotEchoed) {
  for (const char* uri : {"mysql://once:hunter2@db/d", "mysql://once@db/d?password=hunter2"}) {
    EXPECT_THAT(RefusalOf(uri),
                AllOf(HasSubstr("--mysql-password-file"), Not(HasSubstr("hunter2"))));
  }
}

TEST(MysqlUri, ListsAllFaultsAtOnce) {
  const std::string refusal = RefusalOf("mysql://db:99999/?tls=maybe&colour=red");
  EXPECT_THAT(refusal, AllOf(HasSubstr("user"), HasSubstr("port"), HasSubstr("database"),
                             HasSubstr("tls=maybe"), HasSubstr("colour")));
}

TEST(MysqlUri, RefusesWhatWouldSilentlyDoNothing) {
  RefusalOf("mysql://o@db/d?tls=disabled&tls-ca=/ca");
  RefusalOf("mysql://o@db/d?tls=required&tls-ca=/ca");
  RefusalOf("mysql://o@db/d?tls=verify-ca&tls-ca=/ca");
  RefusalOf("mysql://o@db/d?tls=required&tls-cert=/c");
  RefusalOf("mysql://o@db/d?tls-cert=/c&tls-key=/k");
}

TEST(MysqlUri, RefusesBadParts) {
  for (const char* uri :
       {"", "postgres://o@db/d", "mysql://o@/d", "mysql://o@db,/d", "mysql://o@db:0/d",
        "mysql://o@db:x/d", "mysql://o@db", "mysql://o@db/a/b", "mysql://o@db/a`b",
        "mysql://%zz@db/d", "mysql://@db/d", "mysql://o@db/d?tls", "mysql://o@[::1/d",
        "mysql://o@d b/d"}) {
    RefusalOf(uri);
  }
}

TEST(MysqlOptions, PasswordPrintsAsStars) {
  MysqlOptions options;
  options.password = base::Secret("hunter2");
  std::ostringstream out;
  out << options.password;
  EXPECT_EQ(out.str(), "***");
}

}  // namespace
}  // namespace once::store
