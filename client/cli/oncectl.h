// oncectl: Once from the command line, for people and scripts.
#ifndef ONCE_CLIENT_CLI_ONCECTL_H_
#define ONCE_CLIENT_CLI_ONCECTL_H_

#include <functional>
#include <istream>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "exit_code.h"
#include "once/admin.h"
#include "once/connection.h"
#include "once/operator.h"
#include "once/options.h"

namespace once::cli {

// What a run touches, so that tests can put something else there.
struct World {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  std::function<absl::StatusOr<std::shared_ptr<Connection>>(ConnectionOptions)> connect;
  std::function<absl::StatusOr<std::shared_ptr<AdminConnection>>(ConnectionOptions)> connect_admin;
  std::function<absl::StatusOr<std::shared_ptr<OperatorConnection>>(ConnectionOptions)>
      connect_operator;
};

// `arguments` without the program's name. Blocks until done.
ExitCode Run(const std::vector<std::string>& arguments, World& world);

}  // namespace once::cli

#endif  // ONCE_CLIENT_CLI_ONCECTL_H_
