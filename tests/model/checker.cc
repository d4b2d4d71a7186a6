#include "checker.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace once::model {
namespace {

// The database's clock and ours are slewed apart a little over a run.
constexpr int64_t kClockToleranceNs = 1'000'000;

// A claim as callers know it: every granted answer that shows its fence.
struct Claim {
  int64_t fence = 0;
  std::string attempt;
  std::vector<const Event*> grants;
  int64_t first_known_ns = INT64_MAX;  // earliest end of a grant
};

class OperationChecker {
 public:
  OperationChecker(const std::string& id, const Operation& operation,
                   const std::vector<PolicyPhase>& phases, std::vector<std::string>& faults)
      : id_(id), operation_(operation), phases_(phases), faults_(faults) {}

  void Run() {
    CollectClaims();
    CollectReceipt();
    for (const Event& event : operation_.events) {
      CheckAllowed(event);
      CheckAfterReceipt(event);
      CheckLosing(event);
    }
    CheckClaimOrder();
    CheckHandOver();
    CheckResolved();
    CheckDigests();
    CheckPolicies();
  }

 private:
  void Fault(absl::string_view rule, const Event& event, absl::string_view more = "") {
    faults_.push_back(absl::StrCat(id_, ": ", rule, ": attempt ",
                                   absl::BytesToHexString(event.attempt).substr(0, 8), " fence ",
                                   event.granted_fence != 0 ? event.granted_fence : event.fence,
                                   " at ", event.start_ns / 1000, "-", event.end_ns / 1000,
                                   " us server ", event.server, more.empty() ? "" : "; ", more));
  }

  void CollectClaims() {
    for (const Event& event : operation_.events) {
      if (event.outcome != Outcome::kGranted) continue;
      Claim& claim = claims_[event.granted_fence];
      if (!claim.grants.empty() && claim.attempt != event.attempt) {
        Fault("two attempts hold one fence", event,
              absl::StrCat("other ", absl::BytesToHexString(claim.attempt).substr(0, 8)));
      }
      claim.fence = event.granted_fence;
      claim.attempt = event.attempt;
      claim.grants.push_back(&event);
      claim.first_known_ns = std::min(claim.first_known_ns, event.end_ns);
    }
  }

  // The call itself stored the receipt.
  static bool Stored(const Event& event) {
    return (event.call == Call::kComplete || event.call == Call::kResolve) &&
           event.outcome == Outcome::kCompleted && !event.replayed;
  }

  void CollectReceipt() {
    int stored_now = 0;
    for (const Event& event : operation_.events) {
      if (!event.receipt.has_value()) continue;
      if (!receipt_.has_value()) {
        receipt_ = event.receipt;
      } else if (*receipt_ != *event.receipt) {
        Fault("the receipt changed", event,
              absl::StrCat(receipt_->result, " is now ", event.receipt->result));
      }
      receipt_known_ns_ = std::min(receipt_known_ns_, event.end_ns);
      if (Stored(event) && ++stored_now > 1) Fault("two calls stored a receipt", event);
    }
    if (receipt_.has_value()) CheckReceiptOrigin();
  }

  void CheckReceiptOrigin() {
    const auto made =
        std::any_of(operation_.events.begin(), operation_.events.end(), [this](const Event& event) {
          return (event.call == Call::kComplete || event.call == Call::kResolve) &&
                 event.fence == receipt_->fence && event.result == receipt_->result &&
                 event.start_ns <= receipt_known_ns_;
        });
    if (!made)
      faults_.push_back(absl::StrCat(id_, ": a receipt that nobody sent: ", receipt_->result));
  }

  void CheckAllowed(const Event& event) {
    if (event.outcome == Outcome::kUnexpected)
      Fault("an answer that is not allowed", event, event.error);
    if (event.outcome == Outcome::kNotFound && !operation_.forgettable &&
        event.call != Call::kLookup) {
      Fault("an operation vanished", event);
    }
  }

  void CheckAfterReceipt(const Event& event) {
    if (event.start_ns <= receipt_known_ns_) return;
    if (event.outcome == Outcome::kGranted) Fault("granted after completion", event);
    if (event.outcome == Outcome::kInProgress || event.outcome == Outcome::kUnclaimed ||
        event.outcome == Outcome::kNotFound || event.outcome == Outcome::kAbandoned ||
        event.outcome == Outcome::kFoundNotDone) {
      Fault("a completed operation answered as if it were not", event);
    }
  }

  void CheckLosing(const Event& event) {
    const bool stored = Stored(event);
    if (stored || event.outcome == Outcome::kRenewed) {
      for (auto later = claims_.upper_bound(event.fence); later != claims_.end(); ++later) {
        if (later->second.first_known_ns < event.start_ns) {
          Fault(stored ? "a late owner completed" : "a late owner renewed", event,
                absl::StrCat("fence ", later->first, " was known"));
          break;
        }
      }
    }
    if (event.outcome == Outcome::kClaimLost && !HasCauseOfLoss(event)) {
      Fault("claim_lost without a cause", event);
    }
  }

