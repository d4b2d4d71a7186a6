#include "once/execute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "client_impl.h"
#include "connection_impl.h"
#include "fake_clock.h"
#include "fake_stub.h"
#include "once/client.h"
#include "once/mocks/mock_connection.h"
#include "status_matchers.h"

namespace once {
namespace {

using once_mocks::MockConnection;
using testing::_;
using testing::Field;
using testing::HasSubstr;
using testing::Return;
using testing::StrictMock;
using testing_support::FakeClock;
using testing_support::FakeStub;
using testing_support::HasCode;
using testing_support::HasReason;
using testing_support::IsOk;
using testing_support::Mishap;
using testing_support::ServerError;

const OperationId kOperation{"points.grant", "event-1"};

Granted GrantedWith(absl::Duration lease = absl::Seconds(30)) {
  Granted granted;
  granted.claim.attempt_id.bytes[0] = 5;
  granted.claim.fence = Fence{41};
  granted.claim.lease_remaining = lease;
  granted.attempt_number = 1;
  return granted;
}

Completed CompletedWith(std::string result, bool replayed) {
  Completed completed;
  completed.receipt.result = std::move(result);
  completed.replayed = replayed;
  return completed;
}

class ExecuteTest : public testing::Test {
 protected:
  absl::StatusOr<Executed> Execute(Handler handler, const ExecuteOptions& options = {}) {
    return client_.Execute(kOperation, Content::Raw("x"), handler, options);
  }
  // For outcomes that do not run it.
  absl::StatusOr<Executed> ExecuteNothing(const ExecuteOptions& options = {}) {
    return Execute(
        [](ExecutionContext&) -> absl::StatusOr<HandlerResult> {
          ADD_FAILURE() << "the handler ran";
          return HandlerResult::Succeeded();
        },
        options);
  }
  void ExpectGranted(Granted granted = GrantedWith()) {
    EXPECT_CALL(*connection_, Begin(_, _)).WillOnce(Return(BeginOutcome(std::move(granted))));
  }
  void Renew() { ClientPeer::Renewer(client_).RunOnce(); }

