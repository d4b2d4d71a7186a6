#include "lease_renewer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "fake_clock.h"
#include "once/mocks/mock_connection.h"
#include "status_matchers.h"

namespace once::client_internal {
namespace {

using once_mocks::MockConnection;
using testing::_;
using testing::InSequence;
using testing::Return;
using testing::SizeIs;
using testing::StrictMock;
using testing_support::FakeClock;
using testing_support::ServerError;

using Answer = absl::StatusOr<std::vector<absl::StatusOr<RenewOutcome>>>;

RenewOutcome Renewed(absl::Duration lease) {
  Claim claim;
  claim.lease_remaining = lease;
  return claim;
}

Answer One(absl::StatusOr<RenewOutcome> outcome) {
  return std::vector<absl::StatusOr<RenewOutcome>>{std::move(outcome)};
}

RenewRequest Request(const std::string& event_id = "e", absl::Duration lease = {}) {
  return {{"h", event_id}, AttemptId{}, Fence{1}, lease};
}

class LeaseRenewerTest : public testing::Test {
 protected:
  std::shared_ptr<Lease> Add(const std::string& event_id = "e",
                             absl::Duration lease = absl::Seconds(30)) {
    return renewer_.Add(Request(event_id, lease), clock_->Elapsed(), lease);
  }
  void At(absl::Duration since_start) {
    clock_->Advance(start_ + since_start - clock_->Elapsed());
    renewer_.RunOnce();
  }

