// The version of this build, from the project's CMakeLists.txt.
#ifndef ONCE_APP_VERSION_H_
#define ONCE_APP_VERSION_H_

#include "absl/strings/string_view.h"

namespace once::app {

absl::string_view Version();

}  // namespace once::app

#endif  // ONCE_APP_VERSION_H_
