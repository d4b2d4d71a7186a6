#include "core/json_pointer.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace once::core {
namespace {

absl::Status BadPointer(absl::string_view text, absl::string_view fault) {
  return absl::InvalidArgumentError(absl::StrCat("JSON pointer \"", text, "\" ", fault));
}

// False when a '~' starts no escape.
bool UnescapeToken(absl::string_view escaped, std::string* token) {
  token->reserve(escaped.size());
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] != '~') {
      token->push_back(escaped[i]);
      continue;
    }
    ++i;
    if (i == escaped.size() || (escaped[i] != '0' && escaped[i] != '1')) return false;
    token->push_back(escaped[i] == '0' ? '~' : '/');
  }
  return true;
}

absl::StatusOr<JsonPointer> ParseMemberPointer(absl::string_view text) {
  if (text.empty()) return BadPointer(text, "names the whole document, not a member");
  if (text.front() != '/') return BadPointer(text, "does not start with '/'");
  JsonPointer pointer;
  for (const absl::string_view escaped : absl::StrSplit(text.substr(1), '/')) {
    std::string token;
    if (!UnescapeToken(escaped, &token)) {
      return BadPointer(text, "has a '~' that is not followed by '0' or '1'");
    }
    pointer.push_back(std::move(token));
  }
  return pointer;
}

}  // namespace

absl::StatusOr<std::vector<JsonPointer>> ParseMemberPointers(absl::Span<const std::string> texts) {
  if (texts.size() > kMaxExcludedPointers) {
    return absl::InvalidArgumentError(absl::StrCat(texts.size(), " JSON pointers given, at most ",
                                                   kMaxExcludedPointers, " are allowed"));
  }
  std::vector<JsonPointer> pointers;
  pointers.reserve(texts.size());
  for (const std::string& text : texts) {
    absl::StatusOr<JsonPointer> pointer = ParseMemberPointer(text);
    if (!pointer.ok()) return pointer.status();
    pointers.push_back(*std::move(pointer));
  }
  return pointers;
}

void AppendPointerToken(absl::string_view token, std::string* pointer) {
  pointer->push_back('/');
  for (const char c : token) {
    if (c == '~') {
      pointer->append("~0");
    } else if (c == '/') {
      pointer->append("~1");
    } else {
      pointer->push_back(c);
    }
  }
}

}  // namespace once::core
