// One SQLite connection and its prepared statements, without exceptions and without bare pointers.
//
// Thread-safety: a connection and its statements are used by one thread at a time. A statement may
// not outlive its connection.
#ifndef ONCE_STORE_SQLITE_CONNECTION_H_
#define ONCE_STORE_SQLITE_CONNECTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

struct sqlite3;
struct sqlite3_stmt;

namespace once::store::sqlite {

// A prepared statement. Parameters and columns count from 1 and 0, as in SQLite. Blobs are bound by
// reference: they have to live until Run, or the last Step, is over. A failed bind shows as the
// error of the next Step.
class Statement {
 public:
  Statement() = default;
  Statement(sqlite3* database, sqlite3_stmt* statement);

  void BindInt(int parameter, int64_t value);
  void BindBlob(int parameter, absl::string_view bytes);
  // NULL where empty.
  void BindOptionalBlob(int parameter, absl::string_view bytes);
  void BindNull(int parameter);
  template <size_t N>
  void BindBytes(int parameter, const std::array<uint8_t, N>& bytes) {
    BindBlob(parameter, absl::string_view(reinterpret_cast<const char*>(bytes.data()), N));
  }

  // True where there is a row to look at. After false or an error the statement is ready to be
  // bound again.
  absl::StatusOr<bool> Step();
  // Steps over all rows; the number of rows that it changed.
  absl::StatusOr<int> Run();
  // Ends a statement that was not stepped to its end, and forgets the parameters.
  void Reset();

  int64_t Int(int column) const;
  std::string Blob(int column) const;
  bool IsNull(int column) const;
  // False where the column does not hold exactly N bytes.
  template <size_t N>
  [[nodiscard]] bool Bytes(int column, std::array<uint8_t, N>& bytes) const {
    return CopyBytes(column, bytes.data(), N);
  }

 private:
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const;
  };

  bool CopyBytes(int column, uint8_t* to, size_t size) const;
  void Note(int code);

  sqlite3* database_ = nullptr;
  std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
  int bind_error_ = 0;
};

class Connection {
 public:
  // Opens an existing file with the settings that the contract needs, and asserts those that a file
  // can refuse.
  static absl::StatusOr<Connection> Open(const std::string& path, absl::Duration busy_timeout);

  absl::StatusOr<Statement> Prepare(absl::string_view sql);
  // Statements without parameters and results.
  absl::Status Execute(const char* sql);
  // COMMIT, with the errors of COMMIT.
  absl::Status Commit();
  bool InTransaction() const;

  // The single value of a single row, for PRAGMA and the like.
  absl::StatusOr<std::string> Text(const char* sql);

  sqlite3* handle() const { return database_.get(); }

 private:
  struct Closer {
    void operator()(sqlite3* database) const;
  };

  std::unique_ptr<sqlite3, Closer> database_;
};

}  // namespace once::store::sqlite

#endif  // ONCE_STORE_SQLITE_CONNECTION_H_
