// Who is measured. All do the cycle of work.h.
#ifndef ONCE_BENCH_CONTENDERS_H_
#define ONCE_BENCH_CONTENDERS_H_

#include <memory>
#include <string>
#include <vector>

#include "load.h"
#include "work.h"

namespace once::bench {

struct DatabaseTarget {
  std::string host;
  int port = 0;
  std::string user;
  std::string password_file;
  std::string database;
};

// An inbox table by hand: one connection per caller, prepared statements through the C API, one
// autocommit INSERT and one autocommit UPDATE per cycle. Makes its table where there is none.
std::unique_ptr<Contender> NewDirect(const DatabaseTarget& target, const Events& events);

enum class Mode : uint8_t {
  kCycle,   // Begin + Complete
  kBegin,   // Begin only: duplicates of completed events, or conflicts with `other_content`
  kLookup,  // Lookup only
  kMix,     // nine cycles with new events, one Begin of a completed event
  kHold,    // Begin only, with a lease that outlives the benchmark
  kWait,    // Begin of a held event, with a wait; settled if the wait ended without an outcome
};

struct OnceTarget {
  std::vector<std::string> addresses;  // channels, and with them callers, are spread over these
  std::string token;                   // empty: none (the empty server)
  std::string ca_file;                 // empty: plaintext
  int channels = 2;                    // shared by all callers
  int threads = 1;                     // that drive the calls, each with a completion queue
};

struct OnceWork {
  Mode mode = Mode::kCycle;
  int batch = 0;  // items per BatchBegin and BatchComplete; 0: unary calls
  bool other_content = false;
  uint64_t known_run = 0;  // Events run whose first `known` events are completed, or held
  uint64_t known = 0;
  int wait_seconds = 50;  // kWait
};

std::unique_ptr<Contender> NewOnce(const OnceTarget& target, const OnceWork& work,
                                   const Events& events);

// The server's pipeline in this process: its transactions without gRPC. Cycles, or with
// Mode::kBegin duplicates.
std::unique_ptr<Contender> NewPipeline(const DatabaseTarget& target, const OnceWork& work,
                                       const Events& events, int committers);

enum class Answers : uint8_t {
  kEmpty,     // empty messages
  kReceipts,  // Begin and Lookup answer as for a completed operation
  kNone,      // calls wait until their callers go
};

// A server that answers Begin, Complete and Lookup at once; serves until SIGTERM. Writes its port
// to `ports_file`.
int ServeEmpty(const std::string& ports_file, int threads, Answers answers);

}  // namespace once::bench

#endif  // ONCE_BENCH_CONTENDERS_H_
