// What each subcommand does. Functions return the process's exit code and print to the standard
// streams; they block.
#ifndef ONCE_APP_COMMANDS_H_
#define ONCE_APP_COMMANDS_H_

#include "app/logging.h"
#include "app/settings.h"
#include "app/signals.h"

namespace once::app {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

int RunServe(const Settings& settings, ShutdownSignals& signals, Log& log);
int RunDev(const Settings& settings, ShutdownSignals& signals, Log& log);
int RunMigrate(const Settings& settings, ShutdownSignals& signals, Log& log);
int RunBootstrap(const Settings& settings, ShutdownSignals& signals, Log& log);
int RunHealth(const Settings& settings);

}  // namespace once::app

#endif  // ONCE_APP_COMMANDS_H_
