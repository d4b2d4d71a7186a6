#include "onced_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

extern char** environ;

namespace once::testing_support {
namespace {

constexpr absl::Duration kStart = absl::Seconds(60);

pid_t Spawn(const std::vector<std::string>& arguments, int out, int err) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  if (err >= 0) posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  pid_t pid = -1;
  const int failed = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failed, 0) << "cannot start " << arguments[0];
  return failed == 0 ? pid : -1;
}

int WaitFor(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string Read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

// From {"grpc":"127.0.0.1:7447",…}.
int GrpcPort(const std::string& json) {
  const size_t key = json.find("\"grpc\"");
  if (key == std::string::npos) return 0;
  const size_t colon = json.find(':', json.find("127.0.0.1", key));
  int port = 0;
  const size_t end = json.find('"', colon);
  if (!absl::SimpleAtoi(json.substr(colon + 1, end - colon - 1), &port)) return 0;
  return port;
}

}  // namespace

OncedProcess::OncedProcess(std::vector<std::string> more_flags)
    : more_flags_(std::move(more_flags)) {
  std::string pattern = (std::filesystem::temp_directory_path() / "once-client-XXXXXX").string();
  folder_ = mkdtemp(pattern.data());
  Start();
}

OncedProcess::~OncedProcess() {
  Kill();
  std::filesystem::remove_all(folder_);
}

void OncedProcess::Start() {
  const std::string ports = folder_ + "/ports";
  std::filesystem::remove(ports);
  std::vector<std::string> arguments = {ONCED_PROGRAM,
                                        "dev",
                                        absl::StrCat("--data-dir=", folder_, "/data"),
                                        absl::StrCat("--listen=127.0.0.1:", port_),
                                        "--http-listen=127.0.0.1:0",
                                        absl::StrCat("--ports-file=", ports)};
  arguments.insert(arguments.end(), more_flags_.begin(), more_flags_.end());
  const int log = open((folder_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  pid_ = Spawn(arguments, log, log);
  close(log);
  const absl::Time deadline = absl::Now() + kStart;
  while (GrpcPort(Read(ports)) == 0) {
    int status = 0;
    if (absl::Now() > deadline || waitpid(pid_, &status, WNOHANG) == pid_) {
      ADD_FAILURE() << "onced does not serve: " << Read(folder_ + "/log");
      return;
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
  port_ = GrpcPort(Read(ports));
}

void OncedProcess::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  WaitFor(std::exchange(pid_, -1));
}

int OncedProcess::Stop() {
  kill(pid_, SIGTERM);
  return WaitFor(std::exchange(pid_, -1));
}

void OncedProcess::StartAgain() { Start(); }

std::string OncedProcess::address() const { return absl::StrCat("127.0.0.1:", port_); }

ConnectionOptions OncedProcess::Options(const std::string& endpoint) const {
  ConnectionOptions options;
  options.endpoints = {endpoint};
  options.transport = Transport::kPlaintextLoopback;
  options.token_file = token_file();
  return options;
}

Ended RunProgram(const std::vector<std::string>& arguments) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t pid = Spawn(arguments, ends[1], -1);
  close(ends[1]);
  Ended ended;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    ended.output.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  if (pid >= 0) ended.status = WaitFor(pid);
  return ended;
}

}  // namespace once::testing_support
