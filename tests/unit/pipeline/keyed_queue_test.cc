#include "pipeline/keyed_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pipeline/call.h"
#include "unit/pipeline/manual_timing.h"

namespace once::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct TestCall {
  using QueueKey = std::string;
  std::string key;
  std::string name;
  bool shares = true;
  size_t bytes = 1;
  Life life;
  const std::string& queue_key() const { return key; }
  bool shares_key() const { return shares; }
};

class KeyedQueueTest : public ::testing::Test {
 protected:
  using Queue = KeyedQueue<TestCall>;

  Queue::Pushed Push(TestCall call) { return queue_.Push(call); }
  void Begin(const std::string& key, const std::string& name) {
    EXPECT_EQ(Push({.key = key, .name = name, .life = {}}), Queue::Pushed::kTaken);
  }
  void Other(const std::string& key, const std::string& name) {
    EXPECT_EQ(Push({.key = key, .name = name, .shares = false, .life = {}}), Queue::Pushed::kTaken);
  }
  std::vector<std::string> Take(size_t calls = 100, size_t bytes = 100) {
    std::vector<TestCall> batch;
    queue_.Take({.calls = calls, .bytes = bytes}, timing_.Now(), &batch);
    return Names(batch);
  }
  static Life LifeUntil(absl::Time deadline) {
    Life life;
    life.deadline = deadline;
    return life;
  }
  static std::vector<std::string> Names(const std::vector<TestCall>& calls) {
    std::vector<std::string> names;
    for (const TestCall& call : calls) names.push_back(call.name);
    return names;
  }

  ManualTiming timing_;
  Queue queue_{{.calls = 10, .bytes = 50}, &timing_};
};

TEST_F(KeyedQueueTest, BeginsOfOneKeyShareABatch) {
  Begin("a", "a1");
  Begin("b", "b1");
  Begin("a", "a2");
  EXPECT_THAT(Take(), ElementsAre("a1", "a2", "b1"));
  EXPECT_THAT(Take(), IsEmpty());
}

TEST_F(KeyedQueueTest, OtherCommandsHaveTheirKeyAloneAndInOrder) {
  Begin("a", "begin1");
  Other("a", "complete1");
  Other("a", "complete2");
  Begin("a", "begin2");
  Begin("b", "b1");
  EXPECT_THAT(Take(), ElementsAre("begin1", "b1"));
  EXPECT_THAT(Take(), ElementsAre("complete1"));
  EXPECT_THAT(Take(), ElementsAre("complete2"));
  EXPECT_THAT(Take(), ElementsAre("begin2"));
}

TEST_F(KeyedQueueTest, HotKeyGoesBehindTheOthersWhenTheBatchIsFull) {
  for (int i = 0; i < 5; ++i) Begin("hot", "hot" + std::to_string(i));
  Begin("cold", "cold");
  EXPECT_THAT(Take(/*calls=*/3), ElementsAre("hot0", "hot1", "hot2"));
  EXPECT_THAT(Take(/*calls=*/3), ElementsAre("cold", "hot3", "hot4"));
}

TEST_F(KeyedQueueTest, BatchIsBoundByBytesButTakesOneCallOfAnySize) {
  EXPECT_EQ(Push({.key = "a", .name = "big", .bytes = 40, .life = {}}), Queue::Pushed::kTaken);
  EXPECT_EQ(Push({.key = "b", .name = "small", .bytes = 5, .life = {}}), Queue::Pushed::kTaken);
  EXPECT_THAT(Take(100, /*bytes=*/10), ElementsAre("big"));
  EXPECT_THAT(Take(100, /*bytes=*/10), ElementsAre("small"));
}

TEST_F(KeyedQueueTest, RefusesAtTheBoundOfCallsAndTakesAgainBelowIt) {
  for (int i = 0; i < 10; ++i) Begin("k" + std::to_string(i), "x");
  EXPECT_EQ(Push({.key = "k", .name = "x", .life = {}}), Queue::Pushed::kFull);
  Take(/*calls=*/1);
  EXPECT_EQ(Push({.key = "k", .name = "x", .life = {}}), Queue::Pushed::kTaken);
}

TEST_F(KeyedQueueTest, RefusesAtTheBoundOfBytes) {
  EXPECT_EQ(Push({.key = "a", .name = "a", .bytes = 50, .life = {}}), Queue::Pushed::kTaken);
  EXPECT_EQ(Push({.key = "b", .name = "b", .bytes = 1, .life = {}}), Queue::Pushed::kFull);
  Take();
  EXPECT_EQ(Push({.key = "b", .name = "b", .bytes = 51, .life = {}}), Queue::Pushed::kFull);
  EXPECT_EQ(Push({.key = "b", .name = "b", .bytes = 50, .life = {}}), Queue::Pushed::kTaken);
}

