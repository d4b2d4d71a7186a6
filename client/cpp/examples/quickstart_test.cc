// An application's own test, without a server: the connection is replaced by a mock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "greeting.h"
#include "once/mocks/mock_connection.h"

namespace {

using testing::_;
using testing::Return;

TEST(GreetTest, SaysHelloWhereTheClaimIsGranted) {
  auto connection = std::make_shared<once_mocks::MockConnection>();
  once::Granted granted;
  granted.claim.lease_remaining = absl::Seconds(30);
  EXPECT_CALL(*connection, Begin(_, _)).WillOnce(Return(once::BeginOutcome(granted)));
  EXPECT_CALL(*connection, Complete(_, _))
      .WillOnce([](const once::CompleteRequest& request, const once::CallOptions&) {
        once::Completed completed;
        completed.receipt.result = request.result;
        return once::CompleteOutcome(completed);
      });
  const auto executed = Greet(once::Client(connection), "event-1", "Ada");
  ASSERT_TRUE(executed.ok());
  EXPECT_EQ(executed->receipt.result, "Hello, Ada");
}

TEST(GreetTest, OtherContentUnderTheSameEventIsAConflict) {
  auto connection = std::make_shared<once_mocks::MockConnection>();
  EXPECT_CALL(*connection, Begin(_, _)).WillOnce(Return(once::BeginOutcome(once::Conflict{})));
  const auto executed = Greet(once::Client(connection), "event-1", "Eve");
  EXPECT_EQ(once::ReasonOf(executed.status()), once::ErrorReason::kConflict);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
