#include "app/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace once::app {
namespace {

double NumberAt(const std::vector<absl::string_view>& fields, size_t index) {
  double value = 0;
  if (index < fields.size() && absl::SimpleAtod(fields[index], &value)) return value;
  return 0;
}

double BootTimeSeconds() {
  std::ifstream stat("/proc/stat");
  for (std::string line; std::getline(stat, line);) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    if (fields[0] == "btime") return NumberAt(fields, 1);
  }
  return 0;
}

// Fields of /proc/self/stat after the program's name, which may hold spaces: the first is field 3
// of the manual.
double StartTimeSeconds() {
  std::ifstream stat("/proc/self/stat");
  std::string line;
  std::getline(stat, line);
  const size_t name_end = line.rfind(") ");
  if (name_end == std::string::npos) return 0;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(line).substr(name_end + 2), ' ');
  return BootTimeSeconds() + NumberAt(fields, 22 - 3) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::string line;
  std::getline(statm, line);
  return NumberAt(absl::StrSplit(line, ' '), 1) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double OpenFiles() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    ++count;
  }
  return count > 0 ? count - 1 : 0;  // but for the one that lists them
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    stats.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  }
  stats.start_time_seconds = StartTimeSeconds();
  stats.resident_bytes = ResidentBytes();
  stats.open_files = OpenFiles();
  return stats;
}

}  // namespace once::app
