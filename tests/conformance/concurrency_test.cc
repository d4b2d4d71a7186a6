// Several servers' committers at work on few keys, with an oracle.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "conformance/harness.h"
#include "conformance/history.h"
#include "support/fault_store.h"

namespace once::conformance {
namespace {

using test::Fault;
using test::FaultPoint;
using ::testing::IsEmpty;

constexpr int kThreads = 4;
constexpr int kBatches = 400;  // of each thread
constexpr int kKeysAtATime = 6;
constexpr int kMaxTries = 500;

// ONCE_TEST_SEED replays a run, as far as threads allow.
uint64_t Seed() {
  const char* seed = std::getenv("ONCE_TEST_SEED");
  return seed == nullptr ? std::random_device{}() : std::strtoull(seed, nullptr, 10);
}

// One committer with consumers of its own: makes random batches of the form that the pipeline
// makes.
class Worker {
 public:
  Worker(store::Store* store, History* history, core::OperationKey prefix, int number,
         uint64_t seed)
      : store_(store),
        history_(history),
        prefix_(std::move(prefix)),
        number_(number),
        random_(seed + static_cast<uint64_t>(number)) {}

  void Work() {
    for (int batch = 0; batch < kBatches; ++batch) {
      const std::vector<store::Command> commands = MakeBatch(batch);
      for (const store::Command& command : commands) history_->Sent(command);
      const std::vector<store::Answer> answers = Run(commands);
      ASSERT_EQ(answers.size(), commands.size());
      for (size_t i = 0; i < commands.size(); ++i) {
        history_->Answered(commands[i], answers[i]);
        Remember(commands[i], answers[i]);
      }
    }
  }

 private:
  struct Held {
    core::OperationKey key;
    core::ClaimInfo claim;
  };

  size_t Pick(size_t count) { return static_cast<size_t>(random_() % count); }
  bool Chance(int percent) { return random_() % 100 < static_cast<uint64_t>(percent); }

  // The window of keys moves on, as completed operations are of no interest soon.
  core::OperationKey PickKey(int batch) {
    core::OperationKey key = prefix_;
    key.event_id = absl::StrCat("key-", batch / 10 + static_cast<int>(Pick(kKeysAtATime)));
    return key;
  }

  // Begins may share a key; any other command has its key for itself.
  std::vector<store::Command> MakeBatch(int batch) {
    std::vector<store::Command> commands;
    std::set<core::OperationKey> used;
    for (size_t i = 1 + Pick(5); i > 0; --i) {
      if (!held_.empty() && Chance(50)) {
        const Held held = held_[Pick(held_.size())];
        if (used.insert(held.key).second) commands.push_back(OwnersCommand(held));
        continue;
      }
      const core::OperationKey key = PickKey(batch);
      if (!used.insert(key).second) continue;
      for (size_t n = 1 + Pick(2); n > 0; --n) {
        commands.push_back(BeginCommand(key, MakeBegin()));
      }
    }
    std::shuffle(commands.begin(), commands.end(), random_);
    return commands;
  }

  core::BeginRequest MakeBegin() {
    core::BeginRequest request =
        BeginOf(AttemptNumber((static_cast<uint64_t>(number_) << 32) + ++attempts_),
                Chance(15) ? "other content" : "content");
    if (!begun_.empty() && Chance(20)) request.attempt = begun_[Pick(begun_.size())];
    begun_.push_back(request.attempt);
    request.lease = Chance(60) ? absl::Milliseconds(1 + Pick(4)) : absl::Minutes(10);
    request.on_lapse = Chance(30) ? core::LapsePolicy::kInDoubt : core::LapsePolicy::kRetry;
    return request;
  }

  store::Command OwnersCommand(const Held& held) {
    switch (Pick(5)) {
      case 0:
        return CompleteCommand(held.key, CompleteOf(held.claim, Result()));
      case 1:
        return RenewCommand(held.key, RenewOf(held.claim, absl::Milliseconds(1 + Pick(20))));
      case 2:
        return AbandonCommand(held.key, ForgetOf(held.claim), "forget");
      case 3:
        return AbandonCommand(held.key,
                              ReleaseOf(held.claim, absl::Milliseconds(Chance(20) ? Pick(4) : 0)),
                              "release");
      default: {
        core::BeginRequest again = BeginOf(held.claim.attempt);
        again.lease = absl::Milliseconds(1 + Pick(20));
        return BeginCommand(held.key, again);
      }
    }
  }

  std::string Result() { return RandomBytes(Chance(20) ? 600 + Pick(3000) : Pick(100), random_()); }

  void Remember(const store::Command& command, const store::Answer& answer) {
    const auto* begin = std::get_if<core::BeginOutcome>(&answer);
    if (begin == nullptr) return;
    if (const auto* granted = std::get_if<core::Granted>(begin)) {
      held_.push_back({store::KeyOf(command), granted->claim});
      // Forgets a claim sometimes: its owner has died.
      if (held_.size() > 8) held_.erase(held_.begin());
    }
  }