  std::shared_ptr<FakeClock> clock_ = std::make_shared<FakeClock>();
  std::shared_ptr<StrictMock<MockConnection>> connection_ =
      std::make_shared<StrictMock<MockConnection>>();
  Client client_ = ClientPeer::WithoutThread(connection_, clock_);
};

TEST_F(ExecuteTest, GrantedRunsTheHandlerOnceAndCompletesWithItsResult) {
  ExecuteOptions options;
  options.lease = absl::Seconds(45);
  options.consumer = "c1";
  options.handler_version = "v1";
  options.delivery = Delivery{"offset-1", DeliverySource::kRedelivery};
  Granted granted = GrantedWith();
  granted.attempt_number = 3;
  EXPECT_CALL(*connection_, Begin(_, _))
      .WillOnce([&](const BeginRequest& request, const CallOptions&) -> BeginOutcome {
        EXPECT_EQ(request.operation, kOperation);
        EXPECT_EQ(request.lease, absl::Seconds(45));
        EXPECT_EQ(request.wait, absl::ZeroDuration());
        EXPECT_EQ(request.consumer, "c1");
        EXPECT_EQ(request.handler_version, "v1");
        EXPECT_EQ(request.delivery->reference, "offset-1");
        EXPECT_NE(request.attempt_id, AttemptId{});
        return granted;
      });
  EXPECT_CALL(*connection_, Complete(_, _))
      .WillOnce([&](const CompleteRequest& request, const CallOptions&) -> CompleteOutcome {
        EXPECT_EQ(request.operation, kOperation);
        EXPECT_EQ(request.attempt_id, granted.claim.attempt_id);
        EXPECT_EQ(request.fence, Fence{41});
        EXPECT_EQ(request.status, ReceiptStatus::kSucceeded);
        EXPECT_EQ(request.result, "balance 10");
        EXPECT_EQ(request.content_type, "text/plain");
        return CompletedWith("balance 10", false);
      });
  int runs = 0;
  const auto executed = Execute(
      [&](ExecutionContext& context) {
        ++runs;
        EXPECT_EQ(context.operation(), kOperation);
        EXPECT_EQ(context.fence(), Fence{41});
        EXPECT_EQ(context.attempt_id(), granted.claim.attempt_id);
        EXPECT_EQ(context.attempt_number(), 3);
        EXPECT_FALSE(context.earlier_attempt().has_value());
        EXPECT_FALSE(context.claim_lost());
        EXPECT_EQ(context.lease_remaining(), absl::Seconds(30));
        return HandlerResult::Succeeded("balance 10", "text/plain");
      },
      options);
  ASSERT_THAT(executed, IsOk());
  EXPECT_EQ(executed->receipt.result, "balance 10");
  EXPECT_FALSE(executed->replayed);
  EXPECT_EQ(runs, 1);
}

TEST_F(ExecuteTest, DoneBeforeReturnsTheReceiptWithoutRunning) {
  Completed completed = CompletedWith("first result", true);
  completed.dedupe_guaranteed_until_time = absl::FromUnixSeconds(9);
  EXPECT_CALL(*connection_, Begin(_, _)).WillOnce(Return(BeginOutcome(completed)));
  const auto executed = ExecuteNothing();
  ASSERT_THAT(executed, IsOk());
  EXPECT_TRUE(executed->replayed);
  EXPECT_EQ(executed->receipt.result, "first result");
  EXPECT_EQ(executed->dedupe_guaranteed_until_time, absl::FromUnixSeconds(9));
}

TEST_F(ExecuteTest, FinalRefusalIsAReceiptLikeAnother) {
  ExpectGranted();
  EXPECT_CALL(*connection_, Complete(Field(&CompleteRequest::status, ReceiptStatus::kRejected), _))
      .WillOnce([](const auto&, const auto&) -> CompleteOutcome {
        Completed completed;
        completed.receipt.status = ReceiptStatus::kRejected;
        return completed;
      });
  const auto executed =
      Execute([](ExecutionContext&) { return HandlerResult::Rejected("no such account"); });
  ASSERT_THAT(executed, IsOk());
  EXPECT_EQ(executed->receipt.status, ReceiptStatus::kRejected);
}

TEST_F(ExecuteTest, CallersAttemptIdIsUsed) {
  ExecuteOptions options;
  options.attempt_id = AttemptId::Generate();
  EXPECT_CALL(*connection_, Begin(Field(&BeginRequest::attempt_id, *options.attempt_id), _))
      .WillOnce(Return(BeginOutcome(CompletedWith("", true))));
  EXPECT_THAT(ExecuteNothing(options), IsOk());
}

TEST_F(ExecuteTest, EarlierAttemptIsShownToTheHandler) {
  Granted granted = GrantedWith();
  granted.earlier_attempt = EarlierAttempt{};
  granted.earlier_attempt->consumer = "crashed";
  ExpectGranted(granted);
  EXPECT_CALL(*connection_, Complete(_, _))
      .WillOnce(Return(CompleteOutcome(CompletedWith("", false))));
  EXPECT_THAT(Execute([](ExecutionContext& context) {
                EXPECT_EQ(context.earlier_attempt()->consumer, "crashed");
                return HandlerResult::Succeeded();
              }),
              IsOk());
}

TEST_F(ExecuteTest, OtherOutcomesAreErrorsWithTheirDetails) {
  Conflict conflict;
  conflict.first_digest = Digest::OfRaw("a");
  conflict.request_digest = Digest::OfRaw("b");
  conflict.state = OperationState::kCompleted;
  InDoubt in_doubt;
  in_doubt.earlier_attempts.push_back({});
  in_doubt.earlier_attempts[0].consumer = "crashed";
  in_doubt.earlier_attempt_count = 1;
  in_doubt.resolution = "ask the bank";
  Stale stale;
  stale.current = {"order-1", 8};
  EXPECT_CALL(*connection_, Begin(_, _))
      .WillOnce(Return(BeginOutcome(conflict)))
      .WillOnce(Return(BeginOutcome(in_doubt)))
      .WillOnce(Return(BeginOutcome(stale)))
      .WillOnce(Return(BeginOutcome(Expired{})));

  auto status = ExecuteNothing().status();
  EXPECT_THAT(status, HasReason(ErrorReason::kConflict));
  EXPECT_THAT(status, HasCode(absl::StatusCode::kAlreadyExists));
  auto metadata = ErrorInfoOf(status).metadata;
  EXPECT_EQ(metadata["first_digest"], Digest::OfRaw("a").ToHex());
  EXPECT_EQ(metadata["request_digest"], Digest::OfRaw("b").ToHex());
  EXPECT_EQ(metadata["state"], "COMPLETED");
  EXPECT_EQ(metadata["difference"], "DIGEST");

  status = ExecuteNothing().status();
  EXPECT_THAT(status, HasReason(ErrorReason::kInDoubt));
  EXPECT_THAT(status, HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(ErrorInfoOf(status).metadata["consumer"], "crashed");
  EXPECT_EQ(ErrorInfoOf(status).metadata["resolution"], "ask the bank");

  status = ExecuteNothing().status();
  EXPECT_THAT(status, HasReason(ErrorReason::kStale));
  EXPECT_EQ(ErrorInfoOf(status).metadata["current_version"], "8");

  EXPECT_THAT(ExecuteNothing(), HasReason(ErrorReason::kExpired));
}

TEST_F(ExecuteTest, ErrorOfBeginIsReturnedAsItIs) {
  const auto error = ServerError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidField);
  EXPECT_CALL(*connection_, Begin(_, _)).WillOnce(Return(error));
  EXPECT_EQ(ExecuteNothing().status(), error);
}

// ---- waiting for another attempt ----

InProgress Held(absl::Duration suggested) {
  InProgress in_progress;
  in_progress.consumer = "other";
  in_progress.lease_remaining = absl::Seconds(12);
  in_progress.suggested_wait = suggested;
  return in_progress;
}

TEST_F(ExecuteTest, HeldByAnotherReturnsAtOnceWhereNoWaitIsAskedFor) {
  EXPECT_CALL(*connection_, Begin(_, _)).WillOnce(Return(BeginOutcome(Held(absl::Seconds(2)))));
  const auto status = ExecuteNothing().status();
  EXPECT_THAT(status, HasReason(ErrorReason::kInProgress));
  EXPECT_THAT(status, HasCode(absl::StatusCode::kAborted));
  const ErrorInfo info = ErrorInfoOf(status);
  EXPECT_EQ(info.retry_delay, absl::Seconds(2));
  EXPECT_EQ(info.metadata.at("consumer"), "other");
  EXPECT_EQ(info.metadata.at("lease_remaining"), "12s");
  EXPECT_THAT(clock_->sleeps(), testing::IsEmpty());
}

TEST_F(ExecuteTest, WaitsAtTheServerAndReturnsTheReceiptWhenItIsThere) {
  ExecuteOptions options;
  options.wait = absl::Seconds(50);
  std::vector<absl::Duration> waits;
  std::vector<AttemptId> attempts;
  EXPECT_CALL(*connection_, Begin(_, _))
      .Times(3)
      .WillRepeatedly([&](const BeginRequest& request, const CallOptions&) -> BeginOutcome {
        waits.push_back(request.wait);
        attempts.push_back(request.attempt_id);
        clock_->Advance(request.wait);
        if (waits.size() < 3) return Held(absl::Seconds(5));
        return CompletedWith("theirs", true);
      });
  const auto executed = ExecuteNothing(options);
  ASSERT_THAT(executed, IsOk());
  EXPECT_EQ(executed->receipt.result, "theirs");
  EXPECT_THAT(waits, testing::ElementsAre(absl::Seconds(20), absl::Seconds(20), absl::Seconds(10)));
  EXPECT_EQ(attempts[0], attempts[2]);
  EXPECT_THAT(clock_->sleeps(), testing::IsEmpty());
}

TEST_F(ExecuteTest, ServerThatDoesNotHoldTheCallIsAskedAgainAtAPace) {
  ExecuteOptions options;
  options.wait = absl::Seconds(3);
  int asked = 0;
  EXPECT_CALL(*connection_, Begin(_, _))
      .WillRepeatedly([&](const BeginRequest&, const CallOptions&) -> BeginOutcome {
        ++asked;
        return Held(absl::Seconds(5));
      });
  EXPECT_THAT(ExecuteNothing(options), HasReason(ErrorReason::kInProgress));
  EXPECT_EQ(asked, 4);  // at 0, 1, 2 and 3 s
}

TEST_F(ExecuteTest, DelayLongerThanTheWaitIsNotWaitedFor) {
  ExecuteOptions options;
  options.wait = absl::Seconds(30);
  InProgress delayed = Held(absl::Hours(2));
  delayed.reason = InProgress::Reason::kDelayed;
  delayed.lease_remaining = absl::Hours(2);
  EXPECT_CALL(*connection_, Begin(_, _)).WillOnce(Return(BeginOutcome(delayed)));
  const auto status = ExecuteNothing(options).status();
  EXPECT_THAT(status, HasReason(ErrorReason::kInProgress));
  EXPECT_EQ(ErrorInfoOf(status).metadata["why"], "DELAYED");
  EXPECT_THAT(clock_->sleeps(), testing::IsEmpty());
}

TEST_F(ExecuteTest, DelayWithinTheWaitIsSleptOver) {
  ExecuteOptions options;
  options.wait = absl::Seconds(30);
  InProgress delayed = Held(absl::Seconds(7));
  delayed.reason = InProgress::Reason::kDelayed;
  EXPECT_CALL(*connection_, Begin(_, _))
      .WillOnce(Return(BeginOutcome(delayed)))
      .WillOnce(Return(BeginOutcome(CompletedWith("", true))));
  EXPECT_THAT(ExecuteNothing(options), IsOk());
  EXPECT_THAT(clock_->sleeps(), testing::ElementsAre(absl::Seconds(7)));
}

// ---- the handler fails ----

TEST_F(ExecuteTest, FailedHandlerReleasesTheClaimAndItsErrorIsReturned) {
  ExpectGranted();
  EXPECT_CALL(*connection_, Abandon(_, _))
      .WillOnce([](const AbandonRequest& request, const CallOptions&) -> AbandonOutcome {
        EXPECT_EQ(request.operation, kOperation);
        EXPECT_EQ(request.fence, Fence{41});
        EXPECT_EQ(request.attempt_id.bytes[0], 5);
        EXPECT_EQ(request.mode, AbandonMode::kRelease);
        EXPECT_EQ(request.retry_delay, absl::ZeroDuration());
        EXPECT_EQ(request.reason, "bank is closed");
        return Abandoned{};
      });
  const auto status = Execute([](ExecutionContext&) -> absl::StatusOr<HandlerResult> {
                        return absl::UnavailableError("bank is closed");
                      }).status();
  EXPECT_EQ(status, absl::UnavailableError("bank is closed"));
}

TEST_F(ExecuteTest, HandlerMayAskForADelay) {
  ExpectGranted();
  EXPECT_CALL(*connection_, Abandon(Field(&AbandonRequest::retry_delay, absl::Minutes(5)), _))
      .WillOnce(Return(AbandonOutcome(Abandoned{})));
  EXPECT_THAT(Execute([](ExecutionContext&) -> absl::StatusOr<HandlerResult> {
                return RetryAfter(absl::UnavailableError("closed"), absl::Minutes(5));
              }),
              HasCode(absl::StatusCode::kUnavailable));
}

TEST_F(ExecuteTest, DelayOutOfRangeIsCutSoThatTheClaimIsStillGivenBack) {
  EXPECT_CALL(*connection_, Begin(_, _)).WillRepeatedly(Return(BeginOutcome(GrantedWith())));
  EXPECT_CALL(*connection_, Abandon(Field(&AbandonRequest::retry_delay, absl::Hours(24)), _))
      .WillOnce(Return(AbandonOutcome(Abandoned{})));
  EXPECT_CALL(*connection_, Abandon(Field(&AbandonRequest::retry_delay, absl::ZeroDuration()), _))
      .WillOnce(Return(AbandonOutcome(Abandoned{})));
  for (const auto delay : {absl::InfiniteDuration(), absl::Seconds(-1)}) {
    EXPECT_FALSE(Execute([&](ExecutionContext&) -> absl::StatusOr<HandlerResult> {
                   return RetryAfter(absl::UnavailableError(""), delay);
                 }).ok());
  }
}

TEST_F(ExecuteTest, HandlerMayForgetTheOperation) {
  ExpectGranted();
  EXPECT_CALL(*connection_, Abandon(Field(&AbandonRequest::mode, AbandonMode::kForget), _))
      .WillOnce(Return(AbandonOutcome(Abandoned{AbandonMode::kForget})));
  EXPECT_THAT(Execute([](ExecutionContext&) -> absl::StatusOr<HandlerResult> {
                return ForgetOperation(absl::InvalidArgumentError("no amount"));
              }),
              HasCode(absl::StatusCode::kInvalidArgument));
}

TEST_F(ExecuteTest, HandlerThatDoesNotKnowWhatHappenedKeepsTheClaimUntilItLapses) {
  ExpectGranted();  // the strict mock allows no Abandon
  EXPECT_THAT(Execute([](ExecutionContext&) -> absl::StatusOr<HandlerResult> {
                return OutcomeUnknown(absl::DeadlineExceededError("the bank did not answer"));
              }),
              HasCode(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(ExecuteTest, FailureToGiveTheClaimBackDoesNotHideTheHandlersError) {
  ExpectGranted();
  EXPECT_CALL(*connection_, Abandon(_, _)).WillOnce(Return(absl::UnavailableError("no server")));
  EXPECT_EQ(Execute([](ExecutionContext&) -> absl::StatusOr<HandlerResult> {
              return absl::InternalError("mine");
            }).status(),
            absl::InternalError("mine"));
}

TEST_F(ExecuteTest, ThrowingHandlerReleasesTheClaimAndTheExceptionGoesOn) {
  ExpectGranted();
  EXPECT_CALL(*connection_, Abandon(_, _))
      .WillOnce([](const AbandonRequest& request, const CallOptions&) -> AbandonOutcome {
        EXPECT_EQ(request.mode, AbandonMode::kRelease);
        EXPECT_EQ(request.reason, "bad luck ??");
        return Abandoned{};
      });
  EXPECT_THROW(Execute([](ExecutionContext&) -> absl::StatusOr<HandlerResult> {
                 throw std::runtime_error("bad luck \xff\n");
               }).IgnoreError(),
               std::runtime_error);
  clock_->Advance(absl::Seconds(10));
  Renew();  // nothing is renewed any more
}

TEST_F(ExecuteTest, ThrownThingThatIsNoExceptionIsHandledAlike) {
  ExpectGranted();
  EXPECT_CALL(*connection_, Abandon(_, _)).WillOnce(Return(AbandonOutcome(Abandoned{})));
  EXPECT_THROW(
      Execute([](ExecutionContext&) -> absl::StatusOr<HandlerResult> { throw 7; }).IgnoreError(),
      int);
}

TEST_F(ExecuteTest, LongReasonIsShortened) {
  ExpectGranted();
  EXPECT_CALL(*connection_, Abandon(Field(&AbandonRequest::reason, testing::SizeIs(255)), _))
      .WillOnce(Return(AbandonOutcome(Abandoned{})));
  EXPECT_FALSE(Execute([](ExecutionContext&) -> absl::StatusOr<HandlerResult> {
                 return absl::InternalError(std::string(300, 'x'));
               }).ok());
}

// ---- renewal and loss ----

absl::StatusOr<std::vector<absl::StatusOr<RenewOutcome>>> Answer(RenewOutcome outcome) {
  return std::vector<absl::StatusOr<RenewOutcome>>{std::move(outcome)};
}
RenewOutcome Renewed() {
  Claim claim;
  claim.lease_remaining = absl::Seconds(30);
  return claim;
}

TEST_F(ExecuteTest, LeaseIsRenewedWhileTheHandlerRunsLongerThanIt) {
  ExpectGranted();
  EXPECT_CALL(*connection_, BatchRenew(_, _)).Times(12).WillRepeatedly(Return(Answer(Renewed())));
  EXPECT_CALL(*connection_, Complete(_, _))
      .WillOnce(Return(CompleteOutcome(CompletedWith("", false))));
  const auto executed = Execute([&](ExecutionContext& context) {
    for (int i = 0; i < 12; ++i) {
      clock_->Advance(absl::Seconds(10));
      Renew();
      EXPECT_FALSE(context.claim_lost());
    }
    return HandlerResult::Succeeded();
  });
  EXPECT_THAT(executed, IsOk());
  clock_->Advance(absl::Seconds(10));
  Renew();  // nothing is renewed after the end
}

TEST_F(ExecuteTest, HandlerIsToldOfALostClaimAndCompletionIsStillTriedForTheLog) {
  ExpectGranted();
  EXPECT_CALL(*connection_, BatchRenew(_, _)).WillOnce(Return(Answer(ClaimLost{})));
  ClaimLost lost;
  lost.consumer = "b";
  lost.take_over_time = absl::FromUnixSeconds(0);
  EXPECT_CALL(*connection_, Complete(_, _)).WillOnce(Return(CompleteOutcome(lost)));
  int told = 0;
  const auto status = Execute([&](ExecutionContext& context) {
                        context.OnClaimLost([&] { ++told; });
                        clock_->Advance(absl::Seconds(10));
                        Renew();
                        EXPECT_TRUE(context.claim_lost());
                        EXPECT_EQ(context.lease_remaining(), absl::ZeroDuration());
                        return HandlerResult::Succeeded("mine");
                      }).status();
  EXPECT_EQ(told, 1);
  EXPECT_THAT(status, HasReason(ErrorReason::kClaimLost));
  EXPECT_EQ(ErrorInfoOf(status).metadata["consumer"], "b");
  EXPECT_THAT(std::string(status.message()), HasSubstr("1970-01-01T00:00:00"));
}

TEST_F(ExecuteTest, ClaimIsLostByTheOwnClockWhenNoRenewalGotThroughAndMayStillComplete) {
  ExpectGranted();
  EXPECT_CALL(*connection_, BatchRenew(_, _)).WillRepeatedly(Return(absl::UnavailableError("")));
  EXPECT_CALL(*connection_, Complete(_, _))
      .WillOnce(Return(CompleteOutcome(CompletedWith("mine", false))));
  const auto executed = Execute([&](ExecutionContext& context) {
    clock_->Advance(absl::Seconds(29));
    Renew();
    EXPECT_FALSE(context.claim_lost());
    clock_->Advance(absl::Seconds(1));
    EXPECT_TRUE(context.claim_lost());
    return HandlerResult::Succeeded("mine");
  });
  ASSERT_THAT(executed, IsOk());
  EXPECT_EQ(executed->receipt.result, "mine");
}

TEST_F(ExecuteTest, ClaimThatTheServerTookAwayIsNotAbandoned) {
  ExpectGranted();
  EXPECT_CALL(*connection_, BatchRenew(_, _)).WillOnce(Return(Answer(ClaimLost{})));
  EXPECT_FALSE(Execute([&](ExecutionContext&) -> absl::StatusOr<HandlerResult> {
                 clock_->Advance(absl::Seconds(10));
                 Renew();
                 return absl::InternalError("");
               }).ok());
}

TEST_F(ExecuteTest, GrantAfterALongWaitIsRenewedBeforeTheHandlerRuns) {
  ExecuteOptions options;
  options.wait = absl::Seconds(20);
  options.lease = absl::Seconds(5);
  EXPECT_CALL(*connection_, Begin(_, _))
      .WillOnce([&](const BeginRequest&, const CallOptions&) -> BeginOutcome {
        clock_->Advance(absl::Seconds(15));  // the other owner took that long
        return GrantedWith(absl::Seconds(5));
      });
  Claim fresh;
  fresh.lease_remaining = absl::Seconds(5);
  EXPECT_CALL(*connection_, Renew(Field(&RenewRequest::lease, absl::Seconds(5)), _))
      .WillOnce(Return(RenewOutcome(fresh)));
  EXPECT_CALL(*connection_, Complete(_, _))
      .WillOnce(Return(CompleteOutcome(CompletedWith("", false))));
  EXPECT_THAT(Execute(
                  [](ExecutionContext& context) {
                    EXPECT_FALSE(context.claim_lost());
                    EXPECT_EQ(context.lease_remaining(), absl::Seconds(5));
                    return HandlerResult::Succeeded();
                  },
                  options),
              IsOk());
}

TEST_F(ExecuteTest, GrantThatIsGoneBeforeTheHandlerRanIsAskedForAgain) {
  EXPECT_CALL(*connection_, Begin(_, _))
      .WillOnce([&](const BeginRequest&, const CallOptions&) -> BeginOutcome {
        clock_->Advance(absl::Seconds(40));
        return GrantedWith();
      })
      .WillOnce(Return(BeginOutcome(CompletedWith("theirs", true))));
  EXPECT_CALL(*connection_, Renew(_, _)).WillOnce(Return(RenewOutcome(ClaimLost{})));
  const auto executed = ExecuteNothing();
  ASSERT_THAT(executed, IsOk());
  EXPECT_EQ(executed->receipt.result, "theirs");
}

// ---- completion ----

TEST_F(ExecuteTest, CompletionThatIsNotAnsweredKeepsTheClaim) {
  ExpectGranted();
  EXPECT_CALL(*connection_, Complete(_, _)).WillOnce(Return(absl::UnavailableError("no server")));
  EXPECT_THAT(Execute([](ExecutionContext&) { return HandlerResult::Succeeded(); }),
              HasCode(absl::StatusCode::kUnavailable));
}

TEST_F(ExecuteTest, LeaseIsRenewedWhileCompletionIsRetried) {
  ExpectGranted();
  EXPECT_CALL(*connection_, BatchRenew(_, _)).WillOnce(Return(Answer(Renewed())));
  EXPECT_CALL(*connection_, Complete(_, _))
      .WillOnce([&](const auto&, const auto&) -> CompleteOutcome {
        clock_->Advance(absl::Seconds(10));
        Renew();
        return CompletedWith("", false);
      });
  EXPECT_THAT(Execute([](ExecutionContext&) { return HandlerResult::Succeeded(); }), IsOk());
}

TEST_F(ExecuteTest, ResultThatIsTooLargeOrContradictsAnEarlierOneIsAnErrorAndKeepsTheClaim) {
  EXPECT_CALL(*connection_, Begin(_, _)).WillRepeatedly(Return(BeginOutcome(GrantedWith())));
  EXPECT_CALL(*connection_, Complete(_, _))
      .WillOnce(
          Return(ServerError(absl::StatusCode::kInvalidArgument, ErrorReason::kResultTooLarge)))
      .WillOnce(Return(CompleteOutcome(CompletionConflict{})));
  const auto done = [](ExecutionContext&) { return HandlerResult::Succeeded(); };
  EXPECT_THAT(Execute(done), HasReason(ErrorReason::kResultTooLarge));
  EXPECT_THAT(Execute(done), HasReason(ErrorReason::kCompletionConflict));
}

// ---- with the retrying connection ----

class ExecuteOverStubTest : public testing::Test {
 protected:
  static ConnectionOptions Options(std::shared_ptr<Clock> clock) {
    ConnectionOptions options;
    options.clock = std::move(clock);
    options.random = [] { return uint64_t{0}; };
    return options;
  }
  absl::StatusOr<Executed> Execute() {
    return client_.Execute(kOperation, Content::Raw("x"), [&](ExecutionContext&) {
      ++runs_;
      return HandlerResult::Succeeded("done");
    });
  }

  std::shared_ptr<FakeClock> clock_ = std::make_shared<FakeClock>();
  std::shared_ptr<FakeStub> stub_ = std::make_shared<FakeStub>();
  Client client_ = ClientPeer::WithoutThread(
      client_internal::MakeConnectionOver(stub_, Options(clock_)), clock_);
  int runs_ = 0;
};

TEST_F(ExecuteOverStubTest, LostRepliesOfBeginAndCompleteRunTheHandlerOnce) {
  stub_->mishaps = {FakeStub::Lost(),
                    {Mishap::When::kAfter, absl::DeadlineExceededError("")},
                    FakeStub::Refused()};
  const auto executed = client_.Execute(kOperation, Content::Raw("x"), [&](ExecutionContext&) {
    ++runs_;
    stub_->mishaps = {FakeStub::Lost(), FakeStub::Lost()};
    return HandlerResult::Succeeded("done");
  });
  ASSERT_THAT(executed, IsOk());
  EXPECT_EQ(stub_->begins.size(), 4u);
  EXPECT_EQ(stub_->completes.size(), 3u);
  EXPECT_EQ(runs_, 1);
  EXPECT_FALSE(executed->replayed);
  EXPECT_EQ(executed->receipt.result, "done");
  EXPECT_EQ(executed->receipt.fence, Fence{1});

  const auto again = Execute();
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->replayed);
  EXPECT_EQ(again->receipt.result, "done");
  EXPECT_EQ(runs_, 1);
}

TEST_F(ExecuteOverStubTest, ServerThatIsAwayForHalfAMinuteAtCompletionCostsNothing) {
  const auto executed = client_.Execute(kOperation, Content::Raw("x"), [&](ExecutionContext&) {
    ++runs_;
    for (int i = 0; i < 12; ++i) stub_->mishaps.push_back(FakeStub::Refused());
    return HandlerResult::Succeeded("done");
  });
  ASSERT_THAT(executed, IsOk());
  EXPECT_EQ(runs_, 1);
  EXPECT_GT(clock_->Elapsed() - absl::Hours(1), absl::Seconds(15));
}

}  // namespace
}  // namespace once
