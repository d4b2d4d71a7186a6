// What the tests of this folder share: the program's server, a migrated database of the test's own,
// short ways to commands.
#ifndef ONCE_TESTS_INTEGRATION_MYSQL_MYSQL_FIXTURE_H_
#define ONCE_TESTS_INTEGRATION_MYSQL_MYSQL_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/batch.h"
#include "store/store.h"
#include "support/database.h"

namespace once::testing {

// Of the engine that --engine names.
DatabaseServer& Server();
DatabaseEngine Engine();

core::OperationKey KeyOf(const std::string& event_id);
core::AttemptId Attempt(uint8_t number);
store::NewOperation InsertOf(const std::string& event_id, uint8_t attempt = 1);
store::Command BeginOf(const std::string& event_id, uint8_t attempt = 1);
store::Command CompleteOf(const std::string& event_id, core::Fence fence, std::string result,
                          uint8_t attempt = 1);

// Repeats ABORTED batches as the pipeline does.
absl::StatusOr<std::vector<store::Answer>> RunUntilDone(store::WriteSession& session,
                                                        const std::vector<store::Command>& commands,
                                                        bool repeated = false);

class MysqlStoreTest : public ::testing::Test {
 protected:
  MysqlStoreTest() : database_(Server()), store_(database_.OpenMigrated()) {}

  // A failure of the test where it cannot be had.
  std::unique_ptr<store::WriteSession> Write();
  std::unique_ptr<store::WriteSession> Write(store::Store& store);
  // Begins one operation and commits; its claim.
  core::ClaimInfo Begin(store::WriteSession& session, const std::string& event_id,
                        uint8_t attempt = 1);
  int64_t Count(const std::string& table);
  // Id of the connection that runs or ran `sql_part` last; for KILL.
  std::string ConnectionOf(const std::string& condition);

  TestDatabase database_;
  std::unique_ptr<store::Store> store_;
};

}  // namespace once::testing

#endif  // ONCE_TESTS_INTEGRATION_MYSQL_MYSQL_FIXTURE_H_
