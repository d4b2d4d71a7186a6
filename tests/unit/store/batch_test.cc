// The claim algorithm over a store that can be looked into and made to fail.
#include "store/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/fingerprint.h"
#include "support/manual_clock.h"
#include "support/memory_store.h"

namespace once::store {
namespace {

using test::Fault;
using test::FaultPoint;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Passes everything on to a session and keeps what it was asked.
class SpySession final : public WriteSession {
 public:
  explicit SpySession(WriteSession* session) : session_(session) {}

  absl::StatusOr<std::vector<core::AggregateRow>> LockAggregates(
      absl::Span<const core::AggregateKey> keys) override {
    return session_->LockAggregates(keys);
  }
  absl::StatusOr<std::vector<std::optional<core::OperationRow>>> ReadAlso(
      absl::Span<const core::OperationKey> keys) override {
    return session_->ReadAlso(keys);
  }
  absl::StatusOr<RowSet> TouchAndRead(absl::Span<const NewOperation> inserts,
                                      absl::Span<const core::OperationKey> others) override {
    inserts_.assign(inserts.begin(), inserts.end());
    others_.assign(others.begin(), others.end());
    absl::StatusOr<RowSet> rows = session_->TouchAndRead(inserts, others);
    if (rows.ok() && spoil_) spoil_(*rows);
    return rows;
  }
  absl::Status Write(const WriteSet& writes) override {
    writes_ = writes;
    return session_->Write(writes);
  }
  absl::Status Commit() override { return session_->Commit(); }
  void Rollback() override {
    ++rollbacks_;
    session_->Rollback();
  }
  bool usable() const override { return session_->usable(); }

  std::function<void(RowSet&)> spoil_;
  std::vector<NewOperation> inserts_;
  std::vector<core::OperationKey> others_;
  WriteSet writes_;
  int rollbacks_ = 0;

 private:
  WriteSession* const session_;
};

class BatchTest : public ::testing::Test {
 protected:
  BatchTest()
      : store_({.clock = &clock_, .max_write_sessions = 2, .lock_timeout = absl::ZeroDuration()}),
        real_(*store_.OpenWriteSession()),
        session_(real_.get()) {}

  static core::OperationKey Key(std::string event_id) {
    return {.tenant = {1}, .handler = {1}, .event_id = std::move(event_id)};
  }
  static core::AttemptId Attempt(uint8_t number) {
    core::AttemptId attempt;
    attempt.bytes.fill(number);
    return attempt;
  }
  EntryId NextEntry() {
    EntryId entry{};
    entry[15] = ++entries_;
    return entry;
  }

  Command Begin(const core::OperationKey& key, uint8_t attempt,
                core::LapsePolicy on_lapse = core::LapsePolicy::kRetry) {
    core::BeginRequest request;
    request.attempt = Attempt(attempt);
    request.lease = absl::Seconds(30);
    request.consumer = "consumer";
    request.handler_version = "v1";
    request.on_lapse = on_lapse;
    return BeginCommand{.key = key, .entry = NextEntry(), .request = request, .delivery = {}};
  }
  Command Complete(const core::OperationKey& key, const core::ClaimInfo& claim,
                   std::string result = "result") {
    core::CompleteRequest request;
    request.attempt = claim.attempt;
    request.fence = claim.fence;
    request.fingerprint = core::FingerprintOf(request.status, "", result);
    request.result = std::move(result);
    return CompleteCommand{.key = key, .entry = NextEntry(), .request = request};
  }
  Command Abandon(const core::OperationKey& key, const core::ClaimInfo& claim, bool forget) {
    core::AbandonRequest request;
    request.attempt = claim.attempt;
    request.fence = claim.fence;
    request.forget = forget;
    return AbandonCommand{.key = key, .entry = NextEntry(), .request = request, .note = "why"};
  }
  Command Renew(const core::OperationKey& key, const core::ClaimInfo& claim,
                absl::Duration lease = absl::Minutes(1)) {
    core::RenewRequest request;
    request.attempt = claim.attempt;
    request.fence = claim.fence;
    request.lease = lease;
    return RenewCommand{.key = key, .entry = NextEntry(), .request = request};
  }