  // Another attempt that began, or something by which this attempt gave the claim up itself.
  bool HasCauseOfLoss(const Event& lost) const {
    return std::any_of(operation_.events.begin(), operation_.events.end(), [&](const Event& event) {
      if (&event == &lost || event.start_ns > lost.end_ns) return false;
      if (event.call == Call::kBegin)
        return event.attempt != lost.attempt || event.granted_fence > lost.fence;
      return event.attempt == lost.attempt && event.fence == lost.fence &&
             (event.call == Call::kComplete || event.call == Call::kAbandon ||
              event.call == Call::kResolve);
    });
  }

  // Real time implies order of fences and, unless forgotten in between, of attempt numbers.
  void CheckClaimOrder() {
    for (auto later = claims_.begin(); later != claims_.end(); ++later) {
      for (auto earlier = claims_.begin(); earlier != later; ++earlier) {
        for (const Event* grant : earlier->second.grants) {
          // The first grant of a claim is what made it; a repeat may come whenever the claim lives.
          if (grant->start_ns > later->second.first_known_ns) {
            Fault("a lower fence was granted after a higher one was known", *grant,
                  absl::StrCat("fence ", later->first, " was known"));
          }
        }
        if (!operation_.forgettable && earlier->second.grants.front()->attempt_number >=
                                           later->second.grants.front()->attempt_number) {
          Fault("attempt numbers do not grow", *later->second.grants.front());
        }
      }
    }
  }

  // By its attempt, or by an operator who found that neither it nor any before it has acted.
  bool GivenBack(const Claim& claim, int64_t before_ns) const {
    return std::any_of(operation_.events.begin(), operation_.events.end(), [&](const Event& event) {
      if (event.call == Call::kResolve) {
        return event.result.empty() && event.fence >= claim.fence &&
               (event.outcome == Outcome::kFoundNotDone || event.outcome == Outcome::kError) &&
               event.start_ns <= before_ns;
      }
      return event.call == Call::kAbandon && event.attempt == claim.attempt &&
             event.fence == claim.fence &&
             (event.outcome == Outcome::kAbandoned || event.outcome == Outcome::kError) &&
             event.start_ns <= before_ns;
    });
  }

  bool GivenBackByItself(const Claim& claim, int64_t before_ns) const {
    return std::any_of(operation_.events.begin(), operation_.events.end(), [&](const Event& event) {
      return event.call == Call::kAbandon && event.attempt == claim.attempt &&
             event.fence == claim.fence && event.start_ns <= before_ns;
    });
  }

  // No later claim may be granted before this moment unless the claim was given back.
  int64_t LeaseOverAt(const Claim& claim) const { return LeaseKnownAt(claim, INT64_MAX); }

  // The end of the lease by what had been answered before `ns`.
  int64_t LeaseKnownAt(const Claim& claim, int64_t ns) const {
    int64_t over = 0;
    for (const Event* grant : claim.grants) {
      if (grant->end_ns > ns) continue;
      over = std::max(over, grant->start_ns + grant->lease_remaining_ns);
    }
    for (const Event& event : operation_.events) {
      if (event.outcome == Outcome::kRenewed && event.end_ns <= ns &&
          event.attempt == claim.attempt && event.fence == claim.fence) {
        over = std::max(over, event.start_ns + event.lease_remaining_ns);
      }
    }
    return over;
  }

  void CheckHandOver() {
    for (auto later = claims_.begin(); later != claims_.end(); ++later) {
      for (const Event* grant : later->second.grants) {
        for (auto earlier = claims_.begin(); earlier != later; ++earlier) {
          CheckGrantAfter(earlier->second, *grant);
        }
        CheckEarlierAttempt(*grant);
      }
    }
  }

  void CheckGrantAfter(const Claim& earlier, const Event& grant) {
    if (GivenBack(earlier, grant.end_ns)) return;
    if (grant.end_ns + kClockToleranceNs < LeaseOverAt(earlier)) {
      Fault("two live claims", grant,
            absl::StrCat("fence ", earlier.fence, " was live until ", LeaseOverAt(earlier) / 1000,
                         " us"));
    }
    if (grant.earlier_attempt.empty()) {
      Fault("an attempt of unknown outcome was hidden", grant,
            absl::StrCat("fence ", earlier.fence));
    }
  }

