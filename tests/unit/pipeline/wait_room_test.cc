// The wait room by itself, with the test in the poller's place: races between reads, commits and
// arrivals, step by step.
#include "pipeline/wait_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/body_reader.h"
#include "pipeline/handler_names.h"
#include "unit/pipeline/harness.h"

namespace once::pipeline {
namespace {

class WaitRoomTest : public ::testing::Test {
 protected:
  using Keys = std::vector<core::OperationKey>;

  core::OperationRow HeldBy(const std::string& holder) {
    core::OperationRow row;
    row.digest = DigestOf("content of e");
    row.claim.attempt = AttemptOf(holder);
    row.claim.fence = {++fence_};
    row.claim.consumer = holder;
    row.claim.lease_expires = now_ + absl::Seconds(30);
    return row;
  }
  static core::OperationRow Released(core::OperationRow row) {
    row.state = core::RowState::kReleased;
    row.claim.lease_expires = {};
    return row;
  }
  static core::OperationRow Completed(core::OperationRow row) {
    row.state = core::RowState::kCompleted;
    row.receipt.emplace().result = "";
    return row;
  }

  WriteCall MakeCall(const std::string& attempt, const Answer<core::BeginOutcome>& answer) {
    EXPECT_TRUE(gauge_.Admit());
    BeginCall begin = MakeBegin("e", attempt);
    WriteCall call;
    call.key = {begin.info.tenant, begin.info.handler, begin.info.event_id};
    call.command = store::BeginCommand{key_, {}, begin.request, begin.delivery};
    call.reply = std::make_shared<Reply<core::BeginOutcome>>(answer.Receiver(), &gauge_);
    call.wait_until = timing_.Now() + absl::Seconds(20);
    return call;
  }
  Answer<core::BeginOutcome> Park(const std::string& attempt) {
    Answer<core::BeginOutcome> answer;
    core::InProgress state;
    state.lease_remaining = absl::Seconds(30);
    room_.Park(key_, MakeCall(attempt, answer), state);
    return answer;
  }

  // What is due at this very moment.
  Keys Due() {
    room_.Changed(Keys{sentinel_});  // parked in SetUp, so that WaitForDue returns
    Keys keys = room_.WaitForDue(absl::InfinitePast(), 100);
    room_.PutBack(Keys{sentinel_});
    std::erase(keys, sentinel_);
    return keys;
  }
  std::vector<WriteCall> Judge(const std::optional<core::OperationRow>& row) {
    const std::vector<std::optional<core::OperationRow>> rows = {row};
    return room_.Judge(Keys{key_}, rows, now_);
  }
  void NextTick() { timing_.Advance(options_.wait_poll_interval * 2); }

  void SetUp() override {
    EXPECT_TRUE(gauge_.Admit());
    ReadCall call;
    call.operation = sentinel_;
    call.reply = std::make_shared<Reply<core::LookupOutcome>>(
        Answer<core::LookupOutcome>().Receiver(), &gauge_);
    call.wait_until = absl::InfiniteFuture();
    core::InProgress state;
    state.lease_remaining = absl::Hours(10);
    room_.Park(sentinel_, std::move(call), state);
  }
  void TearDown() override { room_.Close(); }

