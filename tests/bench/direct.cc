#include <mariadb/mysql.h>
#include <openssl/sha.h>

#include <cstring>
#include <fstream>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "contenders.h"

namespace once::bench {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::string text;
  std::getline(in, text);
  return text;
}

class Connection {
 public:
  explicit Connection(const DatabaseTarget& target) : mysql_(mysql_init(nullptr)) {
    if (mysql_real_connect(mysql_, target.host.c_str(), target.user.c_str(),
                           ReadFile(target.password_file).c_str(), target.database.c_str(),
                           static_cast<unsigned>(target.port), nullptr, 0) == nullptr) {
      throw std::runtime_error(mysql_error(mysql_));
    }
  }
  ~Connection() { mysql_close(mysql_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  MYSQL* get() const { return mysql_; }

  void Execute(const char* sql) const {
    if (mysql_query(mysql_, sql) != 0) throw std::runtime_error(mysql_error(mysql_));
  }

 private:
  MYSQL* mysql_;
};

// A prepared statement whose parameters are byte strings.
class Statement {
 public:
  Statement(const Connection& connection, const std::string& sql, size_t parameters)
      : statement_(mysql_stmt_init(connection.get())), binds_(parameters), lengths_(parameters) {
    if (mysql_stmt_prepare(statement_, sql.data(), sql.size()) != 0)
      throw std::runtime_error(mysql_stmt_error(statement_));
  }
  ~Statement() { mysql_stmt_close(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Rows that changed, or 0 on a duplicate key.
  uint64_t Run(const std::vector<std::string>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      MYSQL_BIND& bind = binds_[i];
      std::memset(&bind, 0, sizeof(bind));
      lengths_[i] = values[i].size();
      bind.buffer_type = MYSQL_TYPE_BLOB;
      bind.buffer = const_cast<char*>(values[i].data());
      bind.buffer_length = lengths_[i];
      bind.length = &lengths_[i];
    }
    if (mysql_stmt_bind_param(statement_, binds_.data()) != 0 ||
        mysql_stmt_execute(statement_) != 0) {
      if (mysql_stmt_errno(statement_) == 1062) return 0;
      throw std::runtime_error(mysql_stmt_error(statement_));
    }
    return mysql_stmt_affected_rows(statement_);
  }

 private:
  MYSQL_STMT* statement_;
  std::vector<MYSQL_BIND> binds_;
  std::vector<unsigned long> lengths_;  // NOLINT(google-runtime-int): the C API's type
};

class DirectCaller final : public Caller {
 public:
  DirectCaller(const DatabaseTarget& target, const Events& events)
      : events_(events),
        connection_(target),
        insert_(connection_,
                "INSERT INTO inbox(event_id, digest, state, received_at) VALUES (?, ?, 1, "
                "UTC_TIMESTAMP(6))",
                2),
        update_(connection_,
                "UPDATE inbox SET state = 2, result = ?, completed_at = UTC_TIMESTAMP(6) WHERE "
                "event_id = ? AND state = 1",
                2) {}

  void Cycle(uint64_t number, CycleEnd* end) override {
    const std::string id = events_.Id(number);
    const std::string content = ContentFor(id);
    std::string digest(SHA256_DIGEST_LENGTH, '\0');
    SHA256(reinterpret_cast<const unsigned char*>(content.data()), content.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
    const bool claimed = insert_.Run({id, digest}) == 1;
    end->Ended(claimed && update_.Run({events_.result(), id}) == 1 ? 1 : 0);
  }

 private:
  const Events& events_;
  Connection connection_;
  Statement insert_;
  Statement update_;
};

class Direct final : public Contender {
 public:
  Direct(const DatabaseTarget& target, const Events& events) : target_(target), events_(events) {
    Connection(target).Execute(
        "CREATE TABLE IF NOT EXISTS inbox (event_id VARBINARY(255) NOT NULL PRIMARY KEY, digest "
        "BINARY(32) NOT NULL, state TINYINT NOT NULL,"
        " received_at DATETIME(6) NOT NULL, completed_at DATETIME(6), result MEDIUMBLOB) "
        "ENGINE=InnoDB");
  }
  bool blocking() const override { return true; }
  std::unique_ptr<Caller> NewCaller(int) override {
    return std::make_unique<DirectCaller>(target_, events_);
  }

 private:
  const DatabaseTarget target_;
  const Events& events_;
};

}  // namespace

std::unique_ptr<Contender> NewDirect(const DatabaseTarget& target, const Events& events) {
  return std::make_unique<Direct>(target, events);
}

}  // namespace once::bench
