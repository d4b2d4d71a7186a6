#include "token_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "fake_clock.h"
#include "status_matchers.h"

namespace once::client_internal {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::FakeClock;
using testing_support::HasCode;

class TokenSourceTest : public testing::Test {
 protected:
  TokenSourceTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "once-token-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    file_ = directory_ + "/token";
  }
  ~TokenSourceTest() override { std::filesystem::remove_all(directory_); }

  // As tools replace secrets: a new file moved over the old one.
  void Write(const std::string& text) {
    std::ofstream(file_ + ".new", std::ios::binary) << text;
    std::filesystem::rename(file_ + ".new", file_);
  }

  std::string directory_;
  std::string file_;
  std::shared_ptr<FakeClock> clock_ = std::make_shared<FakeClock>();
};

TEST_F(TokenSourceTest, FixedTokenIsGivenWithoutItsLineEnd) {
  EXPECT_EQ(*TokenSource("once_1_s\n", "", clock_).Get(), "once_1_s");
  EXPECT_EQ(*TokenSource("", "", clock_).Get(), "");
}

TEST_F(TokenSourceTest, FileIsReadAgainWhenItChanges) {
  Write("one\n");
  TokenSource source("", file_, clock_);
  EXPECT_EQ(*source.Get(), "one");
  Write("two\n");
  EXPECT_EQ(*source.Get(), "one");  // looked at less than a second ago
  clock_->Advance(absl::Seconds(1));
  EXPECT_EQ(*source.Get(), "two");
}

TEST_F(TokenSourceTest, LastGoodTokenIsKeptWhileTheFileIsAwayOrBad) {
  Write("one");
  TokenSource source("", file_, clock_);
  EXPECT_EQ(*source.Get(), "one");
  std::filesystem::remove(file_);
  clock_->Advance(absl::Seconds(2));
  EXPECT_EQ(*source.Get(), "one");
  Write("");
  clock_->Advance(absl::Seconds(2));
  EXPECT_EQ(*source.Get(), "one");
  Write("three");
  clock_->Advance(absl::Seconds(2));
  EXPECT_EQ(*source.Get(), "three");
}

TEST_F(TokenSourceTest, MissingFileIsNamedAndWorksAsSoonAsItIsThere) {
  TokenSource source("", file_, clock_);
  EXPECT_THAT(source.Get(), HasCode(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(std::string(source.Get().status().message()), HasSubstr(file_));
  Write("late");
  EXPECT_EQ(*source.Get(), "late");
}

TEST_F(TokenSourceTest, TextThatIsNoTokenIsRefusedAndNotRepeated) {
  for (const std::string& bad : {std::string("a b"), std::string("a\nb"), std::string("\xc3\xa4x"),
                                 std::string(5000, 'x'), std::string("x\0y", 3)}) {
    Write(bad);
    TokenSource source("", file_, clock_);
    EXPECT_THAT(source.Get(), HasCode(absl::StatusCode::kUnauthenticated));
    EXPECT_THAT(std::string(source.Get().status().message()), Not(HasSubstr(bad)));
    EXPECT_THAT(TokenSource(bad, "", clock_).Get(), HasCode(absl::StatusCode::kUnauthenticated));
  }
}

}  // namespace
}  // namespace once::client_internal
