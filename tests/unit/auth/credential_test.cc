#include "auth/credential.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace once::auth {
namespace {

TEST(CredentialTest, MadeTokenParsesToItsIdAndHash) {
  const NewCredential made = MakeCredential();
  const auto parsed = ParseToken(made.token.Reveal());
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->credential_id, made.credential_id);
  EXPECT_EQ(parsed->secret_sha256, made.secret_sha256);
  EXPECT_TRUE(IsCredentialId(made.credential_id));
}

TEST(CredentialTest, NoTwoAreAlike) {
  const NewCredential a = MakeCredential();
  const NewCredential b = MakeCredential();
  EXPECT_NE(a.credential_id, b.credential_id);
  EXPECT_NE(a.secret_sha256, b.secret_sha256);
}

TEST(CredentialTest, TokenIsNotPrinted) {
  const NewCredential made = MakeCredential();
  std::ostringstream out;
  out << made.token;
  EXPECT_EQ(out.str(), "***");
}

TEST(CredentialTest, EveryChangedCharacterMakesAnotherSecretOrNoToken) {
  const NewCredential made = MakeCredential();
  const std::string& token = made.token.Reveal();
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'x' ? 'y' : 'x';
    const auto parsed = ParseToken(changed);
    if (i < 22) {
      EXPECT_FALSE(parsed.has_value()) << i;
    } else {
      ASSERT_TRUE(parsed.has_value()) << i;
      EXPECT_NE(parsed->secret_sha256, made.secret_sha256) << i;
    }
  }
}

TEST(CredentialTest, RefusesEverythingElse) {
  const std::string good = MakeCredential().token.Reveal();
  EXPECT_FALSE(ParseToken(""));
  EXPECT_FALSE(ParseToken("once_"));
  EXPECT_FALSE(ParseToken(good.substr(1)));
  EXPECT_FALSE(ParseToken(good.substr(0, good.size() - 1)));
  EXPECT_FALSE(ParseToken(absl::StrCat(good, "x")));
  EXPECT_FALSE(ParseToken(absl::StrCat(" ", good)));
  EXPECT_FALSE(ParseToken(absl::StrCat(good, "\n")));
  std::string upper = good;
  upper[5] = 'A';
  EXPECT_FALSE(ParseToken(upper));
  std::string other_alphabet = good;
  other_alphabet.back() = '+';
  EXPECT_FALSE(ParseToken(other_alphabet));
  std::string nul = good;
  nul[40] = '\0';
  EXPECT_FALSE(ParseToken(nul));
}

TEST(CoversHandlerTest, MatchesExactNamesAndPrefixes) {
  Principal principal;
  principal.handler_patterns = {"points.grant", "order.*"};
  EXPECT_TRUE(CoversHandler(principal, "points.grant"));
  EXPECT_FALSE(CoversHandler(principal, "points.grant2"));
  EXPECT_FALSE(CoversHandler(principal, "points.gran"));
  EXPECT_TRUE(CoversHandler(principal, "order.audit"));
  EXPECT_TRUE(CoversHandler(principal, "order."));
  EXPECT_FALSE(CoversHandler(principal, "order"));
  EXPECT_FALSE(CoversHandler(principal, "Order.audit"));
}

TEST(CoversHandlerTest, StarCoversAllAndNoPatternNone) {
  Principal principal;
  EXPECT_FALSE(CoversHandler(principal, "a"));
  principal.handler_patterns = {"*"};
  EXPECT_TRUE(CoversHandler(principal, "a"));
}

}  // namespace
}  // namespace once::auth
