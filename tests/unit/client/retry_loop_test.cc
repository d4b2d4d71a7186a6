#include "retry_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <vector>

#include "fake_clock.h"
#include "status_matchers.h"

namespace once::client_internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::FakeClock;
using testing_support::HasCode;
using testing_support::HasReason;
using testing_support::IsOk;
using testing_support::ServerError;

class RetryLoopTest : public testing::Test {
 protected:
  RetryContext Context() {
    return {{absl::Seconds(60), std::numeric_limits<int>::max(), absl::Seconds(10)},
            {absl::Milliseconds(100), absl::Seconds(1), 2.0},
            clock_,
            [this] { return random_; },
            ""};
  }

  // Answers with `failures` one after the other, then OK with the number of sendings.
  absl::StatusOr<int> Run(const RetryContext& context, std::vector<absl::Status> failures,
                          Repeatable repeatable = Repeatable::kYes,
                          absl::Duration wait = absl::ZeroDuration(),
                          absl::Duration each_takes = absl::ZeroDuration()) {
    return RetryLoop<int>(context, repeatable, wait,
                          [&](const RpcCall& call, absl::Duration rest) -> absl::StatusOr<int> {
                            timeouts_.push_back(call.timeout);
                            waits_.push_back(rest);
                            clock_->Advance(each_takes);
                            ++sent_;
                            if (failures.empty()) return sent_;
                            const absl::Status failure = failures.front();
                            if (failures.size() > 1 || !repeat_last_) {
                              failures.erase(failures.begin());
                            }
                            return failure;
                          });
  }

  std::shared_ptr<FakeClock> clock_ = std::make_shared<FakeClock>();
  uint64_t random_ = std::numeric_limits<uint64_t>::max();
  bool repeat_last_ = false;
  int sent_ = 0;
  std::vector<absl::Duration> timeouts_;
  std::vector<absl::Duration> waits_;
};

TEST_F(RetryLoopTest, UnavailableAndTimedOutAttemptsAreSentAgain) {
  EXPECT_EQ(*Run(Context(), {absl::UnavailableError(""), absl::DeadlineExceededError("")}), 3);
}

TEST_F(RetryLoopTest, EverythingElseIsReturnedAtOnceAndUnchanged) {
  for (const absl::Status& error :
       {absl::InvalidArgumentError("a"), absl::UnauthenticatedError("b"), absl::InternalError("c"),
        absl::NotFoundError("d"), absl::AbortedError("e"), absl::CancelledError("f"),
        absl::UnknownError("g"), absl::PermissionDeniedError("h"), absl::UnimplementedError("i"),
        absl::AlreadyExistsError("j"), absl::DataLossError("k")}) {
    sent_ = 0;
    EXPECT_EQ(Run(Context(), {error}).status(), error);
    EXPECT_EQ(sent_, 1);
  }
}

