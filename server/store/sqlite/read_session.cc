#include "store/sqlite/read_session.h"

#include <utility>

#include "store/sqlite/errors.h"
#include "store/sqlite/statements.h"

namespace once::store::sqlite {
namespace {

struct Link {
  Connection connection;
  ReadStatements reads;
};

class SqliteReadSession final : public ReadSession {
 public:
  SqliteReadSession(File* file, std::unique_ptr<Link> link) : file_(file), link_(std::move(link)) {}

  absl::StatusOr<RowSet> Read(absl::Span<const core::OperationKey> keys) override {
    RowSet rows;
    rows.others.reserve(keys.size());
    absl::Status status = InSnapshot([&] {
      for (const core::OperationKey& key : keys) {
        absl::StatusOr<std::optional<core::OperationRow>> row = link_->reads.SelectOperation(key);
        if (!row.ok()) return row.status();
        rows.others.push_back(*std::move(row));
      }
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    rows.now = file_->clock.Now();
    return rows;
  }

  absl::StatusOr<std::vector<std::optional<std::string>>> ReadBodies(
      absl::Span<const core::OperationKey> keys) override {
    std::vector<std::optional<std::string>> bodies;
    bodies.reserve(keys.size());
    absl::Status status = InSnapshot([&] {
      for (const core::OperationKey& key : keys) {
        absl::StatusOr<std::optional<std::string>> body = link_->reads.SelectBody(key);
        if (!body.ok()) return body.status();
        bodies.push_back(*std::move(body));
      }
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return bodies;
  }

  bool usable() const override { return link_ != nullptr; }

 private:
  // One snapshot for all rows, and one look at the file's lock instead of one a row.
  template <typename Body>
  absl::Status InSnapshot(Body body) {
    if (link_ == nullptr) {
      return absl::UnavailableError("sqlite: the session has ended after an error");
    }
    absl::Status status = link_->connection.Execute("BEGIN");
    if (status.ok()) status = body();
    // Ends the snapshot; there is nothing to commit. A reader that stayed open would keep the log
    // from being cut.
    if (link_->connection.InTransaction()) {
      absl::Status ended = link_->connection.Execute("ROLLBACK");
      if (!ended.ok()) status = absl::UnavailableError(ended.message());
    }
    if (EndsSession(status)) link_.reset();
    return status;
  }

  File* const file_;
  std::unique_ptr<Link> link_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ReadSession>> OpenReadSession(File* file) {
  absl::StatusOr<Connection> connection = Connect(*file);
  if (!connection.ok()) return connection.status();
  absl::StatusOr<ReadStatements> reads = ReadStatements::Prepare(*connection);
  if (!reads.ok()) return reads.status();
  // The statements go before their connection: members are destroyed from the last to the first.
  auto link = std::make_unique<Link>(Link{*std::move(connection), *std::move(reads)});
  return std::make_unique<SqliteReadSession>(file, std::move(link));
}

}  // namespace once::store::sqlite
