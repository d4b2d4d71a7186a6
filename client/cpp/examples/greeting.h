// The work of the quickstart, apart from main, so that a test can run it.
#ifndef ONCE_EXAMPLES_GREETING_H_
#define ONCE_EXAMPLES_GREETING_H_

#include <string>

#include "absl/status/statusor.h"
#include "once/client.h"

// Greets at most once per event, whoever asks how often.
inline absl::StatusOr<once::Executed> Greet(const once::Client& client, const std::string& event_id,
                                            const std::string& name) {
  return client.Execute({"example.greet", event_id}, once::Content::Raw(name),
                        [&](once::ExecutionContext&) {
                          return once::HandlerResult::Succeeded("Hello, " + name, "text/plain");
                        });
}

#endif  // ONCE_EXAMPLES_GREETING_H_
