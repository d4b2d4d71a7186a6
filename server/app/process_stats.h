// What the operating system says about this process. Thread-safe; reads /proc, so it does not
// belong on an RPC thread.
#ifndef ONCE_APP_PROCESS_STATS_H_
#define ONCE_APP_PROCESS_STATS_H_

namespace once::app {

// Zero where the system does not tell.
struct ProcessStats {
  double start_time_seconds = 0;  // Unix time
  double cpu_seconds = 0;
  double resident_bytes = 0;
  double open_files = 0;
};

ProcessStats ReadProcessStats();

}  // namespace once::app

#endif  // ONCE_APP_PROCESS_STATS_H_
