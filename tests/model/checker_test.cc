// The checker itself: a clean history passes, and each kind of violation is found.
#include "checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace once::model {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;

Event Grant(const std::string& attempt, int64_t fence, int number, int64_t start_ms, int64_t end_ms,
            int64_t lease_ms) {
  Event event;
  event.call = Call::kBegin;
  event.attempt = attempt;
  event.digest = "d";
  event.outcome = Outcome::kGranted;
  event.granted_fence = fence;
  event.attempt_number = number;
  event.start_ns = start_ms * kMs;
  event.end_ns = end_ms * kMs;
  event.lease_remaining_ns = lease_ms * kMs;
  return event;
}

Event TakeOver(Event grant, const std::string& earlier, int64_t earlier_fence) {
  grant.earlier_attempt = earlier;
  grant.earlier_fence = earlier_fence;
  return grant;
}

Event Done(const std::string& attempt, int64_t fence, const std::string& result, int64_t start_ms,
           bool replayed = false) {
  Event event;
  event.call = Call::kComplete;
  event.attempt = attempt;
  event.fence = fence;
  event.result = result;
  event.outcome = Outcome::kCompleted;
  event.receipt = ReceiptSeen{.result = result, .status = 1, .fence = fence, .complete_time_us = 7};
  event.replayed = replayed;
  event.start_ns = start_ms * kMs;
  event.end_ns = (start_ms + 1) * kMs;
  return event;
}

Event Answer(Call call, Outcome outcome, const std::string& attempt, int64_t fence,
             int64_t start_ms) {
  Event event;
  event.call = call;
  event.outcome = outcome;
  event.attempt = attempt;
  event.fence = fence;
  event.start_ns = start_ms * kMs;
  event.end_ns = (start_ms + 1) * kMs;
  return event;
}

std::vector<std::string> CheckOne(std::vector<Event> events, std::vector<PolicyPhase> phases = {}) {
  return Check({.operations = {{"op", {.forgettable = false, .events = std::move(events)}}},
                .phases = std::move(phases)});
}

TEST(Checker, CleanHistoryPasses) {
  EXPECT_THAT(CheckOne({Grant("a", 10, 1, 0, 1, 100), Grant("a", 10, 1, 2, 3, 98),
                        TakeOver(Grant("b", 20, 2, 150, 151, 100), "a", 10),
                        Answer(Call::kComplete, Outcome::kClaimLost, "a", 10, 160),
                        Done("b", 20, "r", 170), Done("b", 20, "r", 180, true)}),
              IsEmpty());
}

TEST(Checker, FindsTwoLiveClaims) {
  EXPECT_THAT(
      CheckOne({Grant("a", 10, 1, 0, 1, 100), TakeOver(Grant("b", 20, 2, 50, 51, 100), "a", 10)}),
      Contains(HasSubstr("two live claims")));
}

TEST(Checker, FindsOneFenceForTwoAttempts) {
  EXPECT_THAT(CheckOne({Grant("a", 10, 1, 0, 1, 100), Grant("b", 10, 1, 150, 151, 100)}),
              Contains(HasSubstr("two attempts hold one fence")));
}

TEST(Checker, FindsFencesThatDoNotGrow) {
  EXPECT_THAT(
      CheckOne({Grant("a", 10, 1, 0, 1, 5), TakeOver(Grant("b", 9, 2, 50, 51, 100), "a", 10)}),
      Contains(HasSubstr("a lower fence was granted after a higher one was known")));
}

TEST(Checker, FindsHiddenCrash) {
  EXPECT_THAT(CheckOne({Grant("a", 10, 1, 0, 1, 5), Grant("b", 20, 2, 50, 51, 100)}),
              Contains(HasSubstr("unknown outcome was hidden")));
}

TEST(Checker, AcceptsNewClaimAfterRelease) {
  EXPECT_THAT(CheckOne({Grant("a", 10, 1, 0, 1, 100),
                        Answer(Call::kAbandon, Outcome::kAbandoned, "a", 10, 5),
                        Grant("b", 20, 2, 10, 11, 100)}),
              IsEmpty());
}

TEST(Checker, FindsChangedReceipt) {
  EXPECT_THAT(
      CheckOne({Grant("a", 10, 1, 0, 1, 100), Done("a", 10, "r", 5), Done("a", 10, "s", 8, true)}),
      Contains(HasSubstr("the receipt changed")));
}

TEST(Checker, FindsReceiptThatNobodySent) {
  Event seen = Done("b", 20, "forged", 5, true);
  seen.call = Call::kBegin;
  EXPECT_THAT(CheckOne({seen}), Contains(HasSubstr("a receipt that nobody sent")));
}

TEST(Checker, FindsGrantAfterCompletion) {
  EXPECT_THAT(CheckOne({Grant("a", 10, 1, 0, 1, 3), Done("a", 10, "r", 5),
                        TakeOver(Grant("b", 20, 2, 50, 51, 100), "a", 10)}),
              Contains(HasSubstr("granted after completion")));
}

TEST(Checker, FindsLateOwnerThatCompletes) {
  EXPECT_THAT(CheckOne({Grant("a", 10, 1, 0, 1, 5),
                        TakeOver(Grant("b", 20, 2, 50, 51, 100), "a", 10), Done("a", 10, "r", 60)}),
              Contains(HasSubstr("a late owner completed")));
}

TEST(Checker, FindsClaimLostWithoutCause) {
  EXPECT_THAT(
      CheckOne({Grant("a", 10, 1, 0, 1, 5), Answer(Call::kRenew, Outcome::kClaimLost, "a", 10, 3)}),
      Contains(HasSubstr("claim_lost without a cause")));
}

