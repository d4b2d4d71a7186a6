// Reads of committed rows on one connection, each statement by itself. Blocking; one thread at a
// time.
#ifndef ONCE_STORE_MYSQL_READ_SESSION_H_
#define ONCE_STORE_MYSQL_READ_SESSION_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "store/mysql/session.h"
#include "store/store.h"

namespace once::store::mysql {

class MysqlReadSession final : public ReadSession {
 public:
  // `opener` must outlive the session.
  MysqlReadSession(const SessionOpener& opener, Session session)
      : opener_(opener), session_(std::move(session)) {}

  absl::StatusOr<RowSet> Read(absl::Span<const core::OperationKey> keys) override;
  absl::StatusOr<std::vector<std::optional<std::string>>> ReadBodies(
      absl::Span<const core::OperationKey> keys) override;
  bool usable() const override { return session_.connection->usable(); }

 private:
  // UNAVAILABLE where this host is not the one any more that holds the newest rows.
  absl::Status CheckCurrent();

  const SessionOpener& opener_;
  Session session_;
};

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_READ_SESSION_H_
