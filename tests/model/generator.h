// Drives running servers with seeded random consumers and records what they see.
#ifndef ONCE_MODEL_GENERATOR_H_
#define ONCE_MODEL_GENERATOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "history.h"

namespace once::model {

struct GeneratorOptions {
  std::vector<std::string> servers;  // host:port, plaintext
  std::string token;                 // bearer credential of a consumer
  // Where set, the policy of this tenant changes while consumers run.
  std::string tenant;
  std::string admin_token;
  std::string operator_token;  // where set, doubts are resolved, some of them wrongly named
  uint64_t seed = 1;
  int consumers = 200;  // threads, each with one call at a time
  absl::Duration duration = absl::Seconds(10);
  // Operations that are worked on at the same time; a new one takes the place of one that has had
  // its time.
  int hot_operations = 80;
};

// Blocks for about `duration`. The choices of each consumer follow from the seed; how they
// interleave does not.
History Generate(const GeneratorOptions& options);

}  // namespace once::model

#endif  // ONCE_MODEL_GENERATOR_H_
