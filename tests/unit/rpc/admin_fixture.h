// Runs what the methods of AdminService do on a store in memory, as a caller of role admin.
#ifndef ONCE_TESTS_UNIT_RPC_ADMIN_FIXTURE_H_
#define ONCE_TESTS_UNIT_RPC_ADMIN_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "core/limits.h"
#include "rpc/admin_operations.h"
#include "unit/auth/fake_control_store.h"

namespace once::testing {

inline constexpr char kCaller[] = "0123456789abcdef";

class AdminFixture : public ::testing::Test {
 protected:
  AdminFixture() : session_(*store_.OpenControlSession()) {}

  // `Prepare` of the request's type is found in once::rpc.
  template <typename Request>
  auto Run(const Request& request) -> decltype((*Prepare(
      request, std::declval<rpc::AdminContext>()))(std::declval<store::ControlSession&>())) {
    auto work = Prepare(request, rpc::AdminContext{.limits = limits_, .credential_id = kCaller});
    if (!work.ok()) {
      return work.status();
    }
    return (*work)(*session_);
  }

  core::Limits limits_;
  FakeControlStore store_;
  std::unique_ptr<store::ControlSession> session_;
};

}  // namespace once::testing

#endif  // ONCE_TESTS_UNIT_RPC_ADMIN_FIXTURE_H_