  std::shared_ptr<FakeClock> clock_ = std::make_shared<FakeClock>();
  const absl::Duration start_ = clock_->Elapsed();
  std::shared_ptr<StrictMock<MockConnection>> connection_ =
      std::make_shared<StrictMock<MockConnection>>();
  LeaseRenewer renewer_{connection_, clock_, LeaseRenewer::Drive::kManual};
};

TEST_F(LeaseRenewerTest, RenewsWhenAThirdOfTheLeaseHasPassedAndNotBefore) {
  const auto lease = Add();
  At(absl::Milliseconds(9999));  // the strict mock would fail here
  EXPECT_CALL(*connection_, BatchRenew(SizeIs(1), _))
      .WillOnce(Return(One(Renewed(absl::Seconds(30)))));
  At(absl::Seconds(10));
  EXPECT_EQ(lease->Remaining(), absl::Seconds(30));
  At(absl::Milliseconds(19999));
  EXPECT_CALL(*connection_, BatchRenew(SizeIs(1), _))
      .WillOnce(Return(One(Renewed(absl::Seconds(30)))));
  At(absl::Seconds(20));
  EXPECT_FALSE(lease->Lost());
}

TEST_F(LeaseRenewerTest, AsksWithTheClaimsOwnIdentityAndLease) {
  const auto lease = Add("e7", absl::Seconds(3));
  EXPECT_CALL(*connection_, BatchRenew(_, _))
      .WillOnce([](const std::vector<RenewRequest>& requests, const CallOptions& options) {
        EXPECT_EQ(requests[0].operation.event_id, "e7");
        EXPECT_EQ(requests[0].lease, absl::Seconds(3));
        EXPECT_EQ(options.retry->max_attempts, 1);
        EXPECT_LE(options.retry->attempt_timeout, absl::Seconds(1));
        return One(Renewed(absl::Seconds(3)));
      });
  At(absl::Seconds(1));
}

TEST_F(LeaseRenewerTest, FailedRenewalsDoNotEndTheClaimBeforeItsLeaseIsOver) {
  const auto lease = Add();
  int told = 0;
  lease->OnLost([&] { ++told; });
  EXPECT_CALL(*connection_, BatchRenew(_, _))
      .WillRepeatedly(Return(Answer(absl::UnavailableError("502"))));
  for (int second = 10; second < 30; ++second) {
    At(absl::Seconds(second));
    EXPECT_FALSE(lease->Lost()) << second;
  }
  EXPECT_EQ(told, 0);
  At(absl::Seconds(30));
  EXPECT_TRUE(lease->Lost());
  EXPECT_FALSE(lease->LostByServer());
  EXPECT_EQ(told, 1);
}

TEST_F(LeaseRenewerTest, RenewalThatFailedIsTriedAgainSoon) {
  const auto lease = Add();
  InSequence in_order;
  EXPECT_CALL(*connection_, BatchRenew(_, _))
      .WillOnce(Return(Answer(absl::UnavailableError("502"))))
      .WillOnce(Return(One(Renewed(absl::Seconds(30)))));
  At(absl::Seconds(10));
  At(absl::Milliseconds(10999));
  At(absl::Seconds(11));
  EXPECT_EQ(lease->Remaining(), absl::Seconds(30));
}

TEST_F(LeaseRenewerTest, RefusedCredentialAndItemErrorsAreTriedAgainToo) {
  const auto lease = Add();
  EXPECT_CALL(*connection_, BatchRenew(_, _))
      .WillOnce(Return(Answer(absl::UnauthenticatedError(""))))
      .WillOnce(Return(One(ServerError(absl::StatusCode::kResourceExhausted,
                                       ErrorReason::kOverloaded, absl::Milliseconds(100)))))
      // A proxy's NOT_FOUND is not the server's word.
      .WillOnce(Return(Answer(absl::NotFoundError("no such route"))))
      .WillOnce(Return(Answer(std::vector<absl::StatusOr<RenewOutcome>>{})));
  for (int second = 10; second < 14; ++second) At(absl::Seconds(second));
  EXPECT_FALSE(lease->Lost());
}

TEST_F(LeaseRenewerTest, TheServersWordEndsTheClaimAtOnceAndTellsTheOwnerOnce) {
  const auto lease = Add();
  int told = 0;
  lease->OnLost([&] { ++told; });
  EXPECT_CALL(*connection_, BatchRenew(_, _)).WillOnce(Return(One(RenewOutcome(ClaimLost{}))));
  At(absl::Seconds(10));
  EXPECT_TRUE(lease->Lost());
  EXPECT_TRUE(lease->LostByServer());
  EXPECT_EQ(lease->Remaining(), absl::ZeroDuration());
  At(absl::Seconds(60));
  EXPECT_EQ(told, 1);
}

TEST_F(LeaseRenewerTest, OperationThatIsGoneIsALostClaim) {
  const auto lease = Add();
  EXPECT_CALL(*connection_, BatchRenew(_, _))
      .WillOnce(
          Return(One(ServerError(absl::StatusCode::kNotFound, ErrorReason::kOperationNotFound))));
  At(absl::Seconds(10));
  EXPECT_TRUE(lease->LostByServer());
}

TEST_F(LeaseRenewerTest, LostOnceIsLostForGoodEvenIfARenewalArrivesAfterwards) {
  const auto lease = Add();
  EXPECT_CALL(*connection_, BatchRenew(_, _)).WillOnce([&](const auto&, const auto&) {
    clock_->Advance(absl::Seconds(25));  // the reply took longer than the lease
    EXPECT_TRUE(lease->Lost());
    return One(Renewed(absl::Seconds(30)));
  });
  At(absl::Seconds(10));
  EXPECT_TRUE(lease->Lost());
}

TEST_F(LeaseRenewerTest, LeaseIsMeasuredFromBeforeTheRenewalWasSent) {
  const auto lease = Add();
  EXPECT_CALL(*connection_, BatchRenew(_, _)).WillOnce([&](const auto&, const auto&) {
    clock_->Advance(absl::Seconds(2));
    return One(Renewed(absl::Seconds(30)));
  });
  At(absl::Seconds(10));
  EXPECT_EQ(lease->Remaining(), absl::Seconds(28));
}

TEST_F(LeaseRenewerTest, AllThatIsDueGoesInOneBatchAndEachGetsItsOwnAnswer) {
  const auto a = Add("a");
  const auto b = Add("b");
  const auto later = Add("later", absl::Seconds(90));
  EXPECT_CALL(*connection_, BatchRenew(SizeIs(2), _))
      .WillOnce([](const std::vector<RenewRequest>& requests, const CallOptions&) {
        std::vector<absl::StatusOr<RenewOutcome>> answers;
        for (const auto& request : requests) {
          if (request.operation.event_id == "a") {
            answers.push_back(RenewOutcome(ClaimLost{}));
          } else {
            answers.push_back(Renewed(absl::Seconds(30)));
          }
        }
        return Answer(std::move(answers));
      });
  At(absl::Seconds(10));
  EXPECT_TRUE(a->Lost());
  EXPECT_FALSE(b->Lost());
  EXPECT_FALSE(later->Lost());
}

TEST_F(LeaseRenewerTest, MoreThanABatchIsRenewedInSeveralEarliestFirst) {
  std::vector<std::shared_ptr<Lease>> leases;
  for (int i = 0; i < 1500; ++i) {
    leases.push_back(Add(absl::StrCat(i)));
    clock_->Advance(absl::Microseconds(1));
  }
  size_t renewed = 0;
  EXPECT_CALL(*connection_, BatchRenew(_, _))
      .Times(2)
      .WillRepeatedly([&](const std::vector<RenewRequest>& requests, const CallOptions&) {
        EXPECT_EQ(requests[0].operation.event_id, renewed == 0 ? "0" : "1000");
        renewed += requests.size();
        return Answer(
            std::vector<absl::StatusOr<RenewOutcome>>(requests.size(), Renewed(absl::Seconds(30))));
      });
  At(absl::Seconds(11));
  At(absl::Seconds(11));
  EXPECT_EQ(renewed, 1500u);
}

TEST_F(LeaseRenewerTest, RemovedLeaseIsRenewedNoMore) {
  const auto lease = Add();
  renewer_.Remove(lease);
  At(absl::Seconds(10));
  At(absl::Seconds(40));
}

TEST_F(LeaseRenewerTest, HangingRenewalMayNotTakeLongerThanTheShortestLeaseCanSpare) {
  const auto brief = Add("brief", absl::Milliseconds(600));
  const auto long_one = Add("long", absl::Seconds(1));
  EXPECT_CALL(*connection_, BatchRenew(_, _))
      .WillOnce([&](const auto&, const CallOptions& options) {
        EXPECT_EQ(options.retry->attempt_timeout, absl::Milliseconds(200));
        EXPECT_EQ(options.retry->max_elapsed, absl::Milliseconds(200));
        return One(Renewed(absl::Milliseconds(600)));
      });
  At(absl::Milliseconds(200));
}

TEST_F(LeaseRenewerTest, CallbackThatComesTooLateIsCalledAtOnceAndNoneAfterStopNotifying) {
  const auto lease = Add();
  clock_->Advance(absl::Seconds(31));
  int told = 0;
  lease->OnLost([&] { ++told; });
  EXPECT_EQ(told, 1);
  const auto other = Add("other");
  other->OnLost([&] { ++told; });
  other->StopNotifying();
  At(absl::Seconds(100));
  EXPECT_EQ(told, 1);
}

// The thread itself, on the system's clock: short leases, and nothing waits for a fixed time.
TEST(LeaseRenewerThreadTest, RenewsByItselfAndStopsWithItsOwner) {
  auto connection = std::make_shared<MockConnection>();
  auto clock = MakeSystemClock();
  absl::Notification thrice;
  int renewals = 0;
  EXPECT_CALL(*connection, BatchRenew(_, _))
      .WillRepeatedly([&](const std::vector<RenewRequest>& requests, const CallOptions&) {
        EXPECT_THAT(requests, SizeIs(1));
        if (++renewals == 3) thrice.Notify();
        return One(Renewed(absl::Milliseconds(150)));
      });
  LeaseRenewer renewer(connection, clock);
  const auto lease = renewer.Add(Request(), clock->Elapsed(), absl::Milliseconds(150));
  thrice.WaitForNotification();
  EXPECT_FALSE(lease->Lost());
}

TEST(LeaseRenewerThreadTest, TellsTheOwnerWhenTheLeaseIsOver) {
  auto connection = std::make_shared<testing::NiceMock<MockConnection>>();
  ON_CALL(*connection, BatchRenew(_, _)).WillByDefault(Return(Answer(absl::UnavailableError(""))));
  auto clock = MakeSystemClock();
  LeaseRenewer renewer(connection, clock);
  const auto lease = renewer.Add(Request(), clock->Elapsed(), absl::Milliseconds(100));
  absl::Notification told;
  lease->OnLost([&] { told.Notify(); });
  told.WaitForNotification();
  EXPECT_TRUE(lease->Lost());
}

TEST(LeaseRenewerThreadTest, StopNotifyingWaitsForTheCallbackThatRuns) {
  auto connection = std::make_shared<testing::NiceMock<MockConnection>>();
  ON_CALL(*connection, BatchRenew(_, _)).WillByDefault(Return(Answer(absl::UnavailableError(""))));
  auto clock = MakeSystemClock();
  LeaseRenewer renewer(connection, clock);
  const auto lease = renewer.Add(Request(), clock->Elapsed(), absl::Milliseconds(50));
  absl::Notification entered;
  bool finished = false;
  lease->OnLost([&] {
    entered.Notify();
    absl::SleepFor(absl::Milliseconds(20));  // long enough for StopNotifying to be caught waiting
    finished = true;
  });
  entered.WaitForNotification();
  lease->StopNotifying();
  EXPECT_TRUE(finished);
}

}  // namespace
}  // namespace once::client_internal
