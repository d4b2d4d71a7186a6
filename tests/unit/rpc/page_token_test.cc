#include "rpc/page_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "unit/rpc/status_matchers.h"

namespace once::rpc {
namespace {

using ::once::testing::HasMetadata;
using ::once::testing::IsInvalid;

TEST(PageTokenTest, LeadsOnAfterTheLastKey) {
  const std::string token = MakePageToken("tenants", "acme");
  EXPECT_EQ(*ParsePageToken("tenants", token), "acme");
  EXPECT_EQ(*ParsePageToken("tenants", MakePageToken("tenants", std::string("\0\xff", 2))),
            std::string("\0\xff", 2));
}

TEST(PageTokenTest, EmptyIsTheFirstPage) { EXPECT_EQ(*ParsePageToken("tenants", ""), ""); }

TEST(PageTokenTest, IsBoundToItsQuery) {
  const std::string token = MakePageToken("credentials acme", "0123456789abcdef");
  for (const char* query : {"credentials ", "credentials acme2", "tenants"}) {
    EXPECT_THAT(ParsePageToken(query, token),
                IsInvalid("page_token is not the next_page_token of an earlier page of the same "
                          "query"));
  }
}

TEST(PageTokenTest, RefusesEverythingElse) {
  const std::string good = MakePageToken("tenants", "acme");
  for (const std::string& bad :
       {std::string("x"), std::string("%%%"), std::string(4096, 'A'), good.substr(0, 12),
        "A" + good, MakePageToken("tenants", ""), MakePageToken("tenants", std::string(256, 'x')),
        std::string("acme")}) {
    EXPECT_THAT(ParsePageToken("tenants", bad), HasMetadata("field", "page_token")) << bad;
  }
}

}  // namespace
}  // namespace once::rpc
