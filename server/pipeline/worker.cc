#include "pipeline/worker.h"

#include <optional>

namespace once::pipeline {

absl::StatusOr<core::HandlerId> InternHandler(const Shared& shared,
                                              SessionHolder<store::ControlSession>& control,
                                              core::TenantId tenant, absl::string_view name,
                                              bool create) {
  if (std::optional<core::HandlerId> known = shared.names->Find(tenant, name)) return *known;
  absl::StatusOr<store::ControlSession*> session = control.Get();
  if (!session.ok()) return session.status();
  absl::StatusOr<core::HandlerId> id = (*session)->InternHandler(tenant, name, create);
  if (id.ok()) shared.names->Remember(tenant, name, *id);
  control.DropAfter(id.status());
  return id;
}

}  // namespace once::pipeline
