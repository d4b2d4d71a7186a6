// An application on C++17: every installed header, each kind of call written down once.
#include <cstdio>
#include <memory>
#include <variant>

#include "once/admin.h"
#include "once/client.h"
#include "once/connection.h"
#include "once/error.h"
#include "once/execute.h"
#include "once/mocks/mock_admin_connection.h"
#include "once/mocks/mock_connection.h"
#include "once/options.h"
#include "once/outcomes.h"
#include "once/requests.h"
#include "once/types.h"
#include "once/version.h"

static_assert(__cplusplus < 202002L, "built with a newer standard than the test is about");

namespace {

using testing::_;
using testing::Return;

int Run() {
  auto connection = std::make_shared<testing::NiceMock<once_mocks::MockConnection>>();
  once::Granted granted;
  granted.claim.fence = once::Fence{7};
  granted.claim.lease_remaining = absl::Seconds(30);
  ON_CALL(*connection, Begin(_, _)).WillByDefault(Return(once::BeginOutcome(granted)));
  ON_CALL(*connection, Complete(_, _))
      .WillByDefault(Return(once::CompleteOutcome(once::Completed{})));
  const once::Client client(connection);
  auto owned = std::make_unique<int>(7);  // a handler need not be copyable
  const auto executed = client.Execute(
      {"points.grant", "event-1"}, once::Content::Json("{}"),
      [owned = std::move(owned)](once::ExecutionContext& context) {
        return once::HandlerResult::Succeeded(context.fence().value == *owned ? "yes" : "no");
      });
  return executed.ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  std::printf("%s\n", once::ClientVersion());
  return Run();
}
