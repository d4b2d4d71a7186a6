// The picture in docs/concepts.md is what the decisions do: every state, every call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/decide.h"

namespace once::core {
namespace {

constexpr DbTime kNow{1'000'000'000};
constexpr Fence kFence{77};
constexpr char kNone[] = "[*]";  // there is no such operation

AttemptId Attempt(uint8_t number) {
  AttemptId attempt;
  attempt.bytes.fill(number);
  return attempt;
}

std::string NameOf(OperationState state) {
  switch (state) {
    case OperationState::kClaimed:
      return "CLAIMED";
    case OperationState::kLapsed:
      return "LAPSED";
    case OperationState::kInDoubt:
      return "IN_DOUBT";
    case OperationState::kReleased:
      return "RELEASED";
    case OperationState::kCompleted:
      return "COMPLETED";
    case OperationState::kTombstone:
      return "TOMBSTONE";
  }
  return "";
}

// "CLAIMED --> RELEASED" → the calls that lead there.
using Diagram = std::map<std::string, std::set<std::string>>;

void Add(Diagram& diagram, const std::string& from, const std::string& to,
         const std::string& call) {
  diagram[absl::StrCat(from, " --> ", to)].insert(call);
}

OperationRow Claimed(absl::Duration lease_left) {
  OperationRow row;
  row.claim.attempt = Attempt(1);
  row.claim.fence = kFence;
  row.claim.lease_expires = kNow + lease_left;
  return row;
}

// Rows of every shape that an operation can have.
std::vector<OperationRow> AllRows() {
  std::vector<OperationRow> rows = {Claimed(absl::Seconds(1)), Claimed(-absl::Seconds(1))};
  OperationRow released = Claimed(-absl::Seconds(1));
  released.state = RowState::kReleased;
  rows.push_back(released);
  for (const RowState state : {RowState::kCompleted, RowState::kTombstone}) {
    OperationRow done = Claimed(absl::Seconds(1));
    done.state = state;
    done.receipt.emplace();
    rows.push_back(done);
  }
  // And each with an earlier attempt of unknown outcome.
  for (size_t i = 0, known = rows.size(); i < known; ++i) {
    OperationRow doubtful = rows[i];
    doubtful.unknown = ClaimInfo();
    doubtful.unknown_attempts = 1;
    rows.push_back(doubtful);
  }
  return rows;
}

template <typename Outcome>
void AddDecision(Diagram& diagram, const OperationRow& row, LapsePolicy policy,
                 const std::string& call, const Decision<Outcome>& decision) {
  const std::string from = NameOf(StateOf(row, policy, kNow));
  if (decision.delete_row) Add(diagram, from, kNone, call);
  if (!decision.row_after.has_value() || *decision.row_after == row) return;
  Add(diagram, from, NameOf(StateOf(*decision.row_after, policy, kNow)), call);
}

// What the decisions do to a row.
void AddAll(Diagram& diagram, const OperationRow& row, LapsePolicy policy) {
  for (const AttemptId attempt : {Attempt(1), Attempt(2)}) {
    for (const bool can_probe : {false, true}) {
      BeginRequest begin;
      begin.attempt = attempt;
      begin.lease = absl::Seconds(30);
      begin.on_lapse = policy;
      begin.can_probe = can_probe;
      AddDecision(diagram, row, policy, "Begin", DecideBegin(row, begin, kNow));
    }
    CompleteRequest complete;
    complete.attempt = attempt;
    complete.fence = kFence;
    AddDecision(diagram, row, policy, "Complete", DecideComplete(&row, complete, kNow));
    for (const bool forget : {false, true}) {
      AbandonRequest abandon;
      abandon.attempt = attempt;
      abandon.fence = kFence;
      abandon.forget = forget;
      AddDecision(diagram, row, policy, "Abandon", DecideAbandon(&row, abandon, kNow));
    }
    RenewRequest renew;
    renew.attempt = attempt;
    renew.fence = kFence;
    renew.lease = absl::Seconds(30);
    AddDecision(diagram, row, policy, "Renew", DecideRenew(&row, renew, kNow));
    for (const Verdict verdict : {Verdict::kDone, Verdict::kRefused, Verdict::kNotDone}) {
      ResolveRequest resolve;
      resolve.attempt = attempt;
      resolve.fence = kFence;
      resolve.verdict = verdict;
      AddDecision(diagram, row, policy, "Resolve", DecideResolve(&row, resolve, kNow));
    }
  }
  AddDecision(diagram, row, policy, "Reset", DecideReset(&row, {.fence = kFence}, kNow));
  const std::string later = NameOf(StateOf(row, policy, kNow + absl::Hours(1)));
  const std::string now = NameOf(StateOf(row, policy, kNow));
  if (now != later) Add(diagram, now, later, "lease over");
}

Diagram OfTheCode() {
  Diagram diagram;
  BeginRequest begin;
  begin.attempt = Attempt(2);
  begin.lease = absl::Seconds(30);
  Add(diagram, kNone, NameOf(StateOf(NewRow(begin, kNow), LapsePolicy::kRetry, kNow)), "Begin");
  for (const LapsePolicy policy :
       {LapsePolicy::kRetry, LapsePolicy::kInDoubt, LapsePolicy::kProbe}) {
    for (const OperationRow& row : AllRows()) AddAll(diagram, row, policy);
  }
  return diagram;
}

// Lines "FROM --> TO: call, call" of the page's mermaid block.
Diagram OfThePage() {
  std::ifstream file(absl::StrCat(ONCE_SOURCE_DIR, "/docs/concepts.md"));
  Diagram diagram;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "```")) inside = line == "```mermaid";
    if (!inside || !absl::StrContains(line, " --> ")) continue;
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(": ", 1));
    for (const absl::string_view call : absl::StrSplit(parts.second, ", ")) {
      diagram[std::string(absl::StripAsciiWhitespace(parts.first))].insert(std::string(call));
    }
  }
  return diagram;
}

TEST(StateDiagramTest, ThePageShowsWhatTheCodeDoes) { EXPECT_EQ(OfThePage(), OfTheCode()); }

TEST(StateDiagramTest, EveryStateIsInIt) {
  std::set<std::string> states;
  for (const auto& [arrow, calls] : OfTheCode()) {
    const std::pair<std::string, std::string> ends = absl::StrSplit(arrow, " --> ");
    states.insert(ends.first);
    states.insert(ends.second);
  }
  EXPECT_THAT(states, testing::ElementsAre("CLAIMED", "COMPLETED", "IN_DOUBT", "LAPSED", "RELEASED",
                                           "TOMBSTONE", kNone));
}

}  // namespace
}  // namespace once::core
