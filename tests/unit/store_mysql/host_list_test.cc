#include "store/mysql/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace once::store::mysql {
namespace {

using ::testing::ElementsAre;

const absl::Time kNow = absl::FromUnixSeconds(1'000'000);

HostList ThreeHosts() { return HostList({{"a", 1}, {"b", 1}, {"c", 1}}); }

TEST(HostList, BeginsWithTheFirst) {
  EXPECT_THAT(ThreeHosts().Candidates(kNow), ElementsAre(0, 1, 2));
}

TEST(HostList, StaysWithTheOneThatWorked) {
  HostList hosts = ThreeHosts();
  hosts.Failed(0, kNow);
  hosts.Succeeded(1);
  EXPECT_EQ(hosts.current(), 1u);
  EXPECT_THAT(hosts.Candidates(kNow + absl::Hours(1)), ElementsAre(1, 2, 0));
}

TEST(HostList, FailedHostsComeLastForAWhile) {
  HostList hosts = ThreeHosts();
  hosts.Failed(0, kNow);
  EXPECT_THAT(hosts.Candidates(kNow), ElementsAre(1, 2, 0));
  EXPECT_THAT(hosts.Candidates(kNow + HostList::kFirstPenalty), ElementsAre(0, 1, 2));
}

TEST(HostList, PenaltyDoublesUpToItsLimitAndSuccessEndsIt) {
  HostList hosts = ThreeHosts();
  hosts.Failed(0, kNow);
  hosts.Failed(0, kNow);
  EXPECT_THAT(hosts.Candidates(kNow + HostList::kFirstPenalty), ElementsAre(1, 2, 0));
  for (int i = 0; i < 100; ++i) hosts.Failed(0, kNow);
  EXPECT_THAT(hosts.Candidates(kNow + HostList::kMaxPenalty), ElementsAre(0, 1, 2));
  hosts.Succeeded(0);
  hosts.Failed(0, kNow);
  EXPECT_THAT(hosts.Candidates(kNow + HostList::kFirstPenalty), ElementsAre(0, 1, 2));
}

TEST(HostList, AllFailedKeepsTheirOrder) {
  HostList hosts = ThreeHosts();
  for (const size_t i : {0, 1, 2}) hosts.Failed(i, kNow);
  EXPECT_THAT(hosts.Candidates(kNow), ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace once::store::mysql
