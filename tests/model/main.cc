// once_model: drives servers that run already and checks what came back.
//
//   once_model --server HOST:PORT [--server …] --token-file FILE [--seed N] [--seconds N]
//   [--consumers N] [--tenant NAME --admin-token-file FILE] [--operator-token-file FILE]
//
// With an admin's token the tenant's policy changes while it runs: RETRY, PROBE, IN_DOUBT in turn.
// With an operator's, consumers that meet a doubt decide it, and also try what they must not.
//
// Prints the counts, then one line per violation. Exit status 0: none; 1: some; 2: usage; 3: too
// little happened to say anything.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>

#include "checker.h"
#include "generator.h"

namespace {

constexpr std::array<const char*, 14> kOutcomes = {
    "errors",    "granted",   "completed",      "in progress", "conflict",
    "in doubt",  "unclaimed", "not found",      "claim lost",  "completion conflict",
    "abandoned", "renewed",   "found not done", "unexpected"};

}  // namespace

int main(int argc, char** argv) {
  once::model::GeneratorOptions options;
  std::string token_file;
  std::string admin_token_file;
  std::string operator_token_file;
  int seconds = 10;
  CLI::App app("Checks seeded random histories against the reference rules");
  app.add_option("--server", options.servers)->required();
  app.add_option("--token-file", token_file)->required();
  app.add_option("--seed", options.seed);
  app.add_option("--seconds", seconds);
  app.add_option("--consumers", options.consumers);
  app.add_option("--admin-token-file", admin_token_file)
      ->needs(app.add_option("--tenant", options.tenant));
  app.add_option("--operator-token-file", operator_token_file);
  CLI11_PARSE(app, argc, argv);
  std::ifstream(token_file) >> options.token;
  if (!admin_token_file.empty()) std::ifstream(admin_token_file) >> options.admin_token;
  if (!operator_token_file.empty()) std::ifstream(operator_token_file) >> options.operator_token;
  options.duration = absl::Seconds(seconds);

  const once::model::History history = once::model::Generate(options);
  std::array<int, kOutcomes.size()> counts{};
  int calls = 0;
  int take_overs = 0;
  std::string example;
  for (const auto& [id, operation] : history.operations) {
    for (const auto& event : operation.events) {
      ++calls;
      ++counts[static_cast<size_t>(event.outcome)];
      if (event.outcome == once::model::Outcome::kGranted && !event.earlier_attempt.empty())
        ++take_overs;
      if (event.outcome == once::model::Outcome::kError) example = event.error;
    }
  }
  std::cout << "seed " << options.seed << ": " << history.operations.size() << " operations, "
            << calls << " calls, " << take_overs << " grants with an earlier attempt\n";
  for (size_t i = 0; i < counts.size(); ++i)
    std::cout << "  " << kOutcomes[i] << ": " << counts[i] << "\n";
  if (!example.empty()) std::cout << "  last error: " << example << "\n";

  const std::vector<std::string> faults = once::model::Check(history);
  for (size_t i = 0; i < faults.size() && i < 50; ++i)
    std::cout << "VIOLATION " << faults[i] << "\n";
  std::cout << "violations: " << faults.size() << "\n";
  if (!faults.empty()) return 1;
  // A run in which nothing happened proves nothing.
  const bool changed = (options.admin_token.empty() || counts[5] > 0) &&
                       (options.operator_token.empty() || counts[12] > 0);
  return calls < 200 || counts[1] == 0 || counts[2] == 0 || counts[4] == 0 || !changed ? 3 : 0;
}
