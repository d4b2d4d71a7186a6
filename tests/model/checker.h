// The reference rules, checked over a whole history without knowing how the server works.
//
//   claims     a fence belongs to one attempt; fences and attempt numbers grow with each new claim;
//   a claim is granted only when
//              the one before was given back, or its lease was over and the grant shows an attempt
//              of unknown outcome
//   receipts   one receipt for an operation, the same bytes in every answer, made by an attempt
//   that was granted and sent them;
//              once it is known, nothing is granted or in progress
//   conflicts  one digest for an operation (unless it may be forgotten); another digest is a
//   conflict, the same never is losing     a Complete or Renew succeeds only while no later claim
//   is known; claim_lost has a cause answers    nothing that the protocol does not allow
//   policy     a lapsed claim is taken over only where a policy that may have been in force allows
//   it, in_doubt is said only where one forbids it, and recovery where there is something to probe
#ifndef ONCE_MODEL_CHECKER_H_
#define ONCE_MODEL_CHECKER_H_

#include <string>
#include <vector>

#include "history.h"

namespace once::model {

// One line for each violation: operation, rule, the two events. Empty: the history keeps the rules.
std::vector<std::string> Check(const History& history);

}  // namespace once::model

#endif  // ONCE_MODEL_CHECKER_H_
