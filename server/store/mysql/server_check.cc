#include "store/mysql/server_check.h"

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace once::store::mysql {
namespace {

// A result travels as hexadecimal digits, beside keys and the statement's words.
constexpr size_t kPacketOverhead = size_t{64} << 10;

class Judge {
 public:
  explicit Judge(const Variables& variables) : variables_(variables) {}

  // Empty where the server has no such variable.
  std::string Value(absl::string_view name) const {
    const auto it = variables_.find(name);
    return it == variables_.end() ? "" : it->second;
  }
  bool Has(absl::string_view name) const { return variables_.contains(name); }
  bool On(absl::string_view name) const { return Has(name) && IsOn(Value(name)); }

  void Durability() {
    if (Value("innodb_flush_log_at_trx_commit") != "1") {
      warnings_.push_back(absl::StrCat(
          "innodb_flush_log_at_trx_commit is ", Value("innodb_flush_log_at_trx_commit"),
          ", not 1: a crash of the database's machine can lose grants and receipts that "
          "callers were told are durable"));
    }
    if (On("log_bin") && Value("sync_binlog") != "1") {
      warnings_.push_back(absl::StrCat(
          "sync_binlog is ", Value("sync_binlog"),
          ", not 1: after a crash replicas may have what the server lost, or miss what it kept"));
    }
    if (Has("innodb_doublewrite") && !On("innodb_doublewrite")) {
      warnings_.emplace_back(
          "innodb_doublewrite is off: a page torn by a power failure cannot be repaired");
    }
  }

  void Replication() {
    if (On("log_bin") && Value("binlog_format") == "STATEMENT") {
      faults_.emplace_back(
          "binlog_format is STATEMENT, which does not go with READ COMMITTED: set ROW");
    }
    if (Value("group_replication_group_name").empty()) return;
    if (Value("group_replication_consistency") == "EVENTUAL") {
      warnings_.emplace_back(
          "group_replication_consistency is EVENTUAL: after a failover a new primary may answer "
          "from "
          "rows that are not the newest; set BEFORE_ON_PRIMARY_FAILOVER");
    }
  }

  void PacketSize(size_t max_result_bytes) {
    const size_t needed = 2 * max_result_bytes + kPacketOverhead;
    uint64_t has = 0;
    if (!absl::SimpleAtoi(Value("max_allowed_packet"), &has) || has < needed) {
      faults_.push_back(absl::StrCat("max_allowed_packet is ", Value("max_allowed_packet"),
                                     " bytes; results of up to ", max_result_bytes, " bytes need ",
                                     needed));
    }
  }

  absl::StatusOr<std::vector<std::string>> Verdict() && {
    if (faults_.empty()) return std::move(warnings_);
    return absl::FailedPreconditionError(
        absl::StrCat("the database's settings: ", absl::StrJoin(faults_, "; ")));
  }

 private:
  const Variables& variables_;
  std::vector<std::string> faults_;
  std::vector<std::string> warnings_;
};

bool IsLoopback(const HostPort& host) {
  return host.host == "localhost" || host.host == "::1" || absl::StartsWith(host.host, "127.");
}

}  // namespace

absl::StatusOr<std::vector<std::string>> JudgeServer(const Variables& variables,
                                                     size_t max_result_bytes) {
  Judge judge(variables);
  judge.Durability();
  judge.Replication();
  judge.PacketSize(max_result_bytes);
  return std::move(judge).Verdict();
}

absl::StatusOr<std::vector<std::string>> CheckServer(Session& session, const MysqlOptions& options,
                                                     size_t max_result_bytes) {
  Variables variables;
  const absl::Status status = session.connection->Query(
      "SHOW GLOBAL VARIABLES WHERE Variable_name IN ("
      "'innodb_flush_log_at_trx_commit','sync_binlog','log_bin','binlog_format',"
      "'innodb_doublewrite','max_allowed_packet','group_replication_group_name',"
      "'group_replication_consistency')",
      [&](RowReader& row) {
        std::string name = row.Bytes();
        variables[std::move(name)] = row.Bytes();
      });
  if (!status.ok()) return status;
  absl::StatusOr<std::vector<std::string>> warnings = JudgeServer(variables, max_result_bytes);
  if (!warnings.ok()) return warnings;
  for (const HostPort& host : options.hosts) {
    if (options.tls.mode == MysqlTlsMode::kDisabled && !IsLoopback(host)) {
      warnings->push_back(absl::StrCat("everything travels to ", ToString(host),
                                       " unencrypted: add ?tls=verify-identity to the URI"));
    }
  }
  return warnings;
}

}  // namespace once::store::mysql