  std::vector<Answer> Run(const std::vector<Command>& commands) {
    auto answers = RunBatch(session_, commands, false);
    EXPECT_TRUE(answers.ok()) << answers.status();
    return answers.ok() ? *std::move(answers) : std::vector<Answer>();
  }
  core::ClaimInfo Claim(const core::OperationKey& key, uint8_t attempt = 1) {
    const auto answers = Run({Begin(key, attempt)});
    return std::get<core::Granted>(std::get<core::BeginOutcome>(answers.at(0))).claim;
  }

  void ExpectOneChange(RowChange::Kind kind, const core::OperationKey& key,
                       const core::ClaimInfo& claim, core::RowState state) {
    ASSERT_THAT(session_.writes_.changes, SizeIs(1));
    const RowChange& change = session_.writes_.changes[0];
    EXPECT_EQ(change.kind, kind);
    EXPECT_EQ(change.key, key);
    EXPECT_EQ(change.attempt_before, claim.attempt);
    EXPECT_EQ(change.fence_before, claim.fence);
    EXPECT_EQ(change.state_before, state);
  }

  test::ManualClock clock_;
  test::MemoryStore store_;
  const std::unique_ptr<WriteSession> real_;
  SpySession session_;
  uint8_t entries_ = 0;
};

// ---- what the store is asked ----

TEST_F(BatchTest, BeginsAreInsertedSortedAndOncePerKey) {
  (void)Run({Begin(Key("c"), 1), Begin(Key("a"), 2), Begin(Key("c"), 3), Begin(Key("b"), 4)});
  ASSERT_THAT(session_.inserts_, SizeIs(3));
  EXPECT_EQ(session_.inserts_[0].key, Key("a"));
  EXPECT_EQ(session_.inserts_[1].key, Key("b"));
  EXPECT_EQ(session_.inserts_[2].key, Key("c"));
  EXPECT_EQ(session_.inserts_[0].deliveries, 1);
  EXPECT_EQ(session_.inserts_[2].deliveries, 2);
  EXPECT_EQ(session_.inserts_[2].attempt, Attempt(1)) << "the first by arrival";
  EXPECT_THAT(session_.others_, IsEmpty());
}

TEST_F(BatchTest, OwnersCommandsInsertNothing) {
  const core::ClaimInfo claim;
  (void)Run({Renew(Key("b"), claim), Complete(Key("a"), claim), Abandon(Key("c"), claim, false)});
  EXPECT_THAT(session_.inserts_, IsEmpty());
  EXPECT_THAT(session_.others_, ElementsAre(Key("a"), Key("b"), Key("c")));
}

TEST_F(BatchTest, InsertCarriesTheRequest) {
  (void)Run({Begin(Key("a"), 7)});
  ASSERT_THAT(session_.inserts_, SizeIs(1));
  EXPECT_EQ(session_.inserts_[0].lease, absl::Seconds(30));
  EXPECT_EQ(session_.inserts_[0].consumer, "consumer");
  EXPECT_EQ(session_.inserts_[0].handler_version, "v1");
}

TEST_F(BatchTest, OnlyBeginsShareAKey) {
  const core::ClaimInfo claim = Claim(Key("a"));
  for (const std::vector<Command>& commands :
       {std::vector{Abandon(Key("a"), claim, true), Begin(Key("a"), 2)},
        std::vector{Begin(Key("a"), 2), Complete(Key("a"), claim)},
        std::vector{Renew(Key("a"), claim), Complete(Key("a"), claim)}}) {
    EXPECT_TRUE(absl::IsInternal(RunBatch(session_, commands, false).status()));
  }
  EXPECT_EQ(store_.Row(Key("a"))->claim, claim);
}

// ---- the narrowest change ----

TEST_F(BatchTest, FreshClaimsAndAnswersFromTheRowChangeNothing) {
  const core::ClaimInfo claim = Claim(Key("a"));
  EXPECT_THAT(session_.writes_.changes, IsEmpty()) << "the insert has written it";
  (void)Run({Begin(Key("a"), 1)});
  EXPECT_THAT(session_.writes_.changes, IsEmpty()) << "the same claim again";
  (void)Run({Begin(Key("a"), 2)});
  EXPECT_THAT(session_.writes_.changes, IsEmpty()) << "in progress";
  (void)Run({Renew(Key("a"), claim, absl::Seconds(1))});
  EXPECT_THAT(session_.writes_.changes, IsEmpty()) << "the lease is longer already";
}

TEST_F(BatchTest, TakeOverWritesTheClaim) {
  const core::ClaimInfo claim = Claim(Key("a"));
  clock_.Advance(absl::Minutes(1));
  (void)Run({Begin(Key("a"), 2)});
  ExpectOneChange(RowChange::Kind::kClaim, Key("a"), claim, core::RowState::kClaimed);
}

TEST_F(BatchTest, ClaimAfterReleaseWritesTheClaim) {
  const core::ClaimInfo claim = Claim(Key("a"));
  (void)Run({Abandon(Key("a"), claim, false)});
  ExpectOneChange(RowChange::Kind::kLease, Key("a"), claim, core::RowState::kClaimed);
  (void)Run({Begin(Key("a"), 2)});
  ExpectOneChange(RowChange::Kind::kClaim, Key("a"), claim, core::RowState::kReleased);
}

TEST_F(BatchTest, RenewalAndRepeatedBeginWriteTheLease) {
  const core::ClaimInfo claim = Claim(Key("a"));
  (void)Run({Renew(Key("a"), claim)});
  ExpectOneChange(RowChange::Kind::kLease, Key("a"), claim, core::RowState::kClaimed);
  clock_.Advance(absl::Minutes(2));
  (void)Run({Begin(Key("a"), 1)});
  ExpectOneChange(RowChange::Kind::kLease, Key("a"), claim, core::RowState::kClaimed);
}

TEST_F(BatchTest, CompletionWritesTheReceipt) {
  const core::ClaimInfo claim = Claim(Key("a"));
  (void)Run({Complete(Key("a"), claim)});
  ExpectOneChange(RowChange::Kind::kCompletion, Key("a"), claim, core::RowState::kClaimed);
}

TEST_F(BatchTest, ForgetDeletesTheRow) {
  const core::ClaimInfo claim = Claim(Key("a"));
  (void)Run({Abandon(Key("a"), claim, true)});
  ExpectOneChange(RowChange::Kind::kDelete, Key("a"), claim, core::RowState::kClaimed);
}

TEST_F(BatchTest, ChangesAreSortedByKey) {
  const core::ClaimInfo a = Claim(Key("a"));
  const core::ClaimInfo b = Claim(Key("b"));
  const core::ClaimInfo c = Claim(Key("c"));
  clock_.Advance(absl::Minutes(1));
  (void)Run({Renew(Key("c"), c), Begin(Key("b"), 9), Complete(Key("a"), a)});
  std::vector<core::OperationKey> keys;
  for (const RowChange& change : session_.writes_.changes) keys.push_back(change.key);
  EXPECT_THAT(keys, ElementsAre(Key("a"), Key("b"), Key("c")));
}

// ---- the log ----

TEST_F(BatchTest, LogIsSortedByKeyAndKeepsTheOrderWithinOne) {
  const Command first = Begin(Key("b"), 1);
  const Command second = Begin(Key("a"), 2);
  const Command third = Begin(Key("b"), 3);
  (void)Run({first, second, third});
  ASSERT_THAT(session_.writes_.attempts, SizeIs(3));
  EXPECT_EQ(session_.writes_.attempts[0].attempt, Attempt(2));
  EXPECT_EQ(session_.writes_.attempts[1].attempt, Attempt(1));
  EXPECT_EQ(session_.writes_.attempts[1].outcome, AttemptOutcome::kGranted);
  EXPECT_EQ(session_.writes_.attempts[2].attempt, Attempt(3));
  EXPECT_EQ(session_.writes_.attempts[2].outcome, AttemptOutcome::kInProgress);
}

TEST_F(BatchTest, LogKeepsTheCallersEntryIds) {
  const Command command = Begin(Key("a"), 1);
  (void)Run({command});
  EXPECT_EQ(session_.writes_.attempts.at(0).entry, std::get<BeginCommand>(command).entry);
}

// ---- failures ----

TEST_F(BatchTest, FailureAtAnyPointLeavesNothingAndKeepsItsStatus) {
  for (const FaultPoint point :
       {FaultPoint::kTouchAndRead, FaultPoint::kWrite, FaultPoint::kCommit}) {
    for (const auto& [fault, code] :
         {std::pair(Fault::kAborted, absl::StatusCode::kAborted),
          std::pair(Fault::kInvalidArgument, absl::StatusCode::kInvalidArgument),
          std::pair(Fault::kInternal, absl::StatusCode::kInternal)}) {
      store_.faults().Next(point, fault);
      EXPECT_EQ(RunBatch(session_, {Begin(Key("a"), 1)}, false).status().code(), code);
      EXPECT_FALSE(store_.Row(Key("a")).has_value());
      EXPECT_THAT(store_.Attempts(Key("a")), IsEmpty());
      EXPECT_EQ(store_.open_transactions(), 0);
      EXPECT_TRUE(session_.usable());
    }
  }
  EXPECT_EQ(session_.rollbacks_, 9);
  (void)Claim(Key("a"));
}

TEST_F(BatchTest, LostConnectionEndsTheSession) {
  store_.faults().Next(FaultPoint::kWrite, Fault::kUnavailable);
  EXPECT_TRUE(absl::IsUnavailable(RunBatch(session_, {Begin(Key("a"), 1)}, false).status()));
  EXPECT_FALSE(session_.usable());
  EXPECT_EQ(store_.open_transactions(), 0);
  EXPECT_FALSE(store_.Row(Key("a")).has_value());
}

TEST_F(BatchTest, StoreThatAnswersForOtherRowsIsCaught) {
  session_.spoil_ = [](RowSet& rows) { rows.inserts.pop_back(); };
  EXPECT_TRUE(absl::IsInternal(RunBatch(session_, {Begin(Key("a"), 1)}, false).status()));
  session_.spoil_ = [](RowSet& rows) { rows.inserts[0].reset(); };
  EXPECT_TRUE(absl::IsInternal(RunBatch(session_, {Begin(Key("a"), 1)}, false).status()));
  session_.spoil_ = [](RowSet& rows) { rows.others.emplace_back(); };
  EXPECT_TRUE(absl::IsInternal(RunBatch(session_, {Begin(Key("a"), 1)}, false).status()));
  EXPECT_EQ(store_.open_transactions(), 0);
  EXPECT_FALSE(store_.Row(Key("a")).has_value());
}

TEST_F(BatchTest, RowThatChangedBetweenReadAndWriteAborts) {
  const core::ClaimInfo claim = Claim(Key("a"));
  session_.spoil_ = [&](RowSet&) {
    core::OperationRow row = *store_.Row(Key("a"));
    row.claim.attempt = Attempt(9);  // another server's work
    ++row.claim.fence.value;
    store_.PutRow(Key("a"), row);
  };
  EXPECT_TRUE(absl::IsAborted(RunBatch(session_, {Complete(Key("a"), claim)}, false).status()));
  session_.spoil_ = nullptr;
  const auto answers = Run({Complete(Key("a"), claim)});
  EXPECT_TRUE(
      std::holds_alternative<core::ClaimLost>(std::get<core::CompleteOutcome>(answers.at(0))));
}

// ---- unknown commits: the same batch again tells the truth, whatever had happened (C8) ----

class UnknownCommitTest : public BatchTest, public ::testing::WithParamInterface<Fault> {
 protected:
  // Runs the batch into the fault, then again on another session; the answers of the second run.
  std::vector<Answer> RunThroughFault(const std::vector<Command>& commands) {
    store_.faults().Next(FaultPoint::kCommit, GetParam());
    auto first = *store_.OpenWriteSession();
    EXPECT_TRUE(absl::IsUnknown(RunBatch(*first, commands, false).status()));
    EXPECT_FALSE(first->usable());
    auto second = *store_.OpenWriteSession();
    auto answers = RunBatch(*second, commands, true);
    // The change of a row that the dying transaction held meets it as that one left it.
    if (absl::IsAborted(answers.status())) answers = RunBatch(*second, commands, true);
    EXPECT_TRUE(answers.ok()) << answers.status();
    return answers.ok() ? *std::move(answers) : std::vector<Answer>();
  }
};
INSTANTIATE_TEST_SUITE_P(, UnknownCommitTest,
                         ::testing::Values(Fault::kUnknownDone, Fault::kUnknownLost,
                                           Fault::kUnknownPending),
                         [](const auto& parameter) -> std::string {
                           if (parameter.param == Fault::kUnknownDone) return "done";
                           return parameter.param == Fault::kUnknownLost ? "lost" : "pending";
                         });

TEST_P(UnknownCommitTest, BeginIsGrantedOnce) {
  const auto answers = RunThroughFault({Begin(Key("a"), 1), Begin(Key("b"), 2)});
  const auto granted = std::get<core::Granted>(std::get<core::BeginOutcome>(answers.at(0)));
  EXPECT_EQ(granted.attempt_number, 1);
  EXPECT_EQ(store_.Row(Key("a"))->claim, granted.claim);
  EXPECT_THAT(store_.Attempts(Key("a")), SizeIs(1));
  EXPECT_EQ(store_.Attempts(Key("a"))[0].entry.outcome, AttemptOutcome::kGranted);
}

TEST_P(UnknownCommitTest, TakeOverIsGrantedOnceAndToldOfTheEarlierAttempt) {
  const core::ClaimInfo first = Claim(Key("a"));
  clock_.Advance(absl::Minutes(1));
  const auto answers = RunThroughFault({Begin(Key("a"), 2)});
  const auto granted = std::get<core::Granted>(std::get<core::BeginOutcome>(answers.at(0)));
  EXPECT_EQ(granted.attempt_number, 2);
  EXPECT_EQ(granted.earlier_attempt, first);
  EXPECT_EQ(store_.Row(Key("a"))->unknown_attempts, 1);
}

TEST_P(UnknownCommitTest, CompleteStoresOneReceipt) {
  const core::ClaimInfo claim = Claim(Key("a"));
  const std::string result(2000, 'x');
  const auto answers = RunThroughFault({Complete(Key("a"), claim, result)});
  const auto completed = std::get<core::Completed>(std::get<core::CompleteOutcome>(answers.at(0)));
  EXPECT_EQ(completed.receipt.result, result);
  EXPECT_EQ(store_.Row(Key("a"))->receipt, completed.receipt);
  EXPECT_THAT(store_.Attempts(Key("a")), SizeIs(2));
}

TEST_P(UnknownCommitTest, ReleaseForgetAndRenewAreDone) {
  const core::ClaimInfo a = Claim(Key("a"));
  const core::ClaimInfo b = Claim(Key("b"));
  const core::ClaimInfo c = Claim(Key("c"));
  const auto answers = RunThroughFault(
      {Abandon(Key("a"), a, false), Abandon(Key("b"), b, true), Renew(Key("c"), c)});
  EXPECT_FALSE(std::get<core::Abandoned>(std::get<core::AbandonOutcome>(answers.at(0))).forgotten);
  EXPECT_TRUE(std::get<core::Abandoned>(std::get<core::AbandonOutcome>(answers.at(1))).forgotten);
  EXPECT_TRUE(std::holds_alternative<core::Renewed>(std::get<core::RenewOutcome>(answers.at(2))));
  EXPECT_EQ(store_.Row(Key("a"))->state, core::RowState::kReleased);
  EXPECT_FALSE(store_.Row(Key("b")).has_value());
  EXPECT_GT(store_.Row(Key("c"))->claim.lease_expires, c.lease_expires);
}

TEST_P(UnknownCommitTest, AnotherAttemptThatCameFirstIsNotHidden) {
  store_.faults().Next(FaultPoint::kCommit, GetParam());
  auto first = *store_.OpenWriteSession();
  const std::vector<Command> commands = {Begin(Key("a"), 1)};
  EXPECT_TRUE(absl::IsUnknown(RunBatch(*first, commands, false).status()));

  const auto other = std::get<core::BeginOutcome>(Run({Begin(Key("a"), 2)}).at(0));
  auto second = *store_.OpenWriteSession();
  const auto again = RunBatch(*second, commands, true);
  ASSERT_TRUE(again.ok());
  const auto& told = std::get<core::BeginOutcome>(again->at(0));

  EXPECT_NE(std::holds_alternative<core::Granted>(other),
            std::holds_alternative<core::Granted>(told))
      << "exactly one of the two";
}

TEST_F(BatchTest, PlainReadMissesATransactionThatIsStillDying) {
  // Why an unknown commit is resolved by the same batch and never by a read.
  store_.faults().Next(FaultPoint::kCommit, Fault::kUnknownPending);
  EXPECT_TRUE(absl::IsUnknown(RunBatch(session_, {Begin(Key("a"), 1)}, false).status()));
  auto reader = *store_.OpenReadSession();
  const core::OperationKey key = Key("a");
  EXPECT_FALSE(reader->Read({&key, 1})->others[0].has_value());
  auto second = *store_.OpenWriteSession();
  auto answers = RunBatch(*second, {Begin(Key("a"), 2)}, false);
  ASSERT_TRUE(answers.ok());
  EXPECT_TRUE(
      std::holds_alternative<core::InProgress>(std::get<core::BeginOutcome>(answers->at(0))));
  EXPECT_TRUE(reader->Read({&key, 1})->others[0].has_value());
}

}  // namespace
}  // namespace once::store
