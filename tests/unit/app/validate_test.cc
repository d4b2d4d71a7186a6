#include "app/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "app/settings.h"

namespace once::app {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Settings Valid() {
  Settings settings;
  settings.store.store = "sqlite:/tmp/once.db";
  return settings;
}

struct Case {
  const char* name;
  Command command;
  std::function<void(Settings&)> change;
  const char* problem;  // part of it; empty: none
};

class ValidateTest : public ::testing::TestWithParam<Case> {};

TEST_P(ValidateTest, SaysWhatIsWrong) {
  Settings settings = Valid();
  GetParam().change(settings);
  const std::vector<std::string> problems = Validate(GetParam().command, settings);
  if (std::string(GetParam().problem).empty()) {
    EXPECT_THAT(problems, IsEmpty());
  } else {
    EXPECT_THAT(problems, Contains(HasSubstr(GetParam().problem)));
  }
}

const Case kCases[] = {
    {"NoStore", Command::kServe, [](Settings& s) { s.store.store.clear(); },
     "one of --mysql-uri and --store=sqlite:PATH is needed"},
    {"TwoStores", Command::kServe, [](Settings& s) { s.store.mysql_uri = "mysql://once@db/once"; },
     "exclude each other"},
    {"UnknownStore", Command::kMigrate, [](Settings& s) { s.store.store = "postgres:x"; },
     "--store=postgres:x: must be sqlite:PATH"},
    {"EmptySqlitePath", Command::kBootstrap, [](Settings& s) { s.store.store = "sqlite:"; },
     "--store=sqlite:: must be sqlite:PATH"},
    {"PasswordFileWithoutMysql", Command::kServe,
     [](Settings& s) { s.store.mysql_password_file = "/dev/null"; }, "goes with --mysql-uri only"},
    {"DevNeedsNoStore", Command::kDev, [](Settings& s) { s.store.store.clear(); }, ""},
    {"PlaintextBeyondLoopback", Command::kServe,
     [](Settings& s) {
       s.rpc.listen_addresses = {"127.0.0.1:1", "0.0.0.0:7447"};
     },
     "--listen=0.0.0.0:7447: an address that is not loopback needs --tls-cert"},
    {"PlaintextAllowedOnPurpose", Command::kServe,
     [](Settings& s) {
       s.rpc.listen_addresses = {"0.0.0.0:7447"};
       s.insecure_plaintext = true;
     },
     ""},
    {"UnixSocket", Command::kServe,
     [](Settings& s) { s.rpc.listen_addresses = {"unix:/run/once.sock"}; }, ""},
    {"NoListener", Command::kServe, [](Settings& s) { s.rpc.listen_addresses.clear(); },
     "at least one address"},
    {"MalformedListener", Command::kServe, [](Settings& s) { s.rpc.listen_addresses = {"7447"}; },
     "--listen=7447: must be HOST:PORT"},
    {"MalformedHttp", Command::kServe, [](Settings& s) { s.http_listen = "7448"; },
     "--http-listen=7448: must be HOST:PORT"},
    {"NoHttp", Command::kServe, [](Settings& s) { s.http_listen.clear(); }, ""},
    {"HealthNeedsHttp", Command::kHealth, [](Settings& s) { s.http_listen.clear(); },
     "needs the address"},
    {"DevBeyondLoopback", Command::kDev,
     [](Settings& s) {
       s.rpc.listen_addresses = {"192.0.2.1:7447"};
       s.insecure_plaintext = true;
     },
     "`onced dev` listens on loopback"},
    {"DevHttpBeyondLoopback", Command::kDev, [](Settings& s) { s.http_listen = "0.0.0.0:7448"; },
     "--http-listen=0.0.0.0:7448: `onced dev` listens on loopback"},
    {"CertWithoutKey", Command::kServe, [](Settings& s) { s.tls.certificate_file = "/dev/null"; },
     "--tls-cert and --tls-key go together"},
    {"MissingCertFile", Command::kServe,
     [](Settings& s) {
       s.tls.certificate_file = "/no/cert.pem";
       s.tls.key_file = "/dev/null";
     },
     "--tls-cert=/no/cert.pem: the file cannot be read"},
    {"ClientCaWithoutAuth", Command::kServe,
     [](Settings& s) {
       s.tls.certificate_file = s.tls.key_file = s.tls.client_ca_file = "/dev/null";
     },
     "--tls-client-ca and --tls-client-auth=request|require go together"},
    {"PlaintextAndTls", Command::kServe,
     [](Settings& s) {
       s.tls.certificate_file = s.tls.key_file = "/dev/null";
       s.insecure_plaintext = true;
     },
     "exclude each other"},
    {"LeaseOrder", Command::kServe, [](Settings& s) { s.rpc.limits.min_lease = absl::Minutes(1); },
     "--min-lease=1m: must not be above --default-lease=30s"},
    {"LongestLease", Command::kServe,
     [](Settings& s) { s.rpc.limits.max_lease = absl::Seconds(29); },
     "--default-lease=30s: must not be above --max-lease=29s"},
    {"MessageFitsContent", Command::kServe,
     [](Settings& s) { s.rpc.limits.max_content_bytes = (size_t{4} << 20) - (64 << 10); }, ""},
    {"MessageOneByteTooSmall", Command::kServe,
     [](Settings& s) { s.rpc.limits.max_content_bytes = (size_t{4} << 20) - (64 << 10) + 1; },
     "must be at least 64KiB below --max-message-bytes=4MiB"},
    {"QueueSmallerThanAResult", Command::kServe,
     [](Settings& s) { s.pipeline.max_queue_bytes = 64 << 10; },
     "--max-result-bytes=1MiB: must not be above --max-queue-bytes=64KiB"},
    {"DrainLongerThanGrace", Command::kServe, [](Settings& s) { s.drain_delay = absl::Minutes(1); },
     "--drain-delay=1m: must not be above --shutdown-grace=25s"},
    {"WaitLongerThanConnectionGrace", Command::kServe,
     [](Settings& s) { s.rpc.limits.max_wait = absl::Minutes(3); },
     "--max-wait=3m: must not be above --max-connection-age-grace=2m"},
};

INSTANTIATE_TEST_SUITE_P(All, ValidateTest, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

TEST(Validate, ReportsEverythingAtOnce) {
  Settings settings = Valid();
  settings.http_listen = "x";
  settings.rpc.listen_addresses = {"0.0.0.0:1"};
  settings.drain_delay = absl::Minutes(1);
  EXPECT_THAT(
      Validate(Command::kServe, settings),
      ElementsAre(HasSubstr("--listen"), HasSubstr("--http-listen"), HasSubstr("--drain-delay")));
}

}  // namespace
}  // namespace once::app