  // An operator decides about claims whose lease is over, or which were given back.
  void CheckResolved() {
    for (const Event& event : operation_.events) {
      if (event.call != Call::kResolve) continue;
      if (event.outcome != Outcome::kFoundNotDone && !Stored(event)) continue;
      const auto claim = claims_.find(event.fence);
      if (claim == claims_.end() || GivenBackByItself(claim->second, event.end_ns)) continue;
      if (event.end_ns + kClockToleranceNs < LeaseKnownAt(claim->second, event.start_ns)) {
        Fault("a live claim was resolved", event);
      }
    }
  }

  void CheckEarlierAttempt(const Event& grant) {
    if (grant.earlier_attempt.empty()) return;
    const auto known = claims_.find(grant.earlier_fence);
    if (grant.earlier_fence >= grant.granted_fence ||
        (known != claims_.end() && known->second.attempt != grant.earlier_attempt)) {
      Fault("the earlier attempt shown is wrong", grant);
    }
    const bool began =
        std::any_of(operation_.events.begin(), operation_.events.end(), [&](const Event& event) {
          return event.call == Call::kBegin && event.attempt == grant.earlier_attempt;
        });
    if (!began) Fault("the earlier attempt shown never began", grant);
  }

  void CheckDigests() {
    std::set<std::string> accepted;
    for (const Event& event : operation_.events) {
      if (event.call != Call::kBegin) continue;
      const bool same = event.outcome == Outcome::kGranted ||
                        event.outcome == Outcome::kCompleted ||
                        event.outcome == Outcome::kInProgress;
      if (same) accepted.insert(event.digest);
      if (event.outcome == Outcome::kConflict && event.first_digest == event.digest) {
        Fault("a conflict with its own content", event);
      }
      if (event.outcome == Outcome::kInProgress && event.first_digest != event.digest) {
        Fault("other content was not reported as a conflict", event);
      }
    }
    if (operation_.forgettable) return;
    if (accepted.size() > 1) {
      faults_.push_back(
          absl::StrCat(id_, ": ", accepted.size(), " different contents were accepted"));
    }
    for (const Event& event : operation_.events) {
      if (event.call == Call::kBegin && event.outcome == Outcome::kConflict &&
          accepted.contains(event.digest)) {
        Fault("accepted content was called a conflict", event);
      }
    }
  }

  // ---- the policy ----

  // Whether one of the policies that may decide the call does so. The bounds are the servers' to
  // keep: a call that arrives after a phase is everywhere is decided by it.
  template <typename Predicate>
  bool MayBeDecidedBy(const Event& event, Predicate decides) const {
    if (phases_.empty()) return decides(OnLapse::kRetry);
    for (size_t i = 0; i < phases_.size(); ++i) {
      const bool over = i + 1 < phases_.size() && phases_[i + 1].everywhere_ns < event.start_ns;
      if (!over && phases_[i].from_ns <= event.end_ns && decides(phases_[i].on_lapse)) return true;
    }
    return false;
  }

  // The attempt asked before, and its answer may have been lost: its claim may be older than this.
  bool AskedBefore(const Event& grant) const {
    return std::any_of(operation_.events.begin(), operation_.events.end(), [&](const Event& event) {
      return event.call == Call::kBegin && event.attempt == grant.attempt &&
             event.start_ns < grant.start_ns;
    });
  }

  void CheckPolicies() {
    for (const Event& event : operation_.events) {
      if (event.call != Call::kBegin) continue;
      const auto grants = [&event](OnLapse policy) {
        return policy == OnLapse::kRetry || (policy == OnLapse::kProbe && event.can_probe);
      };
      if (event.outcome == Outcome::kGranted) {
        if (event.recovery != (event.can_probe && !event.earlier_attempt.empty())) {
          Fault("a claim is wrongly marked as a recovery, or is not", event);
        }
        if (!event.earlier_attempt.empty() && !AskedBefore(event) &&
            !MayBeDecidedBy(event, grants)) {
          Fault("taken over against the policy", event);
        }
      }
      if (event.outcome == Outcome::kInDoubt) {
        if (!MayBeDecidedBy(event, [&](OnLapse policy) { return !grants(policy); })) {
          Fault("in doubt where the policy grants", event);
        }
        if (event.start_ns > receipt_known_ns_) Fault("in doubt after completion", event);
      }
    }
  }

  const std::string& id_;
  const Operation& operation_;
  const std::vector<PolicyPhase>& phases_;
  std::vector<std::string>& faults_;
  std::map<int64_t, Claim> claims_;  // by fence
  std::optional<ReceiptSeen> receipt_;
  int64_t receipt_known_ns_ = INT64_MAX;
};

}  // namespace

std::vector<std::string> Check(const History& history) {
  std::vector<std::string> faults;
  for (const auto& [id, operation] : history.operations) {
    OperationChecker(id, operation, history.phases, faults).Run();
  }
  return faults;
}

}  // namespace once::model
