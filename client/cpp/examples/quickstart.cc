// The smallest consumer: quickstart SERVER TOKEN-FILE EVENT-ID NAME
//
// Run it twice with the same event id: the second run is told what the first one did. Run it with
// another name: a conflict.
#include <cstdio>
#include <string>

#include "greeting.h"
#include "once/client.h"

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s SERVER TOKEN-FILE EVENT-ID NAME\n", argv[0]);
    return 2;
  }
  once::ConnectionOptions options;
  options.endpoints = {argv[1]};
  options.token_file = argv[2];
  if (once::IsLoopbackEndpoint(argv[1])) options.transport = once::Transport::kPlaintextLoopback;
  const auto connection = once::MakeConnection(options);
  if (!connection.ok()) {
    std::fprintf(stderr, "%s\n", connection.status().ToString().c_str());
    return 1;
  }
  const once::Client client(*connection);

  const auto executed = Greet(client, argv[3], argv[4]);
  if (!executed.ok()) {
    const once::ErrorInfo info = once::ErrorInfoOf(executed.status());
    std::fprintf(stderr, "%s: %s\n", std::string(once::ToString(info.reason)).c_str(),
                 std::string(executed.status().message()).c_str());
    return 1;
  }
  std::printf("%s%s\n", executed->receipt.result.c_str(),
              executed->replayed ? " (said before)" : "");
  return 0;
}
