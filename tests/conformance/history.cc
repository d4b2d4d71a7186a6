#include "conformance/history.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "conformance/harness.h"

namespace once::conformance {

void History::Sent(const store::Command& command) {
  absl::MutexLock lock(&mutex_);
  KeySeen& seen = keys_[store::KeyOf(command)];
  if (const auto* abandon = std::get_if<store::AbandonCommand>(&command)) {
    seen.maybe_freed.insert(abandon->request.fence);
    seen.maybe_forgotten = seen.maybe_forgotten || abandon->request.forget;
  }
  if (const auto* complete = std::get_if<store::CompleteCommand>(&command)) {
    seen.sent_results[complete->request.attempt].insert(complete->request.fingerprint);
  }
}

void History::Answered(const store::Command& command, const store::Answer& answer) {
  absl::MutexLock lock(&mutex_);
  ++outcomes_[NameOf(answer)];
  KeySeen& seen = keys_[store::KeyOf(command)];
  ++seen.log_rows;  // a successful renewal takes it back
  std::visit(
      [&](const auto& asked, const auto& told) {
        using Asked = std::decay_t<decltype(asked)>;
        using Told = std::decay_t<decltype(told)>;
        if constexpr ((std::is_same_v<Asked, store::BeginCommand> &&
                       std::is_same_v<Told, core::BeginOutcome>) ||
                      (std::is_same_v<Asked, store::CompleteCommand> &&
                       std::is_same_v<Told, core::CompleteOutcome>) ||
                      (std::is_same_v<Asked, store::AbandonCommand> &&
                       std::is_same_v<Told, core::AbandonOutcome>) ||
                      (std::is_same_v<Asked, store::RenewCommand> &&
                       std::is_same_v<Told, core::RenewOutcome>)) {
          mutex_.AssertHeld();
          See(seen, asked, told);
        } else {
          seen.violations.push_back("an answer is not of its command's kind");
        }
      },
      command, answer);
}

void History::SeeClaim(KeySeen& seen, const core::ClaimInfo& claim,
                       std::optional<core::Digest> digest) {
  const auto [at, fresh] =
      seen.claims.emplace(claim.fence, ClaimSeen{.attempt = claim.attempt,
                                                 .digest = digest,
                                                 .begun = claim.begun,
                                                 .lease_end = claim.lease_expires});
  ClaimSeen& known = at->second;
  if (known.attempt != claim.attempt) {
    seen.violations.push_back(
        absl::StrCat("two attempts were told that they hold fence ", claim.fence.value));
  }
  if (known.begun != claim.begun) {
    seen.violations.push_back(absl::StrCat("fence ", claim.fence.value, " began twice"));
  }
  known.lease_end = std::max(known.lease_end, claim.lease_expires);
  if (!known.digest.has_value()) known.digest = digest;
  if (digest.has_value() && known.digest != digest) {
    seen.violations.push_back(
        absl::StrCat("fence ", claim.fence.value, " was granted for two contents"));
  }
}

void History::SeeCompleted(KeySeen& seen, const core::Completed& completed) {
  if (!seen.completed.has_value()) {
    seen.completed = completed;
    return;
  }
  core::Receipt first = seen.completed->receipt;
  core::Receipt again = completed.receipt;
  if (!first.result.has_value() || !again.result.has_value()) {
    first.result.reset();  // large bodies come with some answers only
    again.result.reset();
  }
  if (first != again || seen.completed->fence != completed.fence ||
      seen.completed->handler_version != completed.handler_version) {
    seen.violations.push_back("a receipt changed");
  }
}

void History::See(KeySeen& seen, const store::BeginCommand& command,
                  const core::BeginOutcome& outcome) {
  const core::BeginRequest& request = command.request;
  if (const auto* granted = std::get_if<core::Granted>(&outcome)) {
    SeeClaim(seen, granted->claim, request.digest);
    if (granted->claim.attempt != request.attempt) {
      seen.violations.push_back("a grant names another attempt than its caller's");
    }
  } else if (const auto* completed = std::get_if<core::Completed>(&outcome)) {
    SeeCompleted(seen, *completed);
    seen.replayed_to.push_back(request.digest);
  } else if (const auto* met = std::get_if<core::InProgress>(&outcome)) {
    if (met->first_digest != request.digest) {
      seen.violations.push_back("other content was answered with in progress");
    }
  } else if (const auto* conflict = std::get_if<core::Conflict>(&outcome)) {
    if (conflict->first_digest == request.digest) {
      seen.violations.push_back("the same content was answered with a conflict");
    }
  }
}

void History::See(KeySeen& seen, const store::CompleteCommand& command,
                  const core::CompleteOutcome& outcome) {
  if (const auto* completed = std::get_if<core::Completed>(&outcome)) {
    SeeCompleted(seen, *completed);
    if (completed->fence != command.request.fence ||
        completed->receipt.fingerprint != command.request.fingerprint) {
      seen.violations.push_back("a completion was answered with another's receipt");
    }
  }
}

void History::See(KeySeen& seen, const store::AbandonCommand& command,
                  const core::AbandonOutcome& outcome) {
  // What it may have done was noted when it was sent.
  (void)seen, (void)command, (void)outcome;
}

void History::See(KeySeen& seen, const store::RenewCommand& command,
                  const core::RenewOutcome& outcome) {
  if (const auto* renewed = std::get_if<core::Renewed>(&outcome)) {
    --seen.log_rows;
    SeeClaim(seen, renewed->claim, std::nullopt);
    if (renewed->claim.fence != command.request.fence) {
      seen.violations.push_back("a renewal was answered with another fence");
    }
  }
}

void History::CheckClaims(const KeySeen& seen, std::vector<std::string>& violations) {
  for (auto next = seen.claims.begin(); next != seen.claims.end(); ++next) {
    if (next == seen.claims.begin()) continue;
    const auto& [fence, claim] = *std::prev(next);
    if (next->second.begun < claim.begun) {
      violations.push_back(absl::StrCat("fence ", next->first.value, " is older than fence ",
                                        fence.value, ", which is smaller"));
    }
    if (next->second.begun < claim.lease_end && !seen.maybe_freed.contains(fence)) {
      violations.push_back(absl::StrCat("fence ", next->first.value, " was granted while fence ",
                                        fence.value, " was live"));
    }
  }
}

void History::CheckReceipt(const KeySeen& seen, std::vector<std::string>& violations) {
  if (!seen.completed.has_value()) return;
  const core::Fence fence = seen.completed->fence;
  if (seen.claims.upper_bound(fence) != seen.claims.end()) {
    violations.push_back("a claim was granted after the operation was completed");
  }
  const auto claim = seen.claims.find(fence);
  if (claim == seen.claims.end()) return;  // the answer that granted it was lost
  const auto sent = seen.sent_results.find(claim->second.attempt);
  if (sent == seen.sent_results.end() ||
      !sent->second.contains(seen.completed->receipt.fingerprint)) {
    violations.push_back("the receipt is not what its attempt sent");
  }
  for (const core::Digest& digest : seen.replayed_to) {
    if (claim->second.digest.has_value() && digest != *claim->second.digest) {
      violations.push_back("other content was answered with the receipt");
    }
  }
}

std::vector<std::string> History::Violations() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> violations;
  for (const auto& [key, seen] : keys_) {
    std::vector<std::string> of_key = seen.violations;
    CheckClaims(seen, of_key);
    CheckReceipt(seen, of_key);
    for (const std::string& violation : of_key) {
      violations.push_back(absl::StrCat(key.event_id, ": ", violation));
    }
  }
  return violations;
}

