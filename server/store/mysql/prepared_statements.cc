#include "store/mysql/prepared_statements.h"

#include <cppconn/datatype.h>

#include <utility>

namespace once::store::mysql {
namespace {

void BindOne(sql::PreparedStatement& statement, uint32_t parameter, const BoundValue& value) {
  switch (value.kind) {
    case BoundValue::Kind::kNull:
      statement.setNull(parameter, sql::DataType::VARBINARY);
      return;
    case BoundValue::Kind::kInt:
      statement.setInt64(parameter, value.number);
      return;
    case BoundValue::Kind::kBytes:
      statement.setString(parameter, sql::SQLString(value.bytes.data(), value.bytes.size()));
      return;
  }
}

}  // namespace

sql::PreparedStatement& PreparedStatements::Bind(sql::Connection& connection,
                                                 const std::string& sql,
                                                 absl::Span<const BoundValue> values) {
  const auto found = index_.find(sql);
  if (found != index_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
  } else {
    if (entries_.size() == kMost) {
      index_.erase(entries_.back().sql);
      entries_.pop_back();
    }
    std::unique_ptr<sql::PreparedStatement> statement(connection.prepareStatement(sql));
    entries_.push_front({.sql = sql, .statement = std::move(statement)});
    index_[entries_.front().sql] = entries_.begin();
  }
  sql::PreparedStatement& statement = *entries_.front().statement;
  uint32_t parameter = 0;
  for (const BoundValue& value : values) BindOne(statement, ++parameter, value);
  return statement;
}

void PreparedStatements::Clear() {
  index_.clear();
  entries_.clear();
}

}  // namespace once::store::mysql
