// Where gRPC's own messages go. Left alone, they are written to stderr by whichever thread has
// them, and some are caused by strangers (failed handshakes).
//
// gRPC has one log for the whole process: the latest TransportLog has it, and its destructor gives
// it back to stderr. Thread-safe.
#ifndef ONCE_RPC_TRANSPORT_LOG_H_
#define ONCE_RPC_TRANSPORT_LOG_H_

#include <functional>

#include "absl/strings/string_view.h"

namespace once::rpc {

class TransportLog {
 public:
  // `sink` is called by one thread at a time, must not block and must not call gRPC. Does nothing
  // for an empty `sink`.
  explicit TransportLog(std::function<void(absl::string_view)> sink);
  ~TransportLog();

  TransportLog(const TransportLog&) = delete;
  TransportLog& operator=(const TransportLog&) = delete;
};

}  // namespace once::rpc

#endif  // ONCE_RPC_TRANSPORT_LOG_H_
