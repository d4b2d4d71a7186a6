#include "pipeline/handler_names.h"

namespace once::pipeline {

std::optional<core::HandlerId> HandlerNames::Find(core::TenantId tenant, absl::string_view name) {
  Names::key_type key(tenant.value, name);
  absl::MutexLock lock(&mutex_);
  if (auto found = young_.find(key); found != young_.end()) return found->second;
  auto found = old_.find(key);
  if (found == old_.end()) return std::nullopt;
  const core::HandlerId id = found->second;
  Add(std::move(key), id);
  return id;
}

void HandlerNames::Remember(core::TenantId tenant, absl::string_view name, core::HandlerId id) {
  absl::MutexLock lock(&mutex_);
  Add(Names::key_type(tenant.value, name), id);
}

void HandlerNames::Add(Names::key_type key, core::HandlerId id) {
  if (young_.size() >= max_young_) {
    old_ = std::move(young_);
    young_.clear();
  }
  young_.insert_or_assign(std::move(key), id);
}

}  // namespace once::pipeline
