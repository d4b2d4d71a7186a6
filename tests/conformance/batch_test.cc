// Many commands in one transaction, and what is left of transactions that end otherwise.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "conformance/harness.h"

namespace once::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::IsEmpty;

class BatchTest : public OperationTest {
 protected:
  std::vector<core::OperationKey> Keys(int count, absl::string_view prefix = "order") const {
    std::vector<core::OperationKey> keys;
    for (int i = 0; i < count; ++i) {
      keys.push_back(Key(absl::StrFormat("%s-%04d", prefix, i)));
    }
    return keys;
  }

  // Claims all of them in one batch.
  std::vector<core::ClaimInfo> ClaimAll(const std::vector<core::OperationKey>& keys) {
    std::vector<store::Command> commands;
    for (const core::OperationKey& key : keys) {
      commands.push_back(BeginCommand(key, BeginOf(NewAttempt())));
    }
    std::vector<core::ClaimInfo> claims;
    for (const store::Answer& answer : Run(commands)) {
      claims.push_back(Get<core::Granted>(std::get<core::BeginOutcome>(answer)).claim);
    }
    EXPECT_EQ(claims.size(), keys.size());
    claims.resize(keys.size());
    return claims;
  }

  template <typename T, typename Outcome>
  void ExpectAll(const std::vector<store::Answer>& answers, size_t count) {
    EXPECT_EQ(answers.size(), count);
    for (const store::Answer& answer : answers) {
      (void)Get<T>(std::get<Outcome>(answer));
    }
  }
};
ONCE_OPERATION_SUITE(BatchTest);

core::BeginOutcome BeginAnswer(const std::vector<store::Answer>& answers, size_t index) {
  return std::get<core::BeginOutcome>(answers.at(index));
}

TEST_P(BatchTest, EmptyBatchHasNoAnswers) { EXPECT_THAT(Run({}), IsEmpty()); }

TEST_P(BatchTest, EachItemHasItsOwnAnswer) {
  const core::ClaimInfo claim = Claim(Key("done"));
  (void)Complete(Key("done"), CompleteOf(claim, "first result"));
  const core::BeginRequest twice = BeginOf(NewAttempt());

  const auto answers = Run({
      BeginCommand(Key("new 1"), BeginOf(NewAttempt())),
      BeginCommand(Key("done"), BeginOf(NewAttempt())),
      BeginCommand(Key("new 2"), BeginOf(NewAttempt())),
      BeginCommand(Key("twice"), twice),
      BeginCommand(Key("twice"), twice),
      BeginCommand(Key("twice"), BeginOf(NewAttempt())),
      BeginCommand(Key("twice"), BeginOf(NewAttempt(), "other")),
  });

  ASSERT_EQ(answers.size(), 7);
  (void)Get<core::Granted>(BeginAnswer(answers, 0));
  EXPECT_EQ(Get<core::Completed>(BeginAnswer(answers, 1)).receipt.result, "first result");
  (void)Get<core::Granted>(BeginAnswer(answers, 2));
  const auto granted = Get<core::Granted>(BeginAnswer(answers, 3));
  EXPECT_EQ(Get<core::Granted>(BeginAnswer(answers, 4)).claim, granted.claim);
  EXPECT_EQ(Get<core::InProgress>(BeginAnswer(answers, 5)).consumer, twice.consumer);
  (void)Get<core::Conflict>(BeginAnswer(answers, 6));
  EXPECT_EQ(Row(Key("twice"))->deliveries, told_unknown() ? 8 : 4);
  EXPECT_THAT(LoggedOutcomes(Key("twice")),
              ElementsAre(store::AttemptOutcome::kGranted, store::AttemptOutcome::kRegranted,
                          store::AttemptOutcome::kInProgress, store::AttemptOutcome::kConflict));
}

TEST_P(BatchTest, AnswersAreInTheOrderOfTheCommands) {
  std::vector<core::OperationKey> keys = Keys(50);
  std::reverse(keys.begin(), keys.end());
  std::vector<store::Command> commands;
  std::vector<core::AttemptId> attempts;
  for (const core::OperationKey& key : keys) {
    attempts.push_back(NewAttempt());
    commands.push_back(BeginCommand(key, BeginOf(attempts.back())));
  }
  const auto answers = Run(commands);
  ASSERT_EQ(answers.size(), keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(Get<core::Granted>(BeginAnswer(answers, i)).claim.attempt, attempts[i]);
    EXPECT_EQ(Row(keys[i])->claim.attempt, attempts[i]);
  }
}

