// What operators decide, and what they are shown.
#include <vector>

#include "absl/strings/str_cat.h"
#include "conformance/harness.h"

namespace once::conformance {
namespace {

using store::AttemptKind;
using store::AttemptOutcome;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class ResolveTest : public OperationTest {
 protected:
  core::ClaimInfo LapsedClaim(absl::string_view event) {
    const core::ClaimInfo claim = Claim(Key(event));
    Lapse(Key(event));
    return claim;
  }

  core::ResolveOutcome Resolve(const core::OperationKey& key, const core::ClaimInfo& claim,
                               core::Verdict verdict, std::string result = "found") {
    store::ResolveCommand command{
        .key = key,
        .entry = NextEntry(),
        .request = {.attempt = claim.attempt,
                    .fence = claim.fence,
                    .verdict = verdict,
                    .result = {},
                    .content_type = {}},
        .handler = "points.grant",
        .author = {.credential_id = "0123456789abcdef", .reason = "asked the bank"}};
    if (verdict != core::Verdict::kNotDone) {
      command.request.fingerprint =
          core::FingerprintOf(verdict == core::Verdict::kDone ? core::ReceiptStatus::kSucceeded
                                                              : core::ReceiptStatus::kRejected,
                              "", result);
      command.request.result = std::move(result);
    }
    return std::get<core::ResolveOutcome>(Run({command}).at(0));
  }

  core::ResetOutcome Reset(const core::OperationKey& key, core::Fence fence) {
    return std::get<core::ResetOutcome>(
        Run({store::ResetCommand{
                .key = key,
                .entry = NextEntry(),
                .request = {.fence = fence},
                .handler = "points.grant",
                .author = {.credential_id = "0123456789abcdef", .reason = "paid by hand"}}})
            .at(0));
  }

  std::vector<store::AuditRow> Audit(core::TenantId tenant) {
    auto session = store().OpenControlSession();
    EXPECT_TRUE(session.ok()) << session.status();
    auto rows = (*session)->ListAudit(tenant, std::numeric_limits<int64_t>::max(), 100);
    EXPECT_TRUE(rows.ok()) << rows.status();
    std::vector<store::AuditRow> resolved;
    for (store::AuditRow& row : *rows) {
      if (row.action == store::AuditAction::kResolve) resolved.push_back(std::move(row));
    }
    return resolved;
  }
};
ONCE_OPERATION_SUITE(ResolveTest);

TEST_P(ResolveTest, DoneIsTheReceiptForEverybody) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = LapsedClaim("order-1");

  Get<core::Completed>(Resolve(key, claim, core::Verdict::kDone));

  const auto duplicate = Get<core::Completed>(Begin(key, BeginOf(NewAttempt())));
  EXPECT_EQ(duplicate.receipt.result, "found");
  EXPECT_EQ(duplicate.receipt.status, core::ReceiptStatus::kSucceeded);
  Get<core::CompletionConflict>(Complete(key, CompleteOf(claim, "the late one's")));
  EXPECT_THAT(LoggedOutcomes(key), Contains(AttemptOutcome::kFoundDone));
}

TEST_P(ResolveTest, LargeResultsAreKept) {
  const core::OperationKey key = Key("order-1");
  const std::string large(5000, 'r');
  Resolve(key, LapsedClaim("order-1"), core::Verdict::kRefused, large);
  EXPECT_EQ(ReceiptOf(key).result, large);
  EXPECT_EQ(ReceiptOf(key).status, core::ReceiptStatus::kRejected);
}

TEST_P(ResolveTest, NotDoneLetsTheNextOneRunWithoutADoubt) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo first = Claim(key);
  Lapse(key);
  const core::ClaimInfo second = Claim(key);  // took over: the first one's outcome is unknown
  Lapse(key);

  Get<core::Released>(Resolve(key, second, core::Verdict::kNotDone));

  const auto row = Row(key);
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->state, core::RowState::kReleased);
  EXPECT_FALSE(row->unknown.has_value());
  EXPECT_EQ(row->unknown_attempts, 0);
  core::BeginRequest next = BeginOf(NewAttempt());
  next.on_lapse = core::LapsePolicy::kInDoubt;
  const auto granted = Get<core::Granted>(Begin(key, next));
  EXPECT_GT(granted.claim.fence, second.fence);
  EXPECT_FALSE(granted.earlier_attempt.has_value());
  for (const core::ClaimInfo& late : {first, second}) {
    Get<core::ClaimLost>(Complete(key, CompleteOf(late)));
  }
}

