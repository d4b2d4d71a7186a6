#include "app/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace once::app {
namespace {

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() {
    std::string pattern = ::testing::TempDir() + "/files-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~FilesTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Make(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }
  static unsigned ModeOf(const std::string& path) {
    struct stat info;
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    return info.st_mode & 0777;
  }

  std::string folder_;
};

TEST_F(FilesTest, ASecretLosesOneLineEndOnly) {
  EXPECT_EQ(ReadSecret(Make("a", "pass word \n"))->Reveal(), "pass word ");
  EXPECT_EQ(ReadSecret(Make("b", "x\r\n"))->Reveal(), "x");
  EXPECT_EQ(ReadSecret(Make("c", "x\n\n"))->Reveal(), "x\n");
  EXPECT_EQ(ReadSecret(Make("d", "x"))->Reveal(), "x");
}

TEST_F(FilesTest, AnEmptySecretIsAnError) {
  EXPECT_FALSE(ReadSecret(Make("a", "\n")).ok());
  EXPECT_FALSE(ReadSecret(Make("b", "")).ok());
  EXPECT_FALSE(ReadSecret(Path("missing")).ok());
  EXPECT_FALSE(ReadSecret("fd:x").ok());
  EXPECT_FALSE(ReadSecret("fd:9999").ok());
}

TEST_F(FilesTest, ASecretMayComeThroughAnOpenFile) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  ASSERT_EQ(write(pipe_fds[1], "s3cret\n", 7), 7);
  close(pipe_fds[1]);
  EXPECT_EQ(ReadSecret(absl::StrCat("fd:", pipe_fds[0]))->Reveal(), "s3cret");
}

TEST_F(FilesTest, ASecretThatIsTooLargeIsAnError) {
  EXPECT_TRUE(ReadSecret(Make("a", std::string(kMaxSecretBytes, 'x'))).ok());
  EXPECT_FALSE(ReadSecret(Make("b", std::string(kMaxSecretBytes + 1, 'x'))).ok());
}

TEST_F(FilesTest, ANewSecretFileIsPrivateAndReplacesNothing) {
  ASSERT_TRUE(WriteNewSecretFile(Path("token"), base::Secret("abc")).ok());
  EXPECT_EQ(ModeOf(Path("token")), 0600u);
  EXPECT_EQ(ReadSecret(Path("token"))->Reveal(), "abc");
  EXPECT_EQ(WriteNewSecretFile(Path("token"), base::Secret("def")).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadSecret(Path("token"))->Reveal(), "abc");
}

TEST_F(FilesTest, ReplaceFileLeavesNothingElseBehind) {
  ASSERT_TRUE(ReplaceFile(Path("ports"), "1", 0644).ok());
  ASSERT_TRUE(ReplaceFile(Path("ports"), "2", 0644).ok());
  EXPECT_EQ(*ReadFile(Path("ports"), 10), "2");
  EXPECT_FALSE(ReplaceFile(Path("no/such/folder"), "2", 0644).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

}  // namespace
}  // namespace once::app
