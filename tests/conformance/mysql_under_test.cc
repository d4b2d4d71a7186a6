// The suite on MariaDB or MySQL (ONCE_TEST_ENGINE says which): a database of its own on the
// program's server.
#include <cstdlib>
#include <iostream>

#include "conformance/store_fixture.h"
#include "store/mysql/mysql_store.h"
#include "support/database.h"

namespace once::conformance {
namespace {

class MysqlUnderTest final : public StoreUnderTest {
 public:
  MysqlUnderTest() : database_(testing::DatabaseServer::Shared(testing::ONCE_TEST_ENGINE)) {}

  std::unique_ptr<store::Store> Open() override {
    return store::OpenMysqlStore(database_.options());
  }

  bool several_servers() const override { return true; }

  absl::StatusOr<std::vector<SqlRow>> Sql(const std::string& statement) override {
    return database_.Sql(statement);
  }

 private:
  testing::TestDatabase database_;
};

}  // namespace

std::unique_ptr<StoreUnderTest> MakeStoreUnderTest() { return std::make_unique<MysqlUnderTest>(); }

}  // namespace once::conformance