TEST_F(RetryLoopTest, ExhaustedIsSentAgainOnlyWithARetryDelay) {
  EXPECT_THAT(Run(Context(), {absl::ResourceExhaustedError("message too large")}),
              HasCode(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(sent_, 1);
  EXPECT_THAT(Run(Context(), {ServerError(absl::StatusCode::kResourceExhausted,
                                          ErrorReason::kOverloaded, absl::Milliseconds(100))}),
              IsOk());
}

TEST_F(RetryLoopTest, PausesGrowToTheMaximumWithJitterOverTheUpperHalf) {
  const std::vector<absl::Status> five(5, absl::UnavailableError(""));
  random_ = 0;
  ASSERT_THAT(Run(Context(), five), IsOk());
  EXPECT_THAT(clock_->sleeps(),
              ElementsAre(absl::Milliseconds(50), absl::Milliseconds(100), absl::Milliseconds(200),
                          absl::Milliseconds(400), absl::Milliseconds(500)));
  clock_ = std::make_shared<FakeClock>();
  random_ = std::numeric_limits<uint64_t>::max();
  ASSERT_THAT(Run(Context(), five), IsOk());
  EXPECT_GT(clock_->sleeps()[0], absl::Milliseconds(99));
  EXPECT_LE(clock_->sleeps()[0], absl::Milliseconds(100));
  EXPECT_LE(clock_->sleeps()[4], absl::Seconds(1));
}

TEST_F(RetryLoopTest, TheServersDelayIsRespectedWhereItIsLonger) {
  random_ = 0;
  ASSERT_THAT(Run(Context(), {ServerError(absl::StatusCode::kUnavailable, ErrorReason::kDraining,
                                          absl::Seconds(3)),
                              ServerError(absl::StatusCode::kUnavailable, ErrorReason::kDraining,
                                          absl::Milliseconds(1))}),
              IsOk());
  EXPECT_THAT(clock_->sleeps(), ElementsAre(absl::Seconds(3), absl::Milliseconds(100)));
}

TEST_F(RetryLoopTest, GivesUpWhenTheTimeIsOverAndSaysSo) {
  repeat_last_ = true;
  const auto result =
      Run(Context(), {ServerError(absl::StatusCode::kUnavailable, ErrorReason::kStoreUnavailable)});
  EXPECT_THAT(result, HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(result, HasReason(ErrorReason::kStoreUnavailable));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("gave up after"));
  EXPECT_LE(clock_->Elapsed() - absl::Hours(1), absl::Seconds(60));
  EXPECT_GT(sent_, 50);
}

TEST_F(RetryLoopTest, GivesUpAfterSoManyAttempts) {
  repeat_last_ = true;
  RetryContext context = Context();
  context.retry.max_attempts = 3;
  EXPECT_THAT(Run(context, {absl::UnavailableError("")}), HasCode(absl::StatusCode::kUnavailable));
  EXPECT_EQ(sent_, 3);
}

TEST_F(RetryLoopTest, AttemptTimeoutIsCutToWhatIsLeftOfTheWholeCall) {
  RetryContext context = Context();
  context.retry.max_elapsed = absl::Seconds(25);
  random_ = 0;
  EXPECT_THAT(Run(context,
                  {absl::DeadlineExceededError(""), absl::DeadlineExceededError(""),
                   absl::DeadlineExceededError("")},
                  Repeatable::kYes, absl::ZeroDuration(), absl::Seconds(10)),
              HasCode(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(timeouts_, ElementsAre(absl::Seconds(10), absl::Seconds(10),
                                     absl::Seconds(5) - absl::Milliseconds(150)));
}

TEST_F(RetryLoopTest, AWaitLengthensTheAttemptAndIsNotStartedAfresh) {
  random_ = 0;
  ASSERT_THAT(Run(Context(), {absl::UnavailableError("")}, Repeatable::kYes, absl::Seconds(20),
                  absl::Seconds(4)),
              IsOk());
  EXPECT_THAT(timeouts_,
              ElementsAre(absl::Seconds(30), absl::Seconds(26) - absl::Milliseconds(50)));
  EXPECT_THAT(waits_, ElementsAre(absl::Seconds(20), absl::Seconds(16) - absl::Milliseconds(50)));
}

TEST_F(RetryLoopTest, CallsThatCreateAreRepeatedOnlyWhereNothingWasStarted) {
  const auto once = Repeatable::kOnlyWhereNotStarted;
  EXPECT_THAT(Run(Context(), {absl::UnavailableError("reset")}, once),
              HasCode(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Run(Context(), {absl::DeadlineExceededError("")}, once),
              HasCode(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(Run(Context(),
                  {ServerError(absl::StatusCode::kUnavailable, ErrorReason::kOutcomeUnknown,
                               absl::Seconds(1))},
                  once),
              HasReason(ErrorReason::kOutcomeUnknown));
  EXPECT_THAT(
      Run(Context(), {ServerError(absl::StatusCode::kUnavailable, ErrorReason::kDraining)}, once),
      IsOk());
  EXPECT_THAT(
      Run(Context(), {ServerError(absl::StatusCode::kUnavailable, ErrorReason::kStoreUnavailable)},
          once),
      IsOk());
}

}  // namespace
}  // namespace once::client_internal
