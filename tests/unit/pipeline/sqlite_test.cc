// The whole pipeline over a real store, in real time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "store/sqlite/sqlite_store.h"
#include "unit/pipeline/harness.h"

namespace once::pipeline {
namespace {

class SqlitePipelineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "once-pipeline-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    auto store = store::OpenSqliteStore({.path = (folder_ / "once.db").string(), .clock = &clock_});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    ASSERT_TRUE(store_->Migrate().ok());
    Options options;
    options.committers = 8;  // the store allows one
    pipeline_ = StartPipeline(options, store_.get(), &clock_, &observer_);
  }
  void TearDown() override {
    pipeline_.reset();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  Answer<core::BeginOutcome> Begin(const std::string& event, const std::string& attempt,
                                   absl::Duration wait = absl::ZeroDuration()) {
    Answer<core::BeginOutcome> answer;
    pipeline_->Begin(MakeBegin(event, attempt, wait), answer.Receiver());
    return answer;
  }
  Answer<core::CompleteOutcome> Complete(CompleteCall call) {
    Answer<core::CompleteOutcome> answer;
    pipeline_->Complete(std::move(call), answer.Receiver());
    return answer;
  }
  Answer<core::AbandonOutcome> Abandon(AbandonCall call) {
    Answer<core::AbandonOutcome> answer;
    pipeline_->Abandon(std::move(call), answer.Receiver());
    return answer;
  }

  base::RealClock clock_;
  CountingObserver observer_;
  std::filesystem::path folder_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(SqlitePipelineTest, OneOfManyIsGrantedAndAllGetItsResult) {
  constexpr size_t kKeys = 20;
  constexpr size_t kThreads = 4;
  std::vector<std::vector<Answer<core::BeginOutcome>>> answers(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t k = 0; k < kKeys; ++k) {
        const auto answer =
            Begin(absl::StrCat("e", k), absl::StrCat("attempt", t), absl::Seconds(25));
        answers[t].push_back(answer);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t k = 0; k < kKeys; ++k) {
    const std::string result = std::string(100 * k, 'r');  // inline and large ones
    std::vector<core::ClaimInfo> claims;
    ASSERT_TRUE(observer_.WaitFor([&] {
      for (const auto& of_thread : answers) {
        if (of_thread[k].given()) return true;
      }
      return false;
    }));
    for (const auto& of_thread : answers) {
      if (!of_thread[k].given()) continue;
      ASSERT_NE(of_thread[k].GetIf<core::Granted>(), nullptr);
      claims.push_back(of_thread[k].GetIf<core::Granted>()->claim);
    }
    ASSERT_EQ(claims.size(), 1u) << "live claims of one operation";
    const auto complete = Complete(MakeComplete(absl::StrCat("e", k), claims[0], result));
    ASSERT_NE(complete.GetIf<core::Completed>(), nullptr);
    for (const auto& of_thread : answers) {
      if (of_thread[k].GetIf<core::Granted>() != nullptr) continue;
      ASSERT_NE(of_thread[k].GetIf<core::Completed>(), nullptr);
      EXPECT_EQ(of_thread[k].GetIf<core::Completed>()->receipt.result, result);
    }
  }
}

TEST_F(SqlitePipelineTest, ReleaseHandsTheClaimFromWaiterToWaiter) {
  std::vector<Answer<core::BeginOutcome>> answers;
  answers.push_back(Begin("e", "a0"));
  ASSERT_NE(answers[0].GetIf<core::Granted>(), nullptr);
  for (size_t i = 1; i <= 5; ++i) {
    answers.push_back(Begin("e", absl::StrCat("a", i), absl::Seconds(25)));
    ASSERT_TRUE(observer_.WaitForWaiters(i));
  }
  core::Fence last{0};
  for (size_t i = 0; i <= 5; ++i) {
    ASSERT_NE(answers[i].GetIf<core::Granted>(), nullptr) << i;
    const core::ClaimInfo claim = answers[i].GetIf<core::Granted>()->claim;
    EXPECT_GT(claim.fence, last);
    last = claim.fence;
    for (size_t later = i + 1; later <= 5; ++later) ASSERT_FALSE(answers[later].given());
    ASSERT_NE(Abandon(MakeAbandon("e", claim)).GetIf<core::Abandoned>(), nullptr);
  }
}

TEST_F(SqlitePipelineTest, OneBadCommandDoesNotFailItsNeighbours) {
  std::vector<Answer<core::BeginOutcome>> answers;
  for (int i = 0; i < 50; ++i) {
    BeginCall call = MakeBegin(absl::StrCat("e", i), "a");
    if (i == 25) call.request.consumer = std::string(100'000, 'x');
    Answer<core::BeginOutcome> answer;
    pipeline_->Begin(std::move(call), answer.Receiver());
    answers.push_back(answer);
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    if (i == 25) continue;
    EXPECT_NE(answers[i].GetIf<core::Granted>(), nullptr) << i;
  }
  EXPECT_FALSE(answers[25].Get().ok()) << "a consumer's name that no column holds";
}

}  // namespace
}  // namespace once::pipeline
