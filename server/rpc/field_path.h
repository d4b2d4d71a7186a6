// Where a field stands in the caller's request: "lease", or "requests[3].lease" in a batch.
// Values; thread-safe. Cheap until Text() is called, that is, until there is an error.
#ifndef ONCE_RPC_FIELD_PATH_H_
#define ONCE_RPC_FIELD_PATH_H_

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace once::rpc {

class Field {
 public:
  // `name` is a literal: it is not copied.
  explicit Field(absl::string_view name, std::optional<int> item = std::nullopt)
      : name_(name), item_(item) {}

  std::string Text() const {
    return item_.has_value() ? absl::StrCat("requests[", *item_, "].", name_) : std::string(name_);
  }

 private:
  absl::string_view name_;
  std::optional<int> item_;
};

class FieldPath {
 public:
  FieldPath() = default;
  static FieldPath OfItem(int index) {
    FieldPath path;
    path.item_ = index;
    return path;
  }

  bool in_batch() const { return item_.has_value(); }
  Field To(absl::string_view name) const { return Field(name, item_); }

 private:
  std::optional<int> item_;
};

}  // namespace once::rpc

#endif  // ONCE_RPC_FIELD_PATH_H_