  const core::OperationKey key_ = Harness::KeyOf("e");
  const core::OperationKey sentinel_ = Harness::KeyOf("sentinel");
  core::DbTime now_{1'000'000'000'000};
  int64_t fence_ = 100;
  Options options_;
  ManualTiming timing_;
  Observer observer_;
  StopSignal stop_{&timing_};
  HandlerNames names_{10};
  test::MemoryStore store_;
  Shared shared_{&options_, &store_, &timing_, &observer_, &stop_, &names_};
  CallGauge gauge_;
  BodyReader bodies_{shared_, 1};
  Timekeeper timekeeper_{&timing_};
  WaitRoom room_{&options_, &timing_, &observer_, &timekeeper_, &bodies_};
};

TEST_F(WaitRoomTest, ChangeDuringAReadLeadsToAnotherRead) {
  const core::OperationRow held = HeldBy("owner");
  const auto waiter = Park("b");
  room_.Changed(Keys{key_});
  ASSERT_EQ(Due(), Keys{key_});
  // The read saw the row as it was; now the completion is committed.
  room_.Changed(Keys{key_});
  EXPECT_TRUE(Judge(held).empty());
  EXPECT_FALSE(waiter.given());
  ASSERT_EQ(Due(), Keys{key_}) << "the wake-up was lost";
  Judge(Completed(held));
  EXPECT_NE(waiter.GetIf<core::Completed>(), nullptr);
}

TEST_F(WaitRoomTest, ChangeDuringAFailedReadLeadsToAnotherRead) {
  Park("b");
  room_.Changed(Keys{key_});
  ASSERT_EQ(Due(), Keys{key_});
  room_.Changed(Keys{key_});
  room_.PutBack(Keys{key_});
  EXPECT_EQ(Due(), Keys{key_});
  room_.PutBack(Keys{key_});
}

TEST_F(WaitRoomTest, NewcomerIsNotJudgedByAnOlderRow) {
  const core::OperationRow held = HeldBy("owner");
  const auto early = Park("early");
  room_.Changed(Keys{key_});
  ASSERT_EQ(Due(), Keys{key_});
  // Completed at the time of the read, then reset and begun again; only then the second one came.
  const auto late = Park("late");
  Judge(Completed(held));
  EXPECT_NE(early.GetIf<core::Completed>(), nullptr);
  EXPECT_FALSE(late.given());
  NextTick();
  ASSERT_EQ(Due(), Keys{key_});
  Judge(HeldBy("another"));
  EXPECT_FALSE(late.given());
}

TEST_F(WaitRoomTest, OneBeginAtATimeIsAtTheDoor) {
  const core::OperationRow released = Released(HeldBy("owner"));
  Park("first");
  Park("second");
  room_.Changed(Keys{key_});
  ASSERT_EQ(Due(), Keys{key_});
  std::vector<WriteCall> sent = Judge(released);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(std::get<store::BeginCommand>(sent[0].command).request.consumer, "first");
  NextTick();
  ASSERT_EQ(Due(), Keys{key_});
  EXPECT_TRUE(Judge(released).empty());
  // Its call ends, however it ended: now the next one may go.
  sent.clear();
  ASSERT_EQ(Due(), Keys{key_});
  sent = Judge(released);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(std::get<store::BeginCommand>(sent[0].command).request.consumer, "second");
}

TEST_F(WaitRoomTest, CallThatCameBackFromTheDoorKeepsItsTurn) {
  const core::OperationRow released = Released(HeldBy("owner"));
  const auto first = Park("first");
  Park("second");
  room_.Changed(Keys{key_});
  ASSERT_EQ(Due(), Keys{key_});
  std::vector<WriteCall> sent = Judge(released);
  ASSERT_EQ(sent.size(), 1u);
  room_.Park(key_, std::move(sent[0]), core::InProgress{});  // another server was faster
  EXPECT_FALSE(first.given());
  NextTick();
  ASSERT_EQ(Due(), Keys{key_});
  sent = Judge(Released(HeldBy("another")));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(std::get<store::BeginCommand>(sent[0].command).request.consumer, "first");
}

TEST_F(WaitRoomTest, ClosedRoomAnswersWhoeverComesBackFromTheDoor) {
  const auto waiter = Park("b");
  room_.Changed(Keys{key_});
  ASSERT_EQ(Due(), Keys{key_});
  std::vector<WriteCall> sent = Judge(std::nullopt);
  ASSERT_EQ(sent.size(), 1u);
  room_.Close();
  room_.TakeBack(std::move(sent[0]));
  EXPECT_NE(waiter.GetIf<core::InProgress>(), nullptr);
}

TEST_F(WaitRoomTest, TimeOfTheLookFollowsTheLease) {
  Park("b");
  room_.Changed(Keys{key_});
  ASSERT_EQ(Due(), Keys{key_});
  core::OperationRow row = HeldBy("owner");
  row.claim.lease_expires = now_ + absl::Milliseconds(7);
  Judge(row);
  EXPECT_TRUE(Due().empty());
  timing_.Advance(absl::Milliseconds(8));
  EXPECT_EQ(Due(), Keys{key_});
  room_.PutBack(Keys{key_});
}

}  // namespace
}  // namespace once::pipeline
