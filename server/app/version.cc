#include "app/version.h"

namespace once::app {

absl::string_view Version() { return ONCE_VERSION; }

}  // namespace once::app