  // With the repeats that store.h asks for.
  std::vector<store::Answer> Run(const std::vector<store::Command>& commands) {
    bool repeated = false;
    absl::Status last;
    for (int tries = 0; tries < kMaxTries; ++tries) {
      if (session_ == nullptr || !session_->usable()) {
        auto opened = store_->OpenWriteSession();
        if (!opened.ok()) {
          last = opened.status();
          continue;
        }
        session_ = *std::move(opened);
      }
      auto answers = store::RunBatch(*session_, commands, repeated);
      if (answers.ok()) return *std::move(answers);
      last = answers.status();
      repeated = repeated || absl::IsUnknown(last);
      if (!absl::IsAborted(last) && !absl::IsUnavailable(last) && !absl::IsUnknown(last)) break;
      if (tries > 0) absl::SleepFor(absl::Microseconds(Pick(1000)));  // as committers back off
    }
    ADD_FAILURE() << last;
    return {};
  }

  store::Store* const store_;
  History* const history_;
  const core::OperationKey prefix_;
  const int number_;
  std::mt19937_64 random_;
  std::unique_ptr<store::WriteSession> session_;
  uint64_t attempts_ = 0;
  std::vector<core::AttemptId> begun_;
  std::vector<Held> held_;
};

class ConcurrencyTest : public OperationTest {
 protected:
  // Runs the workers on `stores` in turn and checks everything.
  void RunWorkers(const std::vector<store::Store*>& stores) {
    const uint64_t seed = Seed();
    SCOPED_TRACE(absl::StrCat("ONCE_TEST_SEED=", seed));
    History history;
    std::vector<std::unique_ptr<Worker>> workers;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      workers.push_back(std::make_unique<Worker>(stores[static_cast<size_t>(i) % stores.size()],
                                                 &history, Key(""), i, seed));
    }
    for (auto& worker : workers) {
      threads.emplace_back([&worker] { worker->Work(); });
    }
    for (std::thread& thread : threads) thread.join();
    Check(history);
  }

  void Check(const History& history) {
    EXPECT_THAT(history.Violations(), IsEmpty());
    for (const core::OperationKey& key : history.keys()) {
      const auto row = Row(key);
      EXPECT_THAT(history.ViolationsAtEnd(key, row, Attempts(key).size()), IsEmpty());
    }
    const auto outcomes = history.outcomes();
    for (const char* name : {"Granted", "Completed", "Completed (replayed)", "InProgress",
                             "Conflict", "ClaimLost", "Abandoned", "Renewed"}) {
      EXPECT_GT(outcomes.contains(name) ? outcomes.at(name) : 0, 0) << "never met: " << name;
    }
  }

  // The process's store, and a second server where the engine can have one.
  std::vector<store::Store*> Servers() {
    std::vector<store::Store*> servers = {&store()};
    if (database().several_servers()) {
      second_ = database().Open();
      servers.push_back(second_.get());
    }
    return servers;
  }

 private:
  std::unique_ptr<store::Store> second_;
};
INSTANTIATE_TEST_SUITE_P(, ConcurrencyTest, ::testing::Values(false),
                         [](const auto&) { return "plain"; });

TEST_P(ConcurrencyTest, PromisesHoldForServersAtWorkOnTheSameKeys) { RunWorkers(Servers()); }

TEST_P(ConcurrencyTest, PromisesHoldWhereTransactionsFailAndCommitsAreUnknown) {
  test::FaultScript script;
  script.Random(Seed(),
                {{FaultPoint::kOpen, {Fault::kUnavailable}},
                 {FaultPoint::kTouchAndRead, {Fault::kAborted, Fault::kUnavailable}},
                 {FaultPoint::kWrite, {Fault::kAborted, Fault::kUnavailable}},
                 {FaultPoint::kCommit,
                  {Fault::kAborted, Fault::kUnavailable, Fault::kUnknownDone, Fault::kUnknownDone,
                   Fault::kUnknownLost}}},
                0.15);
  std::vector<std::unique_ptr<test::FaultStore>> faulty;
  std::vector<store::Store*> stores;
  for (store::Store* server : Servers()) {
    faulty.push_back(std::make_unique<test::FaultStore>(server, &script));
    stores.push_back(faulty.back().get());
  }
  RunWorkers(stores);
  EXPECT_GT(script.played(FaultPoint::kCommit), 0);
}

// ---- one key, many attempts (A6) ----

TEST_P(ConcurrencyTest, OneOfManyAttemptsIsGrantedInEachRound) {
  constexpr int kRounds = 20;
  const std::vector<store::Store*> servers = Servers();
  std::vector<std::unique_ptr<store::WriteSession>> sessions;
  for (size_t i = 0; i < kThreads; ++i) {
    sessions.push_back(*servers[i % servers.size()]->OpenWriteSession());
  }
  for (int round = 0; round < kRounds; ++round) {
    const core::OperationKey key = Key(absl::StrCat("round-", round));
    std::atomic<int> granted{0};
    std::atomic<int> in_progress{0};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const std::vector<store::Command> commands = {BeginCommand(key, BeginOf(NewAttempt()))};
        auto answers = store::RunBatch(*sessions[i], commands, false);
        while (absl::IsAborted(answers.status())) {
          answers = store::RunBatch(*sessions[i], commands, false);
        }
        ASSERT_TRUE(answers.ok()) << answers.status();
        const auto& outcome = std::get<core::BeginOutcome>(answers->at(0));
        if (std::holds_alternative<core::Granted>(outcome)) ++granted;
        if (std::holds_alternative<core::InProgress>(outcome)) ++in_progress;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(granted, 1);
    EXPECT_EQ(in_progress, kThreads - 1);
  }
}

}  // namespace
}  // namespace once::conformance