TEST_P(BatchTest, OneEventOfSeveralHandlersAndTenantsKeepsItsResultsApart) {
  std::vector<core::OperationKey> keys = Keys(3);
  const core::TenantId other_tenant = NewTenant();
  for (const auto& [tenant, handler] : {std::pair(keys[0].tenant, NewHandler(keys[0].tenant)),
                                        std::pair(other_tenant, NewHandler(other_tenant))}) {
    for (int i = 0; i < 3; ++i) keys.push_back({tenant, handler, keys[i].event_id});
  }
  const std::vector<core::ClaimInfo> claims = ClaimAll(keys);
  std::vector<store::Command> completes;
  for (size_t i = 0; i < keys.size(); ++i) {
    completes.push_back(
        CompleteCommand(keys[i], CompleteOf(claims[i], absl::StrCat("result ", i))));
  }
  ExpectAll<core::Completed, core::CompleteOutcome>(Run(completes), keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(ReceiptOf(keys[i]).result, absl::StrCat("result ", i));
    EXPECT_EQ(Row(keys[i])->claim.attempt, claims[i].attempt);
  }
}

TEST_P(BatchTest, AllKindsOfCommandsMix) {
  const auto keys = Keys(6);
  const auto claims = ClaimAll({keys.begin(), keys.begin() + 5});
  Lapse(keys[4]);

  const auto answers = Run({
      CompleteCommand(keys[0], CompleteOf(claims[0], std::string(3000, 'x'))),
      AbandonCommand(keys[1], ForgetOf(claims[1])),
      AbandonCommand(keys[2], ReleaseOf(claims[2])),
      RenewCommand(keys[3], RenewOf(claims[3], absl::Hours(1))),
      BeginCommand(keys[4], BeginOf(NewAttempt())),
      BeginCommand(keys[5], BeginOf(NewAttempt())),
      RenewCommand(Key("never-begun"), RenewOf(claims[3], absl::Hours(1))),
  });

  ASSERT_EQ(answers.size(), 7);
  (void)Get<core::Completed>(std::get<core::CompleteOutcome>(answers[0]));
  EXPECT_TRUE(Get<core::Abandoned>(std::get<core::AbandonOutcome>(answers[1])).forgotten);
  EXPECT_FALSE(Get<core::Abandoned>(std::get<core::AbandonOutcome>(answers[2])).forgotten);
  (void)Get<core::Renewed>(std::get<core::RenewOutcome>(answers[3]));
  EXPECT_THAT(Get<core::Granted>(BeginAnswer(answers, 4)).claim.fence, Gt(claims[4].fence));
  (void)Get<core::Granted>(BeginAnswer(answers, 5));
  (void)Get<core::NotFound>(std::get<core::RenewOutcome>(answers[6]));
  EXPECT_EQ(ReceiptOf(keys[0]).result, std::string(3000, 'x'));
  EXPECT_FALSE(Row(keys[1]).has_value());
  EXPECT_EQ(Row(keys[2])->state, core::RowState::kReleased);
  EXPECT_FALSE(Row(Key("never-begun")).has_value());
}

TEST_P(BatchTest, SeveralTenantsAndHandlersShareABatch) {
  std::vector<core::OperationKey> keys;
  for (int i = 0; i < 3; ++i) {
    const core::TenantId tenant = NewTenant();
    for (int j = 0; j < 3; ++j) {
      const core::HandlerId handler = NewHandler(tenant);
      keys.push_back({.tenant = tenant, .handler = handler, .event_id = "same"});
      keys.push_back({.tenant = tenant, .handler = handler, .event_id = "other"});
    }
  }
  const auto claims = ClaimAll(keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(Row(keys[i])->claim, claims[i]);
  }
  std::vector<store::Command> commands;
  for (size_t i = 0; i < keys.size(); ++i) {
    commands.push_back(CompleteCommand(keys[i], CompleteOf(claims[i], absl::StrCat("of ", i))));
  }
  ExpectAll<core::Completed, core::CompleteOutcome>(Run(commands), keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(ReceiptOf(keys[i]).result, absl::StrCat("of ", i));
  }
}

