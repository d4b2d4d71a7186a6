#include "app/settings_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "app/flags.h"

namespace once::app {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class SettingsLoaderTest : public ::testing::Test {
 protected:
  SettingsLoaderTest() {
    input_.command = Command::kServe;
    input_.command_line["store"] = {"sqlite:/tmp/once.db"};
  }
  ~SettingsLoaderTest() override { std::filesystem::remove(path_); }

  void UseFlagFile(const std::string& text) {
    path_ = absl::StrCat(::testing::TempDir(), "/flags-", getpid(), "-",
                         ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::ofstream(path_) << text;
    input_.flagfile = path_;
  }

  LoadResult Load() const { return LoadSettings(input_); }

  std::string path_;
  LoadInput input_;
};

TEST_F(SettingsLoaderTest, DefaultsAreValid) {
  const LoadResult result = Load();
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_THAT(result.warnings, IsEmpty());
  EXPECT_THAT(result.settings.rpc.listen_addresses, ElementsAre("127.0.0.1:7447"));
  EXPECT_EQ(result.settings.http_listen, "127.0.0.1:7448");
  EXPECT_EQ(result.settings.rpc.limits.max_wait, absl::Seconds(60));
}

TEST_F(SettingsLoaderTest, FlagBeatsVariableBeatsFileBeatsDefault) {
  UseFlagFile("max-wait=1s\nreaders=2\ncommitters=3\n");
  input_.environment = {{"ONCED_MAX_WAIT", "10s"}, {"ONCED_READERS", "20"}};
  input_.command_line["max-wait"] = {"30s"};
  const LoadResult result = Load();
  ASSERT_THAT(result.problems, IsEmpty());
  EXPECT_EQ(result.settings.rpc.limits.max_wait, absl::Seconds(30));
  EXPECT_EQ(result.settings.pipeline.readers, 20);
  EXPECT_EQ(result.settings.pipeline.committers, 3);
}

TEST_F(SettingsLoaderTest, AValueThatIsOverruledIsNotLookedAt) {
  input_.environment = {{"ONCED_MAX_WAIT", "nonsense"}};
  input_.command_line["max-wait"] = {"30s"};
  EXPECT_THAT(Load().problems, IsEmpty());
}

TEST_F(SettingsLoaderTest, StrongestPlaceGivesTheWholeList) {
  UseFlagFile("listen=127.0.0.1:1\n");
  input_.command_line["listen"] = {"127.0.0.1:2, [::1]:3", "localhost:4"};
  EXPECT_THAT(Load().settings.rpc.listen_addresses,
              ElementsAre("127.0.0.1:2", "[::1]:3", "localhost:4"));
}

TEST_F(SettingsLoaderTest, LastValueOnTheCommandLineCounts) {
  input_.command_line["committers"] = {"3", "5"};
  EXPECT_EQ(Load().settings.pipeline.committers, 5);
}

TEST_F(SettingsLoaderTest, FlagFileMayBeNamedByTheEnvironment) {
  UseFlagFile("# comment\n\n  --readers = 7 \nmigrate\n");
  input_.environment = {{"ONCED_FLAGFILE", path_}};
  input_.flagfile.clear();
  const LoadResult result = Load();
  ASSERT_THAT(result.problems, IsEmpty());
  EXPECT_EQ(result.settings.pipeline.readers, 7);
  EXPECT_TRUE(result.settings.migrate);
}

TEST_F(SettingsLoaderTest, AllProblemsAreListedWithNameValueAndLimit) {
  UseFlagFile("retry-window=-1s\nno-such-flag=1\n=1\n");
  input_.environment = {{"ONCED_READERS", "0"}};
  input_.command_line["committers"] = {"many"};
  input_.command_line["max-result-bytes"] = {"65MiB"};
  input_.command_line["log-format"] = {"xml"};
  input_.command_line["migrate"] = {"perhaps"};
  input_.command_line["listne"] = {"1"};
  input_.command_line["data-dir"] = {"/tmp"};
  EXPECT_THAT(
      Load().problems,
      UnorderedElementsAre(
          absl::StrCat(path_, ":3: must be a line name=value"),
          absl::StrCat("--no-such-flag (", path_, "): there is no such flag"),
          "--listne: there is no such flag", "--data-dir: not a flag of `onced serve`",
          "--migrate=perhaps: must be true or false", "--committers=many: must be a whole number",
          "--max-result-bytes=65MiB: must be 1 to 64MiB",
          "--log-format=xml: must be one of text, json",
          "--readers=0 (ONCED_READERS): must be 1 to 256",
          absl::StrCat("--retry-window=-1s (", path_,
                       "): must be a duration with its unit, such as 500ms, 30s or 5m")));
}

TEST_F(SettingsLoaderTest, MissingFlagFileIsAProblem) {
  input_.flagfile = "/does/not/exist";
  EXPECT_THAT(Load().problems,
              ElementsAre(HasSubstr("--flagfile=/does/not/exist: cannot be opened")));
}

TEST_F(SettingsLoaderTest, FlagsOfOtherCommandsInTheFileAreIgnored) {
  UseFlagFile("committers=2\nlisten=nonsense\n");
  input_.command = Command::kMigrate;
  EXPECT_THAT(Load().problems, IsEmpty());
}

TEST_F(SettingsLoaderTest, UnknownVariablesAreWarnedAbout) {
  input_.environment = {{"ONCED_PORT", "tcp://10.0.0.1:7447"}, {"ONCE_TOKEN_FILE", "x"}};
  const LoadResult result = Load();
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("ONCED_PORT")));
}

TEST_F(SettingsLoaderTest, APasswordInTheUriIsRefusedAndNotRepeated) {
  input_.command_line.clear();
  input_.command_line["mysql-uri"] = {"mysql://once:hunter2@db/once"};
  EXPECT_THAT(Load().problems, ElementsAre(AllOf(HasSubstr("--mysql-uri"), HasSubstr("password"),
                                                 Not(HasSubstr("hunter2")))));
}

TEST_F(SettingsLoaderTest, TlsFilesReachTheRpcServer) {
  UseFlagFile("");
  input_.command_line["tls-cert"] = {path_};
  input_.command_line["tls-key"] = {path_};
  const LoadResult result = Load();
  ASSERT_THAT(result.problems, IsEmpty());
  ASSERT_TRUE(result.settings.rpc.tls.has_value());
  EXPECT_EQ(result.settings.rpc.tls->key_file, path_);
}

// Every flag takes what its own documentation says is its default: the table cannot contradict
// itself.
TEST_F(SettingsLoaderTest, EveryDefaultIsAcceptedAsAValue) {
  for (const Flag& flag : AllFlags()) {
    if (flag.default_text.empty()) continue;
    Settings settings;
    if (flag.clear) flag.clear(settings);
    EXPECT_EQ(flag.set(flag.default_text, settings), std::nullopt) << flag.name;
  }
}

}  // namespace
}  // namespace once::app