TEST_P(ResolveTest, ALiveClaimAndALaterOneStayAsTheyAre) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo live = Claim(key);
  Get<core::InProgress>(Resolve(key, live, core::Verdict::kDone));
  Lapse(key);
  const core::ClaimInfo later = Claim(key);
  Get<core::ClaimLost>(Resolve(key, live, core::Verdict::kNotDone));
  Get<core::Completed>(Complete(key, CompleteOf(later)));
  Get<core::NotFound>(Resolve(Key("nobody's"), live, core::Verdict::kDone));
  EXPECT_THAT(Audit(key.tenant), IsEmpty()) << "nothing was changed";
}

TEST_P(ResolveTest, TheAuditSaysWhoWhyAndWhatButNotTheResult) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = LapsedClaim("order-1");
  Resolve(key, claim, core::Verdict::kDone, "secret result");
  Resolve(key, claim, core::Verdict::kDone, "secret result");  // a repeat changes nothing

  const auto rows = Audit(key.tenant);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].subject, "points.grant order-1");
  EXPECT_EQ(rows[0].author.credential_id, "0123456789abcdef");
  EXPECT_EQ(rows[0].author.reason, "asked the bank");
  EXPECT_THAT(rows[0].before, HasSubstr("\"state\":\"CLAIMED\""));
  EXPECT_THAT(rows[0].before, HasSubstr(absl::StrCat("\"fence\":", claim.fence.value)));
  EXPECT_THAT(rows[0].after, HasSubstr("\"state\":\"COMPLETED\""));
  EXPECT_THAT(rows[0].after, HasSubstr("\"result_size\":13"));
  EXPECT_THAT(rows[0].before + rows[0].after, Not(HasSubstr("secret")));
}

TEST_P(ResolveTest, ALongSubjectIsCut) {
  const core::OperationKey key = Key(std::string(255, '\x01'));
  const core::ClaimInfo claim = Claim(key);
  Lapse(key);
  Get<core::Released>(Resolve(key, claim, core::Verdict::kNotDone));
  const auto rows = Audit(key.tenant);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_THAT(rows[0].subject, SizeIs(255));
}

TEST_P(ResolveTest, AResetOperationRunsAgainAndKeepsItsReceiptAsAPastOne) {
  for (const size_t size : {size_t{10}, size_t{5000}}) {
    const core::OperationKey key = Key(absl::StrCat("order-", size));
    const std::string result(size, 'r');
    const core::ClaimInfo claim = Claim(key);
    Get<core::Completed>(Complete(key, CompleteOf(claim, result)));
    for (int repeat = 0; repeat < 2; ++repeat) {
      Get<core::Released>(Reset(key, claim.fence));
    }
    const auto row = Row(key);
    ASSERT_TRUE(row.has_value());
    EXPECT_EQ(row->state, core::RowState::kReleased);
    EXPECT_FALSE(row->receipt.has_value());
    EXPECT_FALSE(BodyOf(key).has_value());

    // What the first one's consumer still has to say does not count.
    Get<core::ClaimLost>(Complete(key, CompleteOf(claim, result)));
    core::BeginRequest changed = BeginOf(NewAttempt(), "other content");
    Get<core::Conflict>(Begin(key, changed));
    const auto second = Get<core::Granted>(Begin(key, BeginOf(NewAttempt())));
    EXPECT_GT(second.claim.fence, claim.fence);
    Get<core::InProgress>(Reset(key, second.claim.fence));
    Get<core::ClaimLost>(Reset(key, claim.fence));
    Get<core::Completed>(Complete(key, CompleteOf(second.claim, "second")));
    EXPECT_EQ(ReceiptOf(key).result, "second");
    Get<core::Released>(Reset(key, second.claim.fence));

    auto session = store().OpenControlSession();
    ASSERT_TRUE(session.ok()) << session.status();
    const auto read = (*session)->ReadOperation(key);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_THAT(read->past, SizeIs(2));
    EXPECT_EQ(read->past[0].receipt.result, "second");
    EXPECT_EQ(read->past[1].receipt.result, result);
    EXPECT_EQ(read->past[1].fence, claim.fence);
    EXPECT_EQ(read->past[1].attempt, claim.attempt);
    EXPECT_EQ(read->past[1].handler_version, claim.handler_version);
    EXPECT_EQ(read->past[1].author.reason, "paid by hand");
    EXPECT_EQ(read->past[1].author.credential_id, "0123456789abcdef");
    EXPECT_GE(read->past[1].reset, read->past[1].receipt.completed);
    EXPECT_THAT(LoggedOutcomes(key), Contains(AttemptOutcome::kReset));
  }
}

