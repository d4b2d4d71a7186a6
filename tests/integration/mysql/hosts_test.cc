// Several hosts: who is tried, who is passed over, and that all sessions follow.
#include "absl/strings/str_cat.h"
#include "integration/mysql/cutting_proxy.h"
#include "integration/mysql/mysql_fixture.h"
#include "store/mysql/mysql_store.h"

namespace once::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Nobody listens there: the reserved port of a protocol that no machine here speaks.
const store::HostPort kNobody{.host = "127.0.0.1", .port = 1};

class HostsTest : public MysqlStoreTest {
 protected:
  std::unique_ptr<store::Store> StoreOn(std::vector<store::HostPort> hosts) {
    store::MysqlOptions options = database_.options();
    options.hosts = std::move(hosts);
    return store::OpenMysqlStore(options);
  }
};

TEST_F(HostsTest, ADeadHostIsPassedOver) {
  auto store = StoreOn({kNobody, Server().address()});
  auto session = Write(*store);
  ASSERT_NE(session, nullptr);
  Begin(*session, "a");
  EXPECT_TRUE(store->OpenReadSession().ok());
}

TEST_F(HostsTest, AllDeadNamesEachHost) {
  const absl::Status status =
      StoreOn({kNobody, {.host = "127.0.0.1", .port = 2}})->OpenWriteSession().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("127.0.0.1:2")));
}

TEST_F(HostsTest, AnUnknownNameIsUnavailable) {
  EXPECT_EQ(
      StoreOn({{.host = "no-such-host.invalid", .port = 3306}})->OpenWriteSession().status().code(),
      absl::StatusCode::kUnavailable);
}

TEST_F(HostsTest, ReadOnlyHostsArePassedOverAlsoForReads) {
  auto started = DatabaseServer::Start(Engine(), {});
  ASSERT_TRUE(started.ok()) << started.status();
  DatabaseServer& replica = **started;
  // A replica in all that matters: the same database, schema, user and password, but read-only and
  // behind.
  auto admin = *store::mysql::Connection::Open(replica.AdminOptions(""), replica.address());
  ASSERT_TRUE(admin->Execute(absl::StrCat("CREATE DATABASE ", database_.name())).ok());
  ASSERT_TRUE(store::OpenMysqlStore(replica.Options(database_.name()))->Migrate().ok());
  const std::string password = absl::StrCat("'", database_.options().password.Reveal(), "'");
  ASSERT_TRUE(admin->Execute(absl::StrCat("ALTER USER 'once'@'%' IDENTIFIED BY ", password)).ok());
  ASSERT_TRUE(admin->Execute("SET GLOBAL read_only=ON").ok());

  auto store = StoreOn({replica.address(), Server().address()});
  auto reader_first = store->OpenReadSession();
  ASSERT_TRUE(reader_first.ok()) << reader_first.status();
  auto session = Write(*store);
  ASSERT_NE(session, nullptr);
  Begin(*session, "a");
  auto rows = (*reader_first)->Read(std::vector{KeyOf("a")});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_TRUE(rows->others[0].has_value());
  EXPECT_EQ(Count("operation"), 1);
}

TEST_F(HostsTest, AReaderLeavesAHostThatBecomesReadOnly) {
  auto store = StoreOn({Server().address(), kNobody});
  auto reader = store->OpenReadSession();
  ASSERT_TRUE(reader.ok()) << reader.status();
  database_.Must("SET GLOBAL read_only=ON");
  const absl::Status status = (*reader)->Read(std::vector{KeyOf("a")}).status();
  database_.Must("SET GLOBAL read_only=OFF");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE((*reader)->usable());
}

// Two ways to one server stand for two nodes of a cluster.
TEST_F(HostsTest, AllSessionsFollowToTheHostThatWorks) {
  auto first = std::make_unique<CuttingProxy>(Server().address());
  CuttingProxy second(Server().address());
  auto store = StoreOn({first->address(), second.address()});
  auto writer = Write(*store);
  auto reader = store->OpenReadSession();
  ASSERT_TRUE(writer != nullptr && reader.ok());
  Begin(*writer, "a");
  EXPECT_EQ(second.connections(), 0);

  // One session loses its link and finds the first host gone.
  first->CutNext(1, CuttingProxy::Cut::kBeforeCommit);
  EXPECT_EQ(store::RunBatch(*writer, std::vector{BeginOf("b")}, false).status().code(),
            absl::StatusCode::kUnknown);
  auto other_writer = Write(*store);  // the first host is still there, and stays the one
  EXPECT_EQ(second.connections(), 0);
  first->StopListening();
  auto moved = Write(*store);
  ASSERT_NE(moved, nullptr);
  EXPECT_EQ(second.connections(), 1);
  Begin(*moved, "b");

  // The others have working links to the first host, and leave it.
  EXPECT_EQ(other_writer->TouchAndRead(std::vector{InsertOf("c")}, {}).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_FALSE(other_writer->usable());
  EXPECT_EQ((*reader)->Read(std::vector{KeyOf("a")}).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_FALSE((*reader)->usable());
}

}  // namespace
}  // namespace once::testing
