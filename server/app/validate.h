// Rules between settings, after each was checked for itself.
#ifndef ONCE_APP_VALIDATE_H_
#define ONCE_APP_VALIDATE_H_

#include <string>
#include <vector>

#include "app/settings.h"

namespace once::app {

// All rules that `settings` breaks, each naming the flags, their values and the limit. Looks
// whether named files can be read (blocks on that); opens nothing. Thread-safe.
std::vector<std::string> Validate(Command command, const Settings& settings);

}  // namespace once::app

#endif  // ONCE_APP_VALIDATE_H_