TEST_P(ResolveTest, ATombstoneMayBeResetToo) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  Get<core::Completed>(Complete(key, CompleteOf(claim)));
  MakeTombstone(key);
  Get<core::Released>(Reset(key, claim.fence));
  Claim(key);
  auto session = store().OpenControlSession();
  ASSERT_TRUE(session.ok()) << session.status();
  const auto read = (*session)->ReadOperation(key);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_THAT(read->past, SizeIs(1));
  EXPECT_FALSE(read->past[0].receipt.result.has_value());
}

TEST_P(ResolveTest, NothingIsResetThatIsNotThere) {
  Get<core::NotFound>(Reset(Key("nobody's"), core::Fence{1}));
  EXPECT_THAT(Audit(Key("x").tenant), IsEmpty());
}

TEST_P(ResolveTest, AnOperationIsShownAsItIs) {
  const core::OperationKey key = Key("order-1");
  auto session = store().OpenControlSession();
  ASSERT_TRUE(session.ok()) << session.status();
  auto read = (*session)->ReadOperation(key);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->row.has_value());
  EXPECT_GT(read->now.micros, 0);

  const core::ClaimInfo claim = Claim(key);
  Get<core::Completed>(Complete(key, CompleteOf(claim, std::string(5000, 'r'))));
  read = (*session)->ReadOperation(key);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->row, Row(key));
  EXPECT_GE(read->now, read->row->receipt->completed);
}

TEST_P(ResolveTest, TheLogIsShownInPagesWithAllThatWasGiven) {
  const core::OperationKey key = Key("order-1");
  core::BeginRequest request = BeginOf(NewAttempt());
  request.consumer = "worker-1";
  request.handler_version = "v7";
  const store::DeliveryInfo delivery{.reference = "offset 17",
                                     .source = 3,
                                     .cause_handler = "orders.pay",
                                     .cause_event_id = std::string("\0\xff", 2),
                                     .cause_reason = "refund",
                                     .aggregate_id = "account-1",
                                     .aggregate_version = 9};
  const auto answers = Run({BeginCommand(key, request, delivery)});
  const auto claim = Get<core::Granted>(std::get<core::BeginOutcome>(answers.at(0))).claim;
  Begin(key, BeginOf(NewAttempt()));
  Abandon(key, ReleaseOf(claim), "no stock");
  Claim(Key("order-10"));  // a neighbour

  auto session = store().OpenControlSession();
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<store::LoggedAttempt> all;
  std::optional<store::EntryId> after;
  for (;;) {
    auto page = (*session)->ListAttempts(key, after, 1);
    ASSERT_TRUE(page.ok()) << page.status();
    if (page->empty()) break;
    ASSERT_THAT(*page, SizeIs(1));
    after = page->front().entry.entry;
    all.push_back(std::move(page->front()));
  }
  std::vector<AttemptKind> kinds;
  for (const auto& logged : all) kinds.push_back(logged.entry.kind);
  ASSERT_THAT(kinds, ElementsAre(AttemptKind::kBegin, AttemptKind::kBegin, AttemptKind::kAbandon));
  const store::AttemptEntry& begun = all[0].entry;
  EXPECT_EQ(begun.outcome, AttemptOutcome::kGranted);
  EXPECT_EQ(begun.attempt, request.attempt);
  EXPECT_EQ(begun.fence, claim.fence);
  EXPECT_EQ(begun.attempt_number, 1);
  EXPECT_EQ(begun.digest, request.digest);
  EXPECT_EQ(begun.consumer, "worker-1");
  EXPECT_EQ(begun.handler_version, "v7");
  EXPECT_EQ(begun.delivery.reference, "offset 17");
  EXPECT_EQ(begun.delivery.source, 3);
  EXPECT_EQ(begun.delivery.cause_handler, "orders.pay");
  EXPECT_EQ(begun.delivery.cause_event_id, std::string("\0\xff", 2));
  EXPECT_EQ(begun.delivery.cause_reason, "refund");
  EXPECT_EQ(begun.delivery.aggregate_id, "account-1");
  EXPECT_EQ(begun.delivery.aggregate_version, 9);
  EXPECT_GE(all[0].logged, claim.begun);
  EXPECT_EQ(all[2].entry.note, "no stock");
  EXPECT_FALSE(all[2].entry.digest.has_value());
}

}  // namespace
}  // namespace once::conformance
