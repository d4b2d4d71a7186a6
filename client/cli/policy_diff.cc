#include "policy_diff.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace once::cli {
namespace {

using Lines = std::vector<std::string>;

Lines LinesOf(const HandlerPolicies& policies, const std::string& handler) {
  const auto record = policies.records().find(handler);
  if (record == policies.records().end()) return {};
  return absl::StrSplit(record->second, '\n', absl::SkipEmpty());
}

// The longest common subsequence from each pair of positions on. Records are tens of lines.
std::vector<std::vector<int>> CommonFrom(const Lines& before, const Lines& after) {
  std::vector<std::vector<int>> common(before.size() + 1, std::vector<int>(after.size() + 1, 0));
  for (size_t i = before.size(); i-- > 0;) {
    for (size_t j = after.size(); j-- > 0;) {
      common[i][j] = before[i] == after[j] ? common[i + 1][j + 1] + 1
                                           : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  return common;
}

void AppendDiff(const Lines& before, const Lines& after, std::string& out) {
  const auto common = CommonFrom(before, after);
  size_t i = 0;
  size_t j = 0;
  while (i < before.size() || j < after.size()) {
    if (i < before.size() && j < after.size() && before[i] == after[j]) {
      absl::StrAppend(&out, " ", before[i++], "\n");
      ++j;
    } else if (j == after.size() || (i < before.size() && common[i + 1][j] >= common[i][j + 1])) {
      absl::StrAppend(&out, "-", before[i++], "\n");
    } else {
      absl::StrAppend(&out, "+", after[j++], "\n");
    }
  }
}

}  // namespace

std::string DiffPolicies(absl::string_view from, const HandlerPolicies& before,
                         absl::string_view to, const HandlerPolicies& after) {
  if (before == after) return "";
  std::set<std::string> handlers;
  for (const auto& [handler, record] : before.records()) handlers.insert(handler);
  for (const auto& [handler, record] : after.records()) handlers.insert(handler);
  std::string out = absl::StrCat("--- ", from, "\n+++ ", to, "\n");
  for (const std::string& handler : handlers) {
    const Lines old_lines = LinesOf(before, handler);
    const Lines new_lines = LinesOf(after, handler);
    if (old_lines != new_lines) AppendDiff(old_lines, new_lines, out);
  }
  return out;
}

}  // namespace once::cli
