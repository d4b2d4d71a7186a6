// The tables of the control plane that only grow: versions of policies, and the audit. Shared by
// the stores in memory. Not thread-safe.
#ifndef ONCE_TESTS_SUPPORT_MEMORY_HISTORY_H_
#define ONCE_TESTS_SUPPORT_MEMORY_HISTORY_H_

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/control_plane.h"
#include "store/store.h"

namespace once::test {

class MemoryHistory {
 public:
  // ---- policies ----

  absl::StatusOr<store::PolicyVersionRow> Apply(core::TenantId tenant, int32_t expected_version,
                                                absl::string_view document,
                                                const store::Author& author, core::DbTime now) {
    const store::PolicyVersionRow before = Version(tenant, 0).value_or(store::PolicyVersionRow{});
    const auto there = store::IsAppliedAlready(before, expected_version, document);
    if (!there.ok()) return there.status();
    if (*there) return before;
    versions_.push_back({.change_id = static_cast<int64_t>(versions_.size()) + 1,
                         .tenant = tenant,
                         .version = before.version + 1,
                         .document = std::string(document),
                         .author = author,
                         .created = now});
    Record(store::AuditOf(before.document, versions_.back()), now);
    return versions_.back();
  }

  absl::StatusOr<store::PolicyVersionRow> Version(core::TenantId tenant, int32_t version) const {
    for (auto row = versions_.rbegin(); row != versions_.rend(); ++row) {
      if (row->tenant == tenant && (version == 0 || row->version == version)) return *row;
    }
    return absl::NotFoundError("no such version of policies");
  }

  std::vector<store::PolicyVersionRow> VersionsBefore(core::TenantId tenant, int32_t before,
                                                      int limit) const {
    std::vector<store::PolicyVersionRow> page;
    for (auto row = versions_.rbegin(); row != versions_.rend(); ++row) {
      if (row->tenant != tenant || row->version >= before) continue;
      if (static_cast<int>(page.size()) == limit) break;
      page.push_back(*row);
      page.back().document.clear();
    }
    return page;
  }

  std::vector<store::PolicyVersionRow> ChangesAfter(int64_t change_id) const {
    std::vector<store::PolicyVersionRow> rows;
    for (const store::PolicyVersionRow& row : versions_) {
      if (row.change_id > change_id && Version(row.tenant, 0)->version == row.version) {
        rows.push_back(row);
      }
    }
    return rows;
  }

  // ---- audit ----

  void Record(store::AuditRow row, core::DbTime now) {
    row.audit_id = static_cast<int64_t>(audit_.size()) + 1;
    row.created = now;
    audit_.push_back(std::move(row));
  }

  std::vector<store::AuditRow> AuditBefore(std::optional<core::TenantId> tenant, int64_t before,
                                           int limit) const {
    std::vector<store::AuditRow> page;
    for (auto row = audit_.rbegin(); row != audit_.rend(); ++row) {
      if (row->audit_id >= before || (tenant.has_value() && row->tenant != *tenant)) continue;
      if (static_cast<int>(page.size()) == limit) break;
      page.push_back(*row);
    }
    return page;
  }

 private:
  std::vector<store::PolicyVersionRow> versions_;  // in the order of their changes
  std::vector<store::AuditRow> audit_;
};

}  // namespace once::test

#endif  // ONCE_TESTS_SUPPORT_MEMORY_HISTORY_H_
