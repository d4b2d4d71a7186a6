// once-bench CONTENDER [options]: one measurement, one JSON object on standard output.
// tests/bench/run makes tables of them.
//
//   direct | pipeline | pipeline-duplicate      --host --port --user --password-file --database
//   unary | batch | duplicate | conflict | lookup | mix | hold | wait | empty      --server
//   --token-file [--ca] serve-empty            --ports-file --answers
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/synchronization/mutex.h"
#include "contenders.h"

namespace once::bench {
namespace {

struct Options {
  std::string contender;
  DatabaseTarget database;
  OnceTarget once;
  std::string token_file;
  std::string ports_file;
  LoadOptions load;
  double seconds = 5;
  double warm_up_seconds = 0.5;
  int batch = 64;
  int committers = 1;
  uint64_t run = 0;
  uint64_t known_run = 0;
  uint64_t known = 0;
  int wait_seconds = 50;
  size_t result_bytes = kResultBytes;
  std::string ids = "time";
  Answers answers = Answers::kEmpty;
};

OnceWork WorkOf(const Options& options) {
  OnceWork work{
      .known_run = options.known_run, .known = options.known, .wait_seconds = options.wait_seconds};
  if (options.contender == "batch") work.batch = options.batch;
  for (const char* begins : {"duplicate", "conflict", "pipeline-duplicate"}) {
    if (options.contender == begins) work.mode = Mode::kBegin;
  }
  if (options.contender == "lookup") work.mode = Mode::kLookup;
  if (options.contender == "mix") work.mode = Mode::kMix;
  if (options.contender == "hold") work.mode = Mode::kHold;
  if (options.contender == "wait") work.mode = Mode::kWait;
  work.other_content = options.contender == "conflict";
  return work;
}

std::unique_ptr<Contender> Make(const Options& options, const Events& events) {
  if (options.contender == "direct") return NewDirect(options.database, events);
  if (options.contender == "pipeline" || options.contender == "pipeline-duplicate")
    return NewPipeline(options.database, WorkOf(options), events, options.committers);
  return NewOnce(options.once, WorkOf(options), events);
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int Measure(Options& options) {
  if (!options.token_file.empty()) std::ifstream(options.token_file) >> options.once.token;
  options.load.duration = absl::Seconds(options.seconds);
  options.load.warm_up =
      options.load.cycles > 0 ? absl::ZeroDuration() : absl::Seconds(options.warm_up_seconds);
  const Events events(options.run, options.ids == "random" ? IdOrder::kRandom : IdOrder::kTime,
                      options.result_bytes);
  const std::unique_ptr<Contender> contender = Make(options, events);
  const LoadResult result = RunLoad(*contender, options.load);
  const auto operations = static_cast<double>(result.operations);
  std::cout << nlohmann::json{{"contender", options.contender},
                              {"callers", options.load.callers},
                              {"run", events.run()},
                              {"cycles", result.cycles},
                              {"operations", result.operations},
                              {"all_operations", result.all_operations},
                              {"failures", result.failures},
                              {"seconds", result.seconds},
                              {"per_second", operations / result.seconds},
                              {"p50_us", result.latency.Percentile(50)},
                              {"p99_us", result.latency.Percentile(99)},
                              {"p999_us", result.latency.Percentile(99.9)},
                              {"generator_cpu_s", CpuSeconds()}}
                   .dump()
            << std::endl;
  return result.operations > 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("One measurement; see tests/bench/run");
  app.add_option("contender", options.contender)->required();
  app.add_option("--host", options.database.host);
  app.add_option("--port", options.database.port);
  app.add_option("--user", options.database.user);
  app.add_option("--password-file", options.database.password_file);
  app.add_option("--database", options.database.database);
  app.add_option("--server", options.once.addresses, "may be repeated: callers are spread");
  app.add_option("--token-file", options.token_file);
  app.add_option("--ca", options.once.ca_file);
  app.add_option("--channels", options.once.channels);
  app.add_option("--threads", options.once.threads, "that drive the calls to a server");
  app.add_option("--ports-file", options.ports_file);
  app.add_option("--callers", options.load.callers);
  app.add_option("--seconds", options.seconds);
  app.add_option("--warm-up", options.warm_up_seconds);
  app.add_option("--rate", options.load.rate, "cycles a second, open loop");
  app.add_option("--cycles", options.load.cycles);
  app.add_option("--batch", options.batch);
  app.add_option("--committers", options.committers);
  app.add_option("--run", options.run, "names the events; 0: new ones");
  app.add_option("--known-run", options.known_run);
  app.add_option("--known", options.known);
  app.add_option("--wait-seconds", options.wait_seconds, "of contender wait");
  app.add_option("--result-bytes", options.result_bytes);
  app.add_option("--ids", options.ids)->check(CLI::IsMember({"time", "random"}));
  app.add_option("--answers", options.answers, "of serve-empty")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Answers>{
          {"empty", Answers::kEmpty}, {"receipts", Answers::kReceipts}, {"none", Answers::kNone}}));
  CLI11_PARSE(app, argc, argv);
  if (options.contender == "serve-empty")
    return ServeEmpty(options.ports_file, options.once.threads, options.answers);
  try {
    return Measure(options);
  } catch (const std::exception& error) {
    std::cerr << "once-bench: " << error.what() << "\n";
    return 1;
  }
}

}  // namespace
}  // namespace once::bench

int main(int argc, char** argv) {
  // Debian builds Abseil, and with it gRPC, with a search for deadlocks at every lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return once::bench::Main(argc, argv);
}