TEST_P(BatchTest, ThousandOperationsGoThroughTheirLife) {
  const auto keys = Keys(1000);
  const auto claims = ClaimAll(keys);

  std::vector<store::Command> again;
  std::vector<store::Command> renewals;
  std::vector<store::Command> completions;
  std::vector<store::Command> replays;
  for (size_t i = 0; i < keys.size(); ++i) {
    again.push_back(BeginCommand(keys[i], BeginOf(NewAttempt())));
    renewals.push_back(RenewCommand(keys[i], RenewOf(claims[i], absl::Hours(1))));
    completions.push_back(CompleteCommand(keys[i], CompleteOf(claims[i], RandomBytes(i, i))));
    replays.push_back(BeginCommand(keys[i], BeginOf(NewAttempt())));
  }
  ExpectAll<core::InProgress, core::BeginOutcome>(Run(again), keys.size());
  ExpectAll<core::Renewed, core::RenewOutcome>(Run(renewals), keys.size());
  ExpectAll<core::Completed, core::CompleteOutcome>(Run(completions), keys.size());
  ExpectAll<core::Completed, core::BeginOutcome>(Run(replays), keys.size());
  for (const size_t i : {size_t{0}, size_t{511}, size_t{512}, size_t{513}, size_t{999}}) {
    EXPECT_TRUE(ReceiptOf(keys[i]).result == RandomBytes(i, i));
  }
}

TEST_P(BatchTest, ManyReleasedOperationsAreClaimedForgottenAndClaimedAgain) {
  const auto keys = Keys(200);
  const auto first = ClaimAll(keys);
  std::vector<store::Command> commands;
  for (size_t i = 0; i < keys.size(); ++i) {
    commands.push_back(AbandonCommand(keys[i], ReleaseOf(first[i])));
  }
  ExpectAll<core::Abandoned, core::AbandonOutcome>(Run(commands), keys.size());

  const auto second = ClaimAll(keys);
  commands.clear();
  for (size_t i = 0; i < keys.size(); ++i) {
    commands.push_back(AbandonCommand(keys[i], ForgetOf(second[i])));
  }
  ExpectAll<core::Abandoned, core::AbandonOutcome>(Run(commands), keys.size());
  EXPECT_FALSE(Row(keys[0]).has_value());

  const auto third = ClaimAll(keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_THAT(second[i].fence, Gt(first[i].fence));
    EXPECT_THAT(third[i].fence, Gt(second[i].fence));
  }
}

TEST_P(BatchTest, LargeBodiesOfOneBatchAreAllStored) {
  const auto keys = Keys(8);
  const auto claims = ClaimAll(keys);
  std::vector<store::Command> commands;
  for (size_t i = 0; i < keys.size(); ++i) {
    commands.push_back(
        CompleteCommand(keys[i], CompleteOf(claims[i], RandomBytes(size_t{1} << 20, i))));
  }
  ExpectAll<core::Completed, core::CompleteOutcome>(Run(commands), keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(BodyOf(keys[i]) == RandomBytes(size_t{1} << 20, i));
  }
}

// ---- repeats after UNKNOWN ----

TEST_P(BatchTest, BatchThatWasNotCommittedIsRunAsIfNew) {
  // Told UNKNOWN, but it had not happened.
  const core::OperationKey key = Key("order-1");
  auto answers =
      store::RunBatch(session(), {BeginCommand(key, BeginOf(NewAttempt()))}, /*repeated=*/true);
  ASSERT_TRUE(answers.ok()) << answers.status();
  const auto granted = Get<core::Granted>(BeginAnswer(*answers, 0));
  EXPECT_EQ(Row(key)->claim, granted.claim);
  EXPECT_EQ(LoggedOutcomes(key), std::vector{store::AttemptOutcome::kGranted});

  answers = store::RunBatch(session(), {CompleteCommand(key, CompleteOf(granted.claim))},
                            /*repeated=*/true);
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_FALSE(Get<core::Completed>(std::get<core::CompleteOutcome>(answers->at(0))).replayed);
}

TEST_P(BatchTest, RepeatedBatchLeavesItsFirstLogRows) {
  const core::OperationKey key = Key("order-1");
  const std::vector<store::Command> commands = {BeginCommand(key, BeginOf(NewAttempt()))};
  for (const bool repeated : {false, true, true}) {
    ASSERT_TRUE(store::RunBatch(session(), commands, repeated).ok());
  }
  EXPECT_EQ(LoggedOutcomes(key), std::vector{store::AttemptOutcome::kGranted});
}