std::vector<std::string> History::ViolationsAtEnd(const core::OperationKey& key,
                                                  const std::optional<core::OperationRow>& row,
                                                  size_t logged) const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> violations;
  const auto found = keys_.find(key);
  if (found == keys_.end()) return {absl::StrCat(key.event_id, ": unknown key")};
  const KeySeen& seen = found->second;
  if (logged != seen.log_rows) {
    violations.push_back(
        absl::StrCat(key.event_id, ": ", logged, " log rows for ", seen.log_rows, " commands"));
  }
  if (seen.completed.has_value() &&
      (!row.has_value() || !row->receipt.has_value() ||
       row->receipt->fingerprint != seen.completed->receipt.fingerprint ||
       row->claim.fence != seen.completed->fence)) {
    violations.push_back(absl::StrCat(key.event_id, ": the receipt is gone or another"));
  }
  if (!seen.claims.empty() && !seen.maybe_forgotten &&
      (!row.has_value() || row->claim.fence < seen.claims.rbegin()->first)) {
    violations.push_back(absl::StrCat(key.event_id, ": the latest claim is not in the row"));
  }
  return violations;
}

std::vector<core::OperationKey> History::keys() const {
  absl::MutexLock lock(&mutex_);
  std::vector<core::OperationKey> keys;
  for (const auto& [key, seen] : keys_) keys.push_back(key);
  return keys;
}

std::map<std::string, int> History::outcomes() const {
  absl::MutexLock lock(&mutex_);
  return outcomes_;
}

}  // namespace once::conformance