TEST_F(KeyedQueueTest, RemovesCallsWhoseCallerIsGoneAndKeepsTheOrderOfTheRest) {
  const absl::Time now = timing_.Now();
  Life cancellable;
  cancellable.cancellation = std::make_shared<Cancellation>();
  Begin("a", "a1");
  Push({.key = "a", .name = "late", .life = LifeUntil(now + absl::Seconds(1))});
  Push({.key = "a", .name = "cancelled", .life = cancellable});
  Begin("a", "a2");
  Push({.key = "b", .name = "alone", .life = LifeUntil(now + absl::Seconds(1))});
  EXPECT_EQ(queue_.NextDeadline(), now + absl::Seconds(1));
  cancellable.cancellation->cancelled = true;
  EXPECT_THAT(Names(queue_.RemoveOver(now + absl::Seconds(1))),
              ElementsAre("late", "cancelled", "alone"));
  EXPECT_EQ(queue_.NextDeadline(), absl::InfiniteFuture());
  EXPECT_EQ(queue_.size(), 2u);
  EXPECT_THAT(Take(), ElementsAre("a1", "a2"));
}

TEST_F(KeyedQueueTest, ClosedQueueGivesWhatIsInsideAndTakesNothing) {
  Begin("a", "a1");
  queue_.Close();
  EXPECT_EQ(Push({.key = "b", .name = "b", .life = {}}), Queue::Pushed::kClosed);
  std::vector<TestCall> batch;
  EXPECT_TRUE(queue_.Take({.calls = 1, .bytes = 1}, absl::InfiniteFuture(), &batch));
  EXPECT_THAT(Names(batch), ElementsAre("a1"));
  EXPECT_FALSE(queue_.Take({.calls = 1, .bytes = 1}, absl::InfiniteFuture(), &batch));
}

TEST_F(KeyedQueueTest, HeldKeysAreNotGivenOutAgainBeforeTheirRelease) {
  Begin("a", "a1");
  Begin("b", "b1");
  std::vector<TestCall> first;
  Queue::Held held;
  ASSERT_TRUE(queue_.Take({.calls = 1, .bytes = 100}, timing_.Now(), &first, &held));
  EXPECT_THAT(Names(first), ElementsAre("a1"));
  Begin("a", "a2");
  Begin("c", "c1");
  EXPECT_THAT(Take(), ElementsAre("b1", "c1"));
  EXPECT_FALSE(queue_.HasReady());
  EXPECT_EQ(queue_.size(), 1u);
  EXPECT_THAT(Take(), IsEmpty());
  Begin("a", "a3");
  queue_.Release(&held);
  EXPECT_TRUE(queue_.HasReady());
  EXPECT_THAT(Take(), ElementsAre("a2", "a3"));
}

TEST_F(KeyedQueueTest, CallsOnHeldKeysAreRemovedWhenTheirCallerIsGone) {
  Begin("a", "a1");
  std::vector<TestCall> batch;
  Queue::Held held;
  ASSERT_TRUE(queue_.Take({.calls = 1, .bytes = 100}, timing_.Now(), &batch, &held));
  const absl::Time end = timing_.Now() + absl::Seconds(1);
  Push({.key = "a", .name = "late", .life = LifeUntil(end)});
  EXPECT_EQ(queue_.NextDeadline(), end);
  EXPECT_THAT(Names(queue_.RemoveOver(end)), ElementsAre("late"));
  queue_.Release(&held);
  EXPECT_FALSE(queue_.HasReady());
  Begin("a", "a2");
  EXPECT_THAT(Take(), ElementsAre("a2"));
}

TEST_F(KeyedQueueTest, ClosedQueueGivesWhatGatheredOnHeldKeys) {
  Begin("a", "a1");
  std::vector<TestCall> batch;
  Queue::Held held;
  ASSERT_TRUE(queue_.Take({.calls = 1, .bytes = 100}, timing_.Now(), &batch, &held));
  Begin("a", "a2");
  queue_.Close();
  batch.clear();
  EXPECT_TRUE(queue_.Take({.calls = 1, .bytes = 1}, timing_.Now(), &batch)) << "not yet the end";
  EXPECT_THAT(batch, IsEmpty());
  queue_.Release(&held);
  EXPECT_TRUE(queue_.Take({.calls = 1, .bytes = 1}, absl::InfiniteFuture(), &batch));
  EXPECT_THAT(Names(batch), ElementsAre("a2"));
  EXPECT_FALSE(queue_.Take({.calls = 1, .bytes = 1}, absl::InfiniteFuture(), &batch));
}

}  // namespace
}  // namespace once::pipeline
