// The program onced with an embedded store and credentials of its own, for one test.
//
// Everything lies in one temporary folder; the destructor kills the process and removes the folder.
#ifndef ONCE_TESTS_INTEGRATION_CLIENT_ONCED_PROCESS_H_
#define ONCE_TESTS_INTEGRATION_CLIENT_ONCED_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "once/options.h"

namespace once::testing_support {

class OncedProcess {
 public:
  // Starts, and returns when calls are answered. Fails the test otherwise.
  explicit OncedProcess(std::vector<std::string> more_flags = {});
  ~OncedProcess();
  OncedProcess(const OncedProcess&) = delete;
  OncedProcess& operator=(const OncedProcess&) = delete;

  void Kill();        // SIGKILL, and waits for its end
  int Stop();         // SIGTERM; the exit status
  void StartAgain();  // on the same port, with the same data

  std::string address() const;  // 127.0.0.1:port
  int port() const { return port_; }
  std::string folder() const { return folder_; }
  std::string token_file() const { return folder_ + "/data/credential"; }
  std::string admin_token_file() const { return folder_ + "/data/admin-credential"; }

  // To this server, or to whatever stands in front of it.
  ConnectionOptions Options() const { return Options(address()); }
  ConnectionOptions Options(const std::string& endpoint) const;

 private:
  void Start();

  const std::vector<std::string> more_flags_;
  std::string folder_;
  int port_ = 0;
  pid_t pid_ = -1;
};

// Runs a program to its end: exit status and standard output.
struct Ended {
  int status = -1;
  std::string output;
};
Ended RunProgram(const std::vector<std::string>& arguments);

}  // namespace once::testing_support

#endif  // ONCE_TESTS_INTEGRATION_CLIENT_ONCED_PROCESS_H_
