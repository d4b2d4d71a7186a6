#include "store/mysql/mysql_store.h"

#include <utility>

#include "store/mysql/control_session.h"
#include "store/mysql/read_session.h"
#include "store/mysql/schema.h"
#include "store/mysql/server_check.h"
#include "store/mysql/session.h"
#include "store/mysql/write_session.h"

namespace once::store {
namespace {

using mysql::Session;
using mysql::SessionUse;

class MysqlStore final : public Store {
 public:
  explicit MysqlStore(MysqlOptions options) : opener_(std::move(options)) {}

  absl::StatusOr<std::unique_ptr<WriteSession>> OpenWriteSession() override {
    absl::StatusOr<Session> session = opener_.Open(SessionUse::kWrite);
    if (!session.ok()) return session.status();
    return std::make_unique<mysql::MysqlWriteSession>(opener_, *std::move(session));
  }

  absl::StatusOr<std::unique_ptr<ReadSession>> OpenReadSession() override {
    absl::StatusOr<Session> session = opener_.Open(SessionUse::kRead);
    if (!session.ok()) return session.status();
    return std::make_unique<mysql::MysqlReadSession>(opener_, *std::move(session));
  }

  absl::StatusOr<std::unique_ptr<ControlSession>> OpenControlSession() override {
    absl::StatusOr<Session> session = opener_.Open(SessionUse::kControl);
    if (!session.ok()) return session.status();
    return std::make_unique<mysql::MysqlControlSession>(opener_, *std::move(session));
  }

  absl::StatusOr<std::vector<std::string>> Migrate() override {
    absl::StatusOr<Session> session = opener_.Open(SessionUse::kMigrate);
    if (!session.ok()) return session.status();
    return mysql::ApplySchemaSteps(*session->connection);
  }

  absl::StatusOr<std::vector<std::string>> Check(size_t max_result_bytes) override {
    absl::StatusOr<Session> session = opener_.Open(SessionUse::kWrite);
    if (!session.ok()) return session.status();
    return mysql::CheckServer(*session, opener_.options(), max_result_bytes);
  }

  int max_write_sessions() const override { return opener_.options().max_write_sessions; }

  absl::string_view engine() const override { return "mysql"; }

 private:
  mysql::SessionOpener opener_;
};

}  // namespace

std::unique_ptr<Store> OpenMysqlStore(MysqlOptions options) {
  return std::make_unique<MysqlStore>(std::move(options));
}

}  // namespace once::store