TEST(Checker, FindsOtherContentThatWasAccepted) {
  Event other = TakeOver(Grant("b", 20, 2, 50, 51, 100), "a", 10);
  other.digest = "e";
  EXPECT_THAT(CheckOne({Grant("a", 10, 1, 0, 1, 5), other}),
              Contains(HasSubstr("different contents were accepted")));
}

TEST(Checker, FindsSameContentThatWasCalledConflict) {
  Event conflict = Answer(Call::kBegin, Outcome::kConflict, "b", 0, 10);
  conflict.digest = "d";
  conflict.first_digest = "e";
  EXPECT_THAT(CheckOne({Grant("a", 10, 1, 0, 1, 100), conflict}),
              Contains(HasSubstr("accepted content was called a conflict")));
}

// RETRY, then PROBE from 100 ms (everywhere at 120), then IN_DOUBT from 300 (everywhere at 320).
const std::vector<PolicyPhase> kPhases = {
    {.from_ns = 0, .everywhere_ns = 0, .on_lapse = OnLapse::kRetry},
    {.from_ns = 100 * kMs, .everywhere_ns = 120 * kMs, .on_lapse = OnLapse::kProbe},
    {.from_ns = 300 * kMs, .everywhere_ns = 320 * kMs, .on_lapse = OnLapse::kInDoubt}};

std::vector<std::string> CheckTakeOverAt(int64_t ms, bool can_probe) {
  Event taken = TakeOver(Grant("b", 20, 2, ms, ms + 1, 100), "a", 10);
  taken.can_probe = can_probe;
  taken.recovery = can_probe;
  return CheckOne({Grant("a", 10, 1, 0, 1, 10), taken}, kPhases);
}

TEST(Checker, TakeOverNeedsAPolicyThatAllowsIt) {
  EXPECT_THAT(CheckTakeOverAt(50, false), IsEmpty());
  EXPECT_THAT(CheckTakeOverAt(110, false), IsEmpty());  // another server may not know yet
  EXPECT_THAT(CheckTakeOverAt(200, true), IsEmpty());
  EXPECT_THAT(CheckTakeOverAt(200, false), Contains(HasSubstr("against the policy")));
  EXPECT_THAT(CheckTakeOverAt(310, true), IsEmpty());
  EXPECT_THAT(CheckTakeOverAt(400, true), Contains(HasSubstr("against the policy")));
}

TEST(Checker, RepeatOfAClaimNeedsNoPolicy) {
  Event first = Answer(Call::kBegin, Outcome::kError, "b", 0, 50);
  first.digest = "d";
  EXPECT_THAT(CheckOne({Grant("a", 10, 1, 0, 1, 10), first,
                        TakeOver(Grant("b", 20, 2, 400, 401, 100), "a", 10)},
                       kPhases),
              IsEmpty());
}

TEST(Checker, DoubtNeedsAPolicyThatForbids) {
  const auto doubt_at = [](int64_t ms, bool can_probe) {
    Event doubt = Answer(Call::kBegin, Outcome::kInDoubt, "b", 0, ms);
    doubt.can_probe = can_probe;
    return CheckOne({Grant("a", 10, 1, 0, 1, 10), doubt}, kPhases);
  };
  EXPECT_THAT(doubt_at(50, false), Contains(HasSubstr("in doubt where the policy grants")));
  EXPECT_THAT(doubt_at(200, false), IsEmpty());
  EXPECT_THAT(doubt_at(200, true), Contains(HasSubstr("in doubt where the policy grants")));
  EXPECT_THAT(doubt_at(400, true), IsEmpty());
}

TEST(Checker, FindsAWrongMarkOfRecovery) {
  Event fresh = Grant("a", 10, 1, 0, 1, 10);
  fresh.can_probe = true;
  EXPECT_THAT(CheckOne({fresh}), IsEmpty());
  fresh.recovery = true;
  EXPECT_THAT(CheckOne({fresh}), Contains(HasSubstr("recovery")));
}

TEST(CheckerTest, AnOperatorsDecisionEndsADoubt) {
  History history;
  Operation& operation = history.operations["e"];
  Event resolved = Answer(Call::kResolve, Outcome::kFoundNotDone, "a", 10, 200);
  operation.events = {Grant("a", 10, 1, 0, 1, 100), resolved, Grant("b", 20, 2, 210, 211, 100)};
  EXPECT_THAT(Check(history), IsEmpty());
  // Without it, the earlier attempt was hidden.
  operation.events.erase(operation.events.begin() + 1);
  EXPECT_THAT(Check(history), Contains(HasSubstr("hidden")));
}

TEST(CheckerTest, ALiveClaimMustNotBeResolved) {
  History history;
  Operation& operation = history.operations["e"];
  operation.events = {Grant("a", 10, 1, 0, 1, 100),
                      Answer(Call::kResolve, Outcome::kFoundNotDone, "a", 10, 50)};
  EXPECT_THAT(Check(history), Contains(HasSubstr("a live claim was resolved")));
  operation.events.push_back(Answer(Call::kAbandon, Outcome::kAbandoned, "a", 10, 40));
  EXPECT_THAT(Check(history), IsEmpty());
}

TEST(CheckerTest, AReceiptOfAnOperatorIsOneAsOthers) {
  History history;
  Operation& operation = history.operations["e"];
  Event found = Done("a", 10, "found", 200);
  found.call = Call::kResolve;
  operation.events = {Grant("a", 10, 1, 0, 1, 100), found, Done("a", 10, "found", 300, true)};
  EXPECT_THAT(Check(history), IsEmpty());
  operation.events.push_back(Done("a", 10, "mine", 250));
  EXPECT_THAT(Check(history), Contains(HasSubstr("the receipt changed")));
}

}  // namespace
}  // namespace once::model
