// `onced dev`: a store in a local folder with a tenant and credentials that are just there. Not for
// production.
#ifndef ONCE_APP_DEV_H_
#define ONCE_APP_DEV_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "store/store.h"

namespace once::app {

struct DevStore {
  std::unique_ptr<store::Store> store;
  std::string data_dir;
  std::string credential_file;        // consumer of tenant "dev", all handlers
  std::string admin_credential_file;  // for AdminService
};

// Makes the folder (0700), the tables and, where they are missing or no longer good, the
// credentials (0600). Blocks. `clock` must outlive the store.
absl::StatusOr<DevStore> OpenDevStore(const std::string& data_dir, const base::Clock* clock);

// How to call the server, for people.
std::string DevInstructions(const DevStore& dev, absl::string_view grpc_address,
                            absl::string_view http_address);

}  // namespace once::app

#endif  // ONCE_APP_DEV_H_