// ---- transactions that end otherwise ----

class SessionTest : public BatchTest {
 protected:
  static store::NewOperation InsertOf(const core::OperationKey& key, core::AttemptId attempt) {
    return {.key = key,
            .digest = DigestOf("content"),
            .attempt = attempt,
            .lease = absl::Minutes(1),
            .consumer = "consumer",
            .handler_version = "v1",
            .deliveries = 1};
  }

  static store::AttemptEntry EntryOf(const core::OperationKey& key, core::AttemptId attempt) {
    store::AttemptEntry entry;
    entry.key = key;
    entry.entry = NextEntry();
    entry.attempt = attempt;
    return entry;
  }

  // A change that gives the claim a new lease, guarded by `claim`.
  static store::RowChange LeaseChange(const core::OperationKey& key, core::OperationRow row,
                                      const core::ClaimInfo& claim) {
    store::RowChange change;
    change.kind = store::RowChange::Kind::kLease;
    change.key = key;
    change.state_before = row.state;
    change.attempt_before = claim.attempt;
    change.fence_before = claim.fence;
    change.after = std::move(row);
    change.after.claim.lease_expires = change.after.claim.lease_expires + absl::Hours(1);
    return change;
  }
};
INSTANTIATE_TEST_SUITE_P(, SessionTest, ::testing::Values(false),
                         [](const auto&) { return "plain"; });

TEST_P(SessionTest, ReadsRowsInTheOrderAskedFor) {
  (void)Claim(Key("b"));
  (void)Claim(Key("d"));
  const std::vector<core::OperationKey> others = {Key("a"), Key("b"), Key("c"), Key("d")};
  const std::vector<store::NewOperation> inserts = {InsertOf(Key("e"), NewAttempt()),
                                                    InsertOf(Key("f"), NewAttempt())};
  auto rows = session().TouchAndRead(inserts, others);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->inserts.size(), 2);
  ASSERT_EQ(rows->others.size(), 4);
  EXPECT_EQ(rows->inserts[0]->claim.attempt, inserts[0].attempt);
  EXPECT_EQ(rows->inserts[1]->claim.attempt, inserts[1].attempt);
  EXPECT_FALSE(rows->others[0].has_value());
  EXPECT_TRUE(rows->others[1].has_value());
  EXPECT_FALSE(rows->others[2].has_value());
  EXPECT_TRUE(rows->others[3].has_value());
  session().Rollback();
}

