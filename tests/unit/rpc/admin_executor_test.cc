#include "rpc/admin_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "unit/auth/fake_control_store.h"
#include "unit/rpc/status_matchers.h"

namespace once::rpc {
namespace {

using base::ErrorReason;
using ::once::testing::FakeControlStore;
using ::once::testing::IsError;
using ::once::testing::IsOk;

class AdminExecutorTest : public ::testing::Test {
 protected:
  struct Answer {
    absl::Notification answered;
    absl::Status status;
    absl::Status Await() {
      answered.WaitForNotification();
      return status;
    }
  };

  AdminTask TaskFor(Answer* answer, bool repeatable = true) {
    AdminTask task;
    task.run = [this](store::ControlSession& session) {
      ++runs_;
      return session.ListTenants("", 1).status();
    };
    task.repeatable = repeatable;
    task.done = [answer](const absl::Status& status) {
      answer->status = status;
      answer->answered.Notify();
    };
    return task;
  }
  absl::Status Run(bool repeatable = true) {
    Answer answer;
    executor_->Submit(TaskFor(&answer, repeatable));
    return answer.Await();
  }

  FakeControlStore store_;
  base::RealClock clock_;
  std::unique_ptr<AdminExecutor> executor_ = std::make_unique<AdminExecutor>(2, &store_, &clock_);
  std::atomic<int> runs_{0};
  absl::Notification stopping_;
  Answer also_queued_;
};

TEST_F(AdminExecutorTest, KeepsItsSession) {
  EXPECT_THAT(Run(), IsOk());
  EXPECT_THAT(Run(), IsOk());
  EXPECT_EQ(store_.sessions_opened(), 1);
}

TEST_F(AdminExecutorTest, RepeatsAfterDeadlocksAndClosedConnections) {
  store_.FailNext({absl::AbortedError("deadlock"), absl::UnavailableError("gone away"),
                   absl::AbortedError("deadlock")});
  EXPECT_THAT(Run(/*repeatable=*/false), IsOk());
  EXPECT_EQ(runs_, 4);
  EXPECT_EQ(store_.sessions_opened(), 2);
}

TEST_F(AdminExecutorTest, GivesUpInTheEnd) {
  store_.SetDown(absl::UnavailableError("gone"));
  EXPECT_THAT(Run(), IsError(ErrorReason::kStoreUnavailable, "nothing was changed"));
  store_.SetDown(absl::OkStatus());
  EXPECT_THAT(Run(), IsOk());
}

TEST_F(AdminExecutorTest, UnknownOutcomeIsRepeatedOnlyWhereThatIsRight) {
  store_.FailNext({absl::UnknownError("lost in COMMIT")});
  EXPECT_THAT(Run(/*repeatable=*/true), IsOk());
  store_.FailNext({absl::UnknownError("lost in COMMIT")});
  EXPECT_THAT(Run(/*repeatable=*/false), IsError(ErrorReason::kOutcomeUnknown, ""));
  EXPECT_EQ(runs_, 3);
}

TEST_F(AdminExecutorTest, UnknownOutcomeIsNeverReportedAsNotDone) {
  store_.FailNext({absl::UnknownError("lost in COMMIT"), absl::UnavailableError("a"),
                   absl::UnavailableError("b"), absl::UnavailableError("c"),
                   absl::UnavailableError("d")});
  EXPECT_THAT(Run(/*repeatable=*/true), IsError(ErrorReason::kOutcomeUnknown, ""));
}

TEST_F(AdminExecutorTest, DefectsAreReportedAsTheyAre) {
  store_.FailNext({absl::InternalError("broken")});
  EXPECT_TRUE(absl::IsInternal(Run()));
  EXPECT_EQ(runs_, 1);
}

TEST_F(AdminExecutorTest, FullQueueRefusesAtOnce) {
  store_.Hold();
  Answer running;
  Answer queued[2];
  Answer refused;
  executor_->Submit(TaskFor(&running));
  store_.AwaitCalls(1);
  executor_->Submit(TaskFor(&queued[0]));
  executor_->Submit(TaskFor(&queued[1]));
  executor_->Submit(TaskFor(&refused));
  ASSERT_TRUE(refused.answered.HasBeenNotified());
  EXPECT_THAT(refused.status, IsError(ErrorReason::kOverloaded, ""));
  store_.Release();
  EXPECT_THAT(running.Await(), IsOk());
  EXPECT_THAT(queued[0].Await(), IsOk());
  EXPECT_THAT(queued[1].Await(), IsOk());
}

TEST_F(AdminExecutorTest, DoesNotStartWhatNobodyWaitsFor) {
  Answer late;
  AdminTask past = TaskFor(&late);
  past.deadline = clock_.Now();
  executor_->Submit(std::move(past));
  EXPECT_THAT(late.Await(), IsError(ErrorReason::kDeadlineExceeded, "nothing was written"));
  Answer gone;
  AdminTask cancelled = TaskFor(&gone);
  cancelled.cancellation = std::make_shared<pipeline::Cancellation>();
  cancelled.cancellation->cancelled = true;
  executor_->Submit(std::move(cancelled));
  EXPECT_THAT(gone.Await(), IsError(ErrorReason::kDeadlineExceeded, ""));
  EXPECT_EQ(runs_, 0);
}

TEST_F(AdminExecutorTest, DestructorAnswersWhatIsQueued) {
  store_.Hold();
  Answer running;
  Answer queued;
  // The running task ends only when the destructor has taken the queue away, which shows as a
  // refusal.
  AdminTask first = TaskFor(&running);
  AdminExecutor* const executor = executor_.get();
  first.run = [this, executor](store::ControlSession& session) {
    const absl::Status status = session.ListTenants("", 1).status();
    absl::Status refused;
    while (!absl::IsUnavailable(refused)) {
      AdminTask probe;
      probe.run = [](store::ControlSession&) { return absl::OkStatus(); };
      probe.done = [&refused](const absl::Status& answer) { refused = answer; };
      if (stopping_.HasBeenNotified()) {
        executor->Submit(std::move(probe));
      }
      std::this_thread::yield();
    }
    return status;
  };
  executor_->Submit(std::move(first));
  store_.AwaitCalls(1);
  executor_->Submit(TaskFor(&queued));
  executor_->Submit(TaskFor(&also_queued_));
  store_.Release();
  stopping_.Notify();
  executor_.reset();
  EXPECT_THAT(running.Await(), IsOk());
  EXPECT_THAT(queued.Await(), IsError(ErrorReason::kDraining, ""));
  EXPECT_THAT(also_queued_.Await(), IsError(ErrorReason::kDraining, ""));
}

}  // namespace
}  // namespace once::rpc
