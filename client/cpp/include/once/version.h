// Version of the client library, as in the CMake package.
#ifndef ONCE_VERSION_H_
#define ONCE_VERSION_H_

#define ONCE_CLIENT_VERSION_MAJOR 0
#define ONCE_CLIENT_VERSION_MINOR 1
#define ONCE_CLIENT_VERSION_PATCH 0

namespace once {

// "0.1.0". A string with static storage.
const char* ClientVersion();

}  // namespace once

#endif  // ONCE_VERSION_H_
