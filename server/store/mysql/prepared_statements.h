// The prepared statements of one connection, by their text; the least recently used one is closed
// for a new one. Either side keeps up to some hundred kilobytes for each, which is what the bound
// is for: there is one for each number of rows.
//
// Thread-safety: that of the connection. Errors: the connector's exceptions.
#ifndef ONCE_STORE_MYSQL_PREPARED_STATEMENTS_H_
#define ONCE_STORE_MYSQL_PREPARED_STATEMENTS_H_

#include <cppconn/connection.h>
#include <cppconn/prepared_statement.h>

#include <cstddef>
#include <list>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "store/mysql/sql_builder.h"

namespace once::store::mysql {

class PreparedStatements {
 public:
  static constexpr size_t kMost = 64;

  // Prepares `sql` unless that was done before, and binds `values` to it. The statement stays here.
  // `values` must outlive its execution.
  sql::PreparedStatement& Bind(sql::Connection& connection, const std::string& sql,
                               absl::Span<const BoundValue> values);

  void Clear();

 private:
  struct Entry {
    std::string sql;
    std::unique_ptr<sql::PreparedStatement> statement;
  };

  std::list<Entry> entries_;  // most recently used first
  absl::flat_hash_map<absl::string_view, std::list<Entry>::iterator> index_;
};

}  // namespace once::store::mysql

#endif  // ONCE_STORE_MYSQL_PREPARED_STATEMENTS_H_