TEST_P(SessionTest, ReadsItsOwnInsertWithTheDatabasesTimes) {
  const store::NewOperation insert = InsertOf(Key("a"), NewAttempt());
  auto rows = session().TouchAndRead({&insert, 1}, {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  const core::OperationRow& row = *rows->inserts[0];
  EXPECT_EQ(row.digest, insert.digest);
  EXPECT_EQ(row.claim.consumer, "consumer");
  EXPECT_EQ(row.claim.lease_expires, row.claim.begun + insert.lease);
  EXPECT_LE(row.claim.begun, rows->now);
  EXPECT_GT(row.claim.begun + absl::Minutes(1), rows->now);
  EXPECT_EQ(row.deliveries, 1);
  session().Rollback();
}

TEST_P(SessionTest, RollbackLeavesNothing) {
  const store::NewOperation insert = InsertOf(Key("a"), NewAttempt());
  ASSERT_TRUE(session().TouchAndRead({&insert, 1}, {}).ok());
  store::WriteSet writes;
  writes.attempts.push_back(EntryOf(insert.key, insert.attempt));
  ASSERT_TRUE(session().Write(writes).ok());

  session().Rollback();
  session().Rollback();  // nothing is open any more

  EXPECT_TRUE(session().usable());
  EXPECT_FALSE(Row(insert.key).has_value());
  EXPECT_THAT(Attempts(insert.key), IsEmpty());
  (void)Claim(insert.key);
}

TEST_P(SessionTest, SessionThatGoesAwayLeavesNothing) {
  const store::NewOperation insert = InsertOf(Key("a"), NewAttempt());
  {
    auto other = store().OpenWriteSession();
    ASSERT_TRUE(other.ok());
    ASSERT_TRUE((*other)->TouchAndRead({&insert, 1}, {}).ok());
  }
  EXPECT_FALSE(Row(insert.key).has_value());
  (void)Claim(insert.key);
}

TEST_P(SessionTest, ChangeOfARowThatIsNotAsReadIsAborted) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  const auto before = Row(key);
  core::ClaimInfo other_attempt = claim;
  other_attempt.attempt = NewAttempt();
  core::ClaimInfo other_fence = claim;
  ++other_fence.fence.value;

  for (const core::ClaimInfo& wrong : {other_attempt, other_fence}) {
    ASSERT_TRUE(session().TouchAndRead({}, {&key, 1}).ok());
    store::WriteSet writes;
    writes.changes.push_back(LeaseChange(key, *before, wrong));
    writes.attempts.push_back(EntryOf(key, claim.attempt));
    EXPECT_TRUE(absl::IsAborted(session().Write(writes)));
    session().Rollback();
    EXPECT_TRUE(session().usable());
    EXPECT_EQ(Row(key), before);
    EXPECT_EQ(Attempts(key).size(), 1);
  }
}

TEST_P(SessionTest, OneFailedGuardUndoesTheWholeBatch) {
  const auto keys = Keys(3);
  const auto claims = ClaimAll(keys);
  const auto before = Rows(keys);
  for (size_t wrong = 0; wrong < keys.size(); ++wrong) {
    ASSERT_TRUE(session().TouchAndRead({}, keys).ok());
    store::WriteSet writes;
    for (size_t i = 0; i < keys.size(); ++i) {
      writes.changes.push_back(LeaseChange(keys[i], *before[i], claims[i]));
      if (i == wrong) writes.changes.back().state_before = core::RowState::kReleased;
    }
    EXPECT_TRUE(absl::IsAborted(session().Write(writes)));
    session().Rollback();
    EXPECT_EQ(Rows(keys), before);
  }
}

TEST_P(SessionTest, ChangesThatChangeNothingAreNoFailedGuard) {
  // MySQL counts changed rows, not matched ones, unless told otherwise.
  const auto keys = Keys(2);
  const auto claims = ClaimAll(keys);
  const auto before = Rows(keys);
  for (const size_t count : {size_t{1}, size_t{2}}) {
    ASSERT_TRUE(session().TouchAndRead({}, keys).ok());
    store::WriteSet writes;
    for (size_t i = 0; i < count; ++i) {
      writes.changes.push_back(LeaseChange(keys[i], *before[i], claims[i]));
      writes.changes.back().after = *before[i];
    }
    EXPECT_TRUE(session().Write(writes).ok());
    EXPECT_TRUE(session().Commit().ok());
  }
  EXPECT_EQ(Rows(keys), before);
}

TEST_P(SessionTest, BodyOfADeletedRowIsNeverServedAgain) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  (void)Complete(key, CompleteOf(claim, std::string(2000, 'x')));
  ASSERT_TRUE(session().TouchAndRead({}, {&key, 1}).ok());
  store::WriteSet writes;
  store::RowChange change;
  change.kind = store::RowChange::Kind::kDelete;
  change.key = key;
  change.state_before = core::RowState::kCompleted;
  change.attempt_before = claim.attempt;
  change.fence_before = claim.fence;
  writes.changes.push_back(change);
  ASSERT_TRUE(session().Write(writes).ok());
  ASSERT_TRUE(session().Commit().ok());

  EXPECT_FALSE(Row(key).has_value());
  const core::ClaimInfo second = Claim(key);
  EXPECT_THAT(second.fence, Gt(claim.fence));
  (void)Get<core::Completed>(Complete(key, CompleteOf(second, std::string(3000, 'y'))));
  EXPECT_EQ(ReceiptOf(key).result, std::string(3000, 'y'));
}

TEST_P(SessionTest, SessionsMayBeOpenedWhileOthersWork) {
  const store::NewOperation insert = InsertOf(Key("a"), NewAttempt());
  ASSERT_TRUE(session().TouchAndRead({&insert, 1}, {}).ok());
  EXPECT_TRUE(store().OpenWriteSession().ok());
  EXPECT_TRUE(store().OpenReadSession().ok());
  EXPECT_TRUE(store().OpenControlSession().ok());
  EXPECT_FALSE(Row(insert.key).has_value()) << "not committed yet";
  session().Rollback();
}

}  // namespace
}  // namespace once::conformance
