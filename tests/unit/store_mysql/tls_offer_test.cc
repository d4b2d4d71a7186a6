#include "store/mysql/tls_offer.h"

#include <gtest/gtest.h>

#include <string>

namespace once::store::mysql {
namespace {

std::string Greeting(const std::string& capabilities) {
  std::string greeting("\x4a\0\0\0", 4);
  greeting += std::string(
      "\x0a"
      "9.7.4\0",
      7);
  greeting += "idid";
  greeting += "scramble";
  greeting += std::string(1, '\0');
  greeting += capabilities;
  return greeting;
}

TEST(TlsOffer, IsReadFromTheGreeting) {
  EXPECT_EQ(CheckGreetingOffersTls(Greeting("\xff\xff")), absl::OkStatus());
  EXPECT_EQ(CheckGreetingOffersTls(Greeting("\xff\xf7")).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(TlsOffer, AnythingElseIsNoGreeting) {
  const std::string whole = Greeting("\xff\xff");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(CheckGreetingOffersTls(whole.substr(0, size)).code(), absl::StatusCode::kUnavailable)
        << size;
  }
  // An error packet: too many connections, for example.
  EXPECT_EQ(CheckGreetingOffersTls(std::string("\x17\0\0\0\xff\x10\x04", 7)).code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace once::store::mysql
