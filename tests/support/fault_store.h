// Plays faults in front of any store: what the store really does, and what its caller is told,
// differ as the script says. A fault before COMMIT rolls back; kUnknownDone and kUnknownPending
// commit first; kUnknownLost does not.
//
// Thread-safety and ownership as in store.h; `store` and `script` must outlive the FaultStore.
#ifndef ONCE_TESTS_SUPPORT_FAULT_STORE_H_
#define ONCE_TESTS_SUPPORT_FAULT_STORE_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "store/store.h"
#include "support/fault_script.h"

namespace once::test {

class FaultStore final : public store::Store {
 public:
  FaultStore(store::Store* store, FaultScript* script) : store_(store), script_(script) {}

  absl::StatusOr<std::unique_ptr<store::WriteSession>> OpenWriteSession() override;
  absl::StatusOr<std::unique_ptr<store::ReadSession>> OpenReadSession() override;
  // Control sessions are passed through.
  absl::StatusOr<std::unique_ptr<store::ControlSession>> OpenControlSession() override;
  absl::StatusOr<std::vector<std::string>> Migrate() override { return store_->Migrate(); }
  absl::StatusOr<std::vector<std::string>> Check(size_t max_result_bytes) override {
    return store_->Check(max_result_bytes);
  }
  int max_write_sessions() const override { return store_->max_write_sessions(); }
  absl::string_view engine() const override { return store_->engine(); }

 private:
  store::Store* const store_;
  FaultScript* const script_;
  std::atomic<int> sessions_{0};
};

}  // namespace once::test

#endif  // ONCE_TESTS_SUPPORT_FAULT_STORE_H_
