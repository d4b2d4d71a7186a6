// A string that must not be printed: passwords, bearer tokens.
#ifndef ONCE_BASE_SECRET_H_
#define ONCE_BASE_SECRET_H_

#include <ostream>
#include <string>
#include <utility>

namespace once::base {

// Streams and formats as "***". The one way to the value is Reveal(), which is easy to search for.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}

  const std::string& Reveal() const { return value_; }
  bool empty() const { return value_.empty(); }

  friend std::ostream& operator<<(std::ostream& out, const Secret&) { return out << "***"; }

 private:
  std::string value_;
};

}  // namespace once::base

#endif  // ONCE_BASE_SECRET_H_
