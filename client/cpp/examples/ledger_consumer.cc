// A consumer that grants points: ledger_consumer SERVER TOKEN-FILE DATABASE [--crash-after-commit]
// < messages
//
// A message is a line "EVENT-ID ACCOUNT POINTS". For each it prints a line "EVENT-ID WORD BALANCE":
// `granted` where it booked, `recovered` where an earlier attempt had booked and died before it
// could say so, `replayed` where all was done before; or "EVENT-ID REASON" where the message must
// not be acknowledged. Deliver what you like as often as you like, also from several processes at
// once.
//
// With --crash-after-commit the process dies between its own commit and telling Once: the one
// moment that needs the fence table.
#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "ledger.h"
#include "once/client.h"

namespace {

struct Message {
  std::string event_id;
  std::string account;
  int64_t points = 0;
  std::string bytes;
};

bool Parse(const std::string& line, Message& message) {
  std::istringstream fields(line);
  message.bytes = line;
  return static_cast<bool>(fields >> message.event_id >> message.account >> message.points);
}

class Consumer {
 public:
  Consumer(once::Client client, std::unique_ptr<Ledger> ledger, bool crash_after_commit)
      : client_(std::move(client)),
        ledger_(std::move(ledger)),
        crash_after_commit_(crash_after_commit) {}

  // False: not to be acknowledged.
  bool Handle(const Message& message) {
    const char* word = "granted";
    const auto executed = client_.Execute(
        {"points.grant", message.event_id}, once::Content::Raw(message.bytes),
        [&](once::ExecutionContext& context) { return Grant(context, message, word); }, Options());
    if (!executed.ok()) {
      std::cout << message.event_id << " " << once::ToString(once::ReasonOf(executed.status()))
                << std::endl;
      std::cerr << executed.status() << std::endl;
      return false;
    }
    std::cout << message.event_id << " " << (executed->replayed ? "replayed" : word) << " "
              << executed->receipt.result << std::endl;
    return true;
  }

 private:
  static once::ExecuteOptions Options() {
    once::ExecuteOptions options;
    options.consumer = "ledger-" + std::to_string(getpid());
    options.lease = absl::Seconds(2);  // how long others wait after a crash
    options.wait = absl::Seconds(30);
    return options;
  }

  absl::StatusOr<once::HandlerResult> Grant(once::ExecutionContext& context, const Message& message,
                                            const char*& word) {
    // Somebody was here before and fell silent: did it happen?
    if (context.earlier_attempt().has_value()) {
      auto done = ledger_->FindEffect(context.operation());
      if (!done.ok()) return done.status();
      if (done->has_value()) {
        word = "recovered";
        return once::HandlerResult::Succeeded(**done, "text/plain");
      }
    }
    auto balance =
        ledger_->Book(context.operation(), context.fence(), message.account, message.points);
    if (absl::IsAlreadyExists(balance.status())) {
      // The silent one was only slow, and booked after we asked. What it did stands.
      auto done = ledger_->FindEffect(context.operation());
      if (!done.ok()) return done.status();
      word = "recovered";
      return once::HandlerResult::Succeeded(done->value_or(""), "text/plain");
    }
    if (!balance.ok()) return balance.status();
    if (crash_after_commit_) _exit(9);
    return once::HandlerResult::Succeeded(*balance, "text/plain");
  }

  const once::Client client_;
  const std::unique_ptr<Ledger> ledger_;
  const bool crash_after_commit_;
};

}  // namespace

int main(int argc, char** argv) {
  const bool crash = argc == 5 && std::string(argv[4]) == "--crash-after-commit";
  if (argc != 4 && !crash) {
    std::cerr << "usage: " << argv[0] << " SERVER TOKEN-FILE DATABASE [--crash-after-commit]\n";
    return 2;
  }
  once::ConnectionOptions options;
  options.endpoints = {argv[1]};
  options.token_file = argv[2];
  if (once::IsLoopbackEndpoint(argv[1])) options.transport = once::Transport::kPlaintextLoopback;
  auto connection = once::MakeConnection(options);
  if (!connection.ok()) {
    std::cerr << connection.status() << "\n";
    return 1;
  }
  auto ledger = Ledger::Open(argv[3]);
  if (!ledger.ok()) {
    std::cerr << ledger.status() << "\n";
    return 1;
  }
  Consumer consumer(once::Client(*std::move(connection)), *std::move(ledger), crash);
  bool all = true;
  for (std::string line; std::getline(std::cin, line);) {
    Message message;
    if (!Parse(line, message)) {
      std::cerr << "not a message: " << line << "\n";
      all = false;
      continue;
    }
    all = consumer.Handle(message) && all;
  }
  return all ? 0 : 1;
}
