// oncectl from its command line to what it prints, with a connection of the test's own.
#include "oncectl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "input.h"
#include "once/mocks/mock_admin_connection.h"
#include "once/mocks/mock_connection.h"
#include "once/mocks/mock_operator_connection.h"
#include "status_details.h"

namespace once::cli {
namespace {

using nlohmann::json;
using testing::_;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Return;
using testing::StrictMock;

constexpr char kAttempt[] = "00112233-4455-6677-8899-aabbccddeeff";

class OncectlTest : public testing::Test {
 protected:
  OncectlTest() {
    for (const char* name : {"ONCE_SERVER", "ONCE_TOKEN_FILE", "ONCE_TLS_CA"}) unsetenv(name);
  }

  ExitCode Oncectl(const std::vector<std::string>& arguments, const std::string& input = "") {
    std::istringstream in(input);
    std::ostringstream out;
    std::ostringstream err;
    World world{
        in,
        out,
        err,
        [this](ConnectionOptions options) -> absl::StatusOr<std::shared_ptr<Connection>> {
          options_ = std::move(options);
          return connection_;
        },
        [this](ConnectionOptions options) -> absl::StatusOr<std::shared_ptr<AdminConnection>> {
          options_ = std::move(options);
          return admin_;
        },
        [this](ConnectionOptions options) -> absl::StatusOr<std::shared_ptr<OperatorConnection>> {
          options_ = std::move(options);
          return operator_;
        }};
    const ExitCode code = cli::Run(arguments, world);
    out_ = out.str();
    err_ = err.str();
    return code;
  }

  std::shared_ptr<StrictMock<once_mocks::MockConnection>> connection_ =
      std::make_shared<StrictMock<once_mocks::MockConnection>>();
  std::shared_ptr<StrictMock<once_mocks::MockAdminConnection>> admin_ =
      std::make_shared<StrictMock<once_mocks::MockAdminConnection>>();
  std::shared_ptr<StrictMock<once_mocks::MockOperatorConnection>> operator_ =
      std::make_shared<StrictMock<once_mocks::MockOperatorConnection>>();
  std::optional<ConnectionOptions> options_;
  std::string out_;
  std::string err_;
};

Granted SomeGrant() {
  Granted granted;
  granted.claim = {*AttemptId::Parse(kAttempt), Fence{1700000000000001}, absl::Seconds(30),
                   absl::FromUnixSeconds(60)};
  return granted;
}

TEST_F(OncectlTest, AnOperationIsShown) {
  Operation operation;
  operation.id = {"points.grant", "order-1"};
  operation.state = OperationState::kInDoubt;
  operation.latest_claim.attempt_id = *AttemptId::Parse(kAttempt);
  operation.latest_claim.fence = Fence{17};
  operation.latest_claim.consumer = "worker-1\x1b[2J";
  EXPECT_CALL(*operator_, GetOperation(_, _))
      .WillRepeatedly([&](const OperationId& id, const CallOptions&) {
        EXPECT_EQ(id.handler, "points.grant");
        EXPECT_EQ(id.event_id, "\x0a");
        return operation;
      });
  EXPECT_EQ(Oncectl({"operation", "show", "points.grant", "hex:0a"}), ExitCode::kDone);
  EXPECT_THAT(out_, HasSubstr("state: IN_DOUBT\n"));
  EXPECT_THAT(out_, HasSubstr("fence: 17\n"));
  EXPECT_THAT(out_, HasSubstr("worker-1\\x1b[2J"));
  EXPECT_EQ(Oncectl({"--json", "operation", "show", "points.grant", "hex:0a"}), ExitCode::kDone);
  EXPECT_THAT(out_, HasSubstr(R"("latest_claim":{"attempt_id":")"));
}

TEST_F(OncectlTest, TheLogOfAnOperationIsATable) {
  Page<LoggedAttempt> page;
  page.items.resize(1);
  page.items[0].kind = "BEGIN";
  page.items[0].outcome = "TAKEN_OVER";
  page.items[0].delivery = Delivery{"offset 17", DeliverySource::kRedelivery};
  EXPECT_CALL(*operator_, ListAttempts(_, _, _)).WillOnce(Return(page));
  EXPECT_EQ(Oncectl({"operation", "attempts", "h", "e"}), ExitCode::kDone);
  EXPECT_THAT(out_, HasSubstr("begin  taken_over"));
  EXPECT_THAT(out_, HasSubstr("redelivery offset 17"));
}

TEST_F(OncectlTest, ResolveSaysWhatWasFound) {
  const std::vector<std::string> claim = {"--attempt-id", kAttempt, "--fence", "17"};
  const auto resolve = [&](const std::string& verdict, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"operation", "resolve", "h", "e", verdict};
    arguments.insert(arguments.end(), claim.begin(), claim.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Oncectl(arguments, "from a file");
  };
  EXPECT_EQ(resolve("done", {}), ExitCode::kUsage) << "no evidence";
  EXPECT_EQ(resolve("perhaps", {"--evidence", "x"}), ExitCode::kUsage);
  std::vector<Resolution> sent;
  const std::vector<ResolveOutcome> outcomes = {Released{}, Completed{}, ClaimLost{}};
  EXPECT_CALL(*operator_, Resolve(_, _))
      .WillRepeatedly([&](const Resolution& resolution, const CallOptions&) -> ResolveOutcome {
        sent.push_back(resolution);
        return outcomes[sent.size() - 1];
      });
  EXPECT_EQ(resolve("not-done", {"--evidence", "no such payment"}), ExitCode::kDone);
  EXPECT_EQ(out_, "released\n");
  EXPECT_EQ(resolve("done", {"--evidence", "x", "--result-file", "-"}), ExitCode::kDone);
  EXPECT_EQ(resolve("refused", {"--evidence", "x", "--result-string", "no"}), ExitCode::kClaimLost);
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].verdict, Verdict::kNotDone);
  EXPECT_EQ(sent[0].evidence, "no such payment");
  EXPECT_EQ(sent[0].attempt_id, *AttemptId::Parse(kAttempt));
  EXPECT_EQ(sent[0].fence, Fence{17});
  EXPECT_EQ(sent[1].verdict, Verdict::kDone);
  EXPECT_EQ(sent[1].result, "from a file");
  EXPECT_EQ(sent[2].verdict, Verdict::kRefused);
  EXPECT_EQ(sent[2].result, "no");
}

TEST_F(OncectlTest, ResetNeedsAReason) {
  EXPECT_EQ(Oncectl({"operation", "reset", "h", "e", "--fence", "17"}), ExitCode::kUsage);
  EXPECT_CALL(*operator_, Reset(_, Fence{17}, _))
      .WillOnce([](const OperationId& id, Fence, const CallOptions& options) -> ResetOutcome {
        EXPECT_EQ(id.event_id, "e");
        EXPECT_EQ(options.reason, "OPS-7");
        return Released{};
      });
  EXPECT_EQ(Oncectl({"operation", "reset", "h", "e", "--fence", "17", "--reason", "OPS-7"}),
            ExitCode::kDone);
  EXPECT_EQ(out_, "released\n");
}

TEST_F(OncectlTest, BeginSendsWhatTheCommandLineSays) {
  EXPECT_CALL(*connection_, Begin(_, _))
      .WillOnce([](const BeginRequest& request, const CallOptions&) -> BeginOutcome {
        EXPECT_EQ(request.operation.handler, "points.grant");
        EXPECT_EQ(request.operation.event_id, std::string("\0\xff", 2));
        EXPECT_EQ(std::get<Content>(request.payload).data, R"({"n": [1, 2]})");
        EXPECT_EQ(std::get<Content>(request.payload).scheme, DigestScheme::kJsonJcsSha256);
        EXPECT_EQ(request.attempt_id.ToString(), kAttempt);
        EXPECT_EQ(request.lease, absl::Minutes(2));
        EXPECT_EQ(request.wait, absl::Seconds(5));
        EXPECT_EQ(request.consumer, "me");
        EXPECT_EQ(request.handler_version, "v9");
        EXPECT_EQ(request.delivery->reference, "offset 3");
        EXPECT_EQ(request.delivery->source, DeliverySource::kDeadLetter);
        return SomeGrant();
      });
  EXPECT_EQ(Oncectl({"begin",
                     "points.grant",
                     "hex:00ff",
                     "--content-string",
                     R"({"n": [1, 2]})",
                     "--scheme",
                     "json",
                     "--attempt-id",
                     kAttempt,
                     "--lease",
                     "2m",
                     "--wait",
                     "5s",
                     "--consumer",
                     "me",
                     "--handler-version",
                     "v9",
                     "--reference",
                     "offset 3",
                     "--source",
                     "dead-letter"}),
            ExitCode::kDone);
}

TEST_F(OncectlTest, GrantShowsWhatCompleteNeeds) {
  EXPECT_CALL(*connection_, Begin(_, _)).WillRepeatedly(Return(BeginOutcome(SomeGrant())));
  ASSERT_EQ(Oncectl({"begin", "h", "e", "--content-string", "x"}), ExitCode::kDone);
  EXPECT_THAT(out_, testing::StartsWith("granted\n"));
  EXPECT_THAT(out_, HasSubstr("fence: 1700000000000001\n"));
  EXPECT_THAT(out_, HasSubstr(absl::StrCat("attempt id: ", kAttempt)));
  EXPECT_THAT(err_, IsEmpty());
  ASSERT_EQ(Oncectl({"begin", "h", "e", "--content-string", "x", "--json"}), ExitCode::kDone);
  const json printed = json::parse(out_);
  EXPECT_EQ(printed["outcome"], "granted");
  EXPECT_EQ(printed["claim"]["fence"], 1700000000000001);
  EXPECT_EQ(printed["claim"]["attempt_id"], kAttempt);
  EXPECT_EQ(printed["claim"]["lease_remaining"], 30.0);
}

TEST_F(OncectlTest, BeginMakesANewAttemptIdEachTime) {
  std::vector<AttemptId> seen;
  EXPECT_CALL(*connection_, Begin(_, _))
      .Times(2)
      .WillRepeatedly([&](const BeginRequest& request, const CallOptions&) -> BeginOutcome {
        seen.push_back(request.attempt_id);
        return InProgress{};
      });
  Oncectl({"begin", "h", "e", "--content-string", ""});
  Oncectl({"begin", "h", "e", "--content-string", ""});
  EXPECT_NE(seen[0], seen[1]);
}

TEST_F(OncectlTest, ContentComesFromAFileOrTheStandardInputByteForByte) {
  const std::string bytes("a\0b\n", 4);
  const std::string file = testing::TempDir() + "oncectl_content";
  std::ofstream(file, std::ios::binary) << bytes;
  EXPECT_CALL(*connection_, Begin(_, _))
      .Times(2)
      .WillRepeatedly([&](const BeginRequest& request, const CallOptions&) -> BeginOutcome {
        EXPECT_EQ(std::get<Content>(request.payload).data, bytes);
        EXPECT_EQ(std::get<Content>(request.payload).scheme, DigestScheme::kHandlerDefault);
        return SomeGrant();
      });
  EXPECT_EQ(Oncectl({"begin", "h", "e", "--content-file", file}), ExitCode::kDone);
  EXPECT_EQ(Oncectl({"begin", "h", "e", "--content-file", "-"}, bytes), ExitCode::kDone);
  std::filesystem::remove(file);
}

TEST_F(OncectlTest, EveryOutcomeOfBeginHasItsExitCodeAndWord) {
  const std::vector<std::pair<BeginOutcome, std::pair<ExitCode, std::string>>> outcomes = {
      {Completed{}, {ExitCode::kCompleted, "completed"}},
      {InProgress{}, {ExitCode::kInProgress, "in_progress"}},
      {Conflict{}, {ExitCode::kConflict, "conflict"}},
      {InDoubt{}, {ExitCode::kInDoubt, "in_doubt"}},
      {Stale{}, {ExitCode::kStale, "stale"}},
      {Expired{}, {ExitCode::kExpired, "expired"}}};
  for (const auto& [outcome, expected] : outcomes) {
    EXPECT_CALL(*connection_, Begin(_, _)).WillOnce(Return(outcome));
    EXPECT_EQ(Oncectl({"begin", "h", "e", "--content-string", "", "--json"}), expected.first);
    EXPECT_EQ(json::parse(out_)["outcome"], expected.second);
  }
}

TEST_F(OncectlTest, LookupOfAReceiptIsDoneAndOtherStatesHaveCodes) {
  const std::vector<std::pair<LookupOutcome, ExitCode>> outcomes = {
      {Completed{}, ExitCode::kDone},      {InProgress{}, ExitCode::kInProgress},
      {Conflict{}, ExitCode::kConflict},   {InDoubt{}, ExitCode::kInDoubt},
      {Unclaimed{}, ExitCode::kUnclaimed}, {Expired{}, ExitCode::kExpired}};
  for (const auto& [outcome, expected] : outcomes) {
    EXPECT_CALL(*connection_, Lookup(_, _)).WillOnce(Return(outcome));
    EXPECT_EQ(Oncectl({"lookup", "h", "e"}), expected);
  }
}

TEST_F(OncectlTest, CompleteAbandonAndRenewCarryTheClaim) {
  EXPECT_CALL(*connection_, Complete(_, _))
      .WillOnce([](const CompleteRequest& request, const CallOptions&) -> CompleteOutcome {
        EXPECT_EQ(request.attempt_id.ToString(), kAttempt);
        EXPECT_EQ(request.fence, Fence{7});
        EXPECT_EQ(request.status, ReceiptStatus::kRejected);
        EXPECT_EQ(request.result, "no");
        EXPECT_EQ(request.content_type, "text/plain");
        return Completed{};
      });
  EXPECT_EQ(Oncectl({"complete", "h", "e", "--attempt-id", kAttempt, "--fence", "7", "--rejected",
                     "--result-string", "no", "--content-type", "text/plain"}),
            ExitCode::kDone);

  EXPECT_CALL(*connection_, Abandon(_, _))
      .WillOnce([](const AbandonRequest& request, const CallOptions&) -> AbandonOutcome {
        EXPECT_EQ(request.mode, AbandonMode::kRelease);
        EXPECT_EQ(request.retry_delay, absl::Minutes(1));
        EXPECT_EQ(request.reason, "later");
        return Abandoned{};
      });
  EXPECT_EQ(Oncectl({"abandon", "h", "e", "--attempt-id", kAttempt, "--fence", "7", "--retry-delay",
                     "60s", "--reason", "later"}),
            ExitCode::kDone);

  EXPECT_CALL(*connection_, Renew(_, _))
      .WillOnce([](const RenewRequest& request, const CallOptions&) -> RenewOutcome {
        EXPECT_EQ(request.lease, absl::Seconds(90));
        return ClaimLost{};
      });
  EXPECT_EQ(
      Oncectl({"renew", "h", "e", "--attempt-id", kAttempt, "--fence", "7", "--lease", "90s"}),
      ExitCode::kClaimLost);
  EXPECT_THAT(out_, testing::StartsWith("claim_lost\n"));
}

TEST_F(OncectlTest, ErrorShowsReasonMessageFieldAndLimit) {
  ErrorInfo info;
  info.reason = ErrorReason::kInvalidField;
  info.metadata = {{"field", "event_id"}, {"limit", "255"}};
  const auto error = client_internal::MakeError(absl::StatusCode::kInvalidArgument,
                                                "event_id is 256 bytes; the limit is 255", info);
  EXPECT_CALL(*connection_, Lookup(_, _)).WillRepeatedly(Return(error));
  EXPECT_EQ(Oncectl({"lookup", "h", "e"}), ExitCode::kUsage);
  EXPECT_THAT(err_, HasSubstr("INVALID_FIELD: event_id is 256 bytes; the limit is 255"));
  EXPECT_THAT(err_, HasSubstr("field: event_id\n"));
  EXPECT_THAT(err_, HasSubstr("limit: 255\n"));
  EXPECT_THAT(out_, IsEmpty());

  EXPECT_EQ(Oncectl({"lookup", "h", "e", "--json"}), ExitCode::kUsage);
  const json printed = json::parse(out_);
  EXPECT_EQ(printed["error"]["reason"], "INVALID_FIELD");
  EXPECT_EQ(printed["error"]["metadata"]["limit"], "255");
}

TEST_F(OncectlTest, ErrorsHaveExitCodesThatAScriptCanDecideOn) {
  const std::vector<std::pair<absl::Status, ExitCode>> errors = {
      {absl::UnavailableError(""), ExitCode::kTryAgain},
      {absl::DeadlineExceededError(""), ExitCode::kTryAgain},
      {absl::ResourceExhaustedError(""), ExitCode::kTryAgain},
      {absl::NotFoundError(""), ExitCode::kNotFound},
      {absl::UnauthenticatedError(""), ExitCode::kNotAllowed},
      {absl::PermissionDeniedError(""), ExitCode::kNotAllowed},
      {absl::InternalError(""), ExitCode::kError}};
  for (const auto& [error, expected] : errors) {
    EXPECT_CALL(*connection_, Lookup(_, _)).WillOnce(Return(error));
    EXPECT_EQ(Oncectl({"lookup", "h", "e"}), expected) << error;
  }
}

TEST_F(OncectlTest, BeginThatMayHaveBeenGrantedTellsItsAttemptId) {
  EXPECT_CALL(*connection_, Begin(_, _)).WillOnce(Return(absl::UnavailableError("gone")));
  EXPECT_EQ(Oncectl({"begin", "h", "e", "--content-string", ""}), ExitCode::kTryAgain);
  EXPECT_THAT(err_, HasSubstr("--attempt-id "));
}

TEST_F(OncectlTest, WrongCommandLinesCallNobody) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {},
           {"fly"},
           {"begin"},
           {"begin", "h"},
           {"begin", "h", "e"},
           {"begin", "h", "hex:0", "--content-string", ""},
           {"begin", "h", "e", "--content-string", "", "--content-file", "x"},
           {"begin", "h", "e", "--content-file", "/nonexistent"},
           {"begin", "h", "e", "--content-string", "", "--lease", "soon"},
           {"begin", "h", "e", "--content-string", "", "--attempt-id", "12"},
           {"begin", "h", "e", "--content-string", "", "--scheme", "xml"},
           {"begin", "h", "e", "--digest", "12", "--scheme", "raw"},
           {"complete", "h", "e", "--fence", "1"},
           {"complete", "h", "e", "--attempt-id", kAttempt, "--fence", "many"},
           {"abandon", "h", "e", "--attempt-id", kAttempt, "--fence", "1", "--forget",
            "--retry-delay", "1s"},
           {"lookup", "h", "e", "--plaintext", "--tls"},
           {"lookup", "h", "e", "--timeout", "never"},
           {"tenants"},
           {"credentials", "create", "t", "--role", "king"}}) {
    options_.reset();
    const ExitCode code = Oncectl(arguments);
    EXPECT_THAT(code, testing::AnyOf(ExitCode::kUsage, ExitCode::kNotFound));
    EXPECT_THAT(err_, Not(IsEmpty()));
    EXPECT_FALSE(options_.has_value());
  }
}

TEST_F(OncectlTest, HelpIsNoError) {
  EXPECT_EQ(Oncectl({"--help"}), ExitCode::kDone);
  EXPECT_THAT(out_, HasSubstr("Exit codes"));
  EXPECT_EQ(Oncectl({"begin", "--help"}), ExitCode::kDone);
}

// ---- where to ----

TEST_F(OncectlTest, OwnMachineIsCalledWithoutTlsAndOthersAreNot) {
  EXPECT_CALL(*connection_, Lookup(_, _)).WillRepeatedly(Return(absl::NotFoundError("")));
  Oncectl({"lookup", "h", "e"});
  EXPECT_EQ(options_->transport, Transport::kPlaintextLoopback);
  EXPECT_THAT(options_->endpoints, testing::ElementsAre("127.0.0.1:7447"));
  Oncectl({"--server=once.example:7447", "lookup", "h", "e"});
  EXPECT_EQ(options_->transport, Transport::kTls);
  Oncectl({"lookup", "h", "e", "--server=127.0.0.1:1,once.example:7447"});
  EXPECT_EQ(options_->transport, Transport::kTls);
  EXPECT_THAT(options_->endpoints, testing::SizeIs(2));
  Oncectl({"lookup", "h", "e", "--tls-ca=ca.pem"});
  EXPECT_EQ(options_->transport, Transport::kTls);
  EXPECT_EQ(options_->tls.ca_file, "ca.pem");
  Oncectl({"lookup", "h", "e", "--server=once.example:7447", "--plaintext"});
  EXPECT_EQ(options_->transport, Transport::kPlaintext);
}

TEST_F(OncectlTest, FlagWinsOverTheEnvironment) {
  EXPECT_CALL(*connection_, Lookup(_, _)).WillRepeatedly(Return(absl::NotFoundError("")));
  setenv("ONCE_TOKEN_FILE", "/from/environment", 1);
  setenv("ONCE_SERVER", "env.example:1", 1);
  Oncectl({"lookup", "h", "e"});
  EXPECT_EQ(options_->token_file, "/from/environment");
  EXPECT_THAT(options_->endpoints, testing::ElementsAre("env.example:1"));
  Oncectl({"lookup", "h", "e", "--token-file", "/from/flag", "--timeout", "1m"});
  EXPECT_EQ(options_->token_file, "/from/flag");
  EXPECT_EQ(options_->retry.max_elapsed, absl::Minutes(1));
  unsetenv("ONCE_TOKEN_FILE");
  unsetenv("ONCE_SERVER");
}

// ---- what others wrote ----

TEST_F(OncectlTest, BytesThatSteerATerminalAreEscapedAndJsonStaysJson) {
  InProgress in_progress;
  in_progress.consumer = "evil\x1b[2J\xc2\x9b\n";
  EXPECT_CALL(*connection_, Lookup(_, _)).WillRepeatedly(Return(LookupOutcome(in_progress)));
  Oncectl({"lookup", "h", "e"});
  EXPECT_THAT(out_, HasSubstr("consumer: evil\\x1b[2J\\x9b\\x0a\n"));
  Oncectl({"lookup", "h", "e", "--json"});
  EXPECT_EQ(json::parse(out_)["consumer"], "evil\x1b[2J\xc2\x9b\n");
  in_progress.consumer = "\xff\xfe";
  EXPECT_CALL(*connection_, Lookup(_, _)).WillRepeatedly(Return(LookupOutcome(in_progress)));
  Oncectl({"lookup", "h", "e", "--json"});
  EXPECT_FALSE(json::parse(out_)["consumer"].empty());
}

TEST_F(OncectlTest, ResultIsTextWhereItCanBeAndBase64WhereNot) {
  Completed completed;
  completed.receipt.result = "grüße";
  EXPECT_CALL(*connection_, Lookup(_, _)).WillOnce(Return(LookupOutcome(completed)));
  Oncectl({"lookup", "h", "e", "--json"});
  EXPECT_EQ(json::parse(out_)["receipt"]["result"], "grüße");
  completed.receipt.result = std::string("\x00\xff", 2);
  EXPECT_CALL(*connection_, Lookup(_, _)).WillOnce(Return(LookupOutcome(completed)));
  Oncectl({"lookup", "h", "e", "--json"});
  EXPECT_EQ(json::parse(out_)["receipt"]["result_base64"], "AP8=");
}

// ---- admin ----

IssuedCredential Issued() {
  IssuedCredential issued;
  issued.credential.credential_id = "0123456789abcdef";
  issued.credential.tenant = "shop";
  issued.token = "once_0123456789abcdef_secret";
  return issued;
}

TEST_F(OncectlTest, NewCredentialPrintsTheTokenAloneOnTheStandardOutput) {
  EXPECT_CALL(*admin_, CreateCredential(_, _))
      .WillRepeatedly([](const NewCredential& credential, const CallOptions&) {
        EXPECT_EQ(credential.tenant, "shop");
        EXPECT_EQ(credential.role, Role::kOperator);
        EXPECT_THAT(credential.handler_patterns, testing::ElementsAre("points.*", "order.audit"));
        EXPECT_EQ(credential.ttl, absl::Hours(24 * 30));
        return Issued();
      });
  const std::vector<std::string> arguments = {"credentials", "create",    "shop",     "--role",
                                              "operator",    "--handler", "points.*", "--handler",
                                              "order.audit", "--ttl",     "30d"};
  EXPECT_EQ(Oncectl(arguments), ExitCode::kDone);
  EXPECT_EQ(out_, "once_0123456789abcdef_secret\n");
  EXPECT_THAT(err_, HasSubstr("credential id: 0123456789abcdef"));
  EXPECT_THAT(err_, Not(HasSubstr("secret")));
  auto with_json = arguments;
  with_json.push_back("--json");
  EXPECT_EQ(Oncectl(with_json), ExitCode::kDone);
  EXPECT_EQ(json::parse(out_)["token"], "once_0123456789abcdef_secret");
}

TEST_F(OncectlTest, TenantsAreMadeAndListed) {
  EXPECT_CALL(*admin_, CreateTenant("shop", _)).WillOnce(Return(Tenant{"shop", {}}));
  EXPECT_EQ(Oncectl({"tenants", "create", "shop"}), ExitCode::kDone);
  EXPECT_CALL(*admin_, CreateTenant("shop", _)).WillOnce(Return(absl::AlreadyExistsError("")));
  EXPECT_EQ(Oncectl({"tenants", "create", "shop"}), ExitCode::kAlreadyExists);
  Page<Tenant> page;
  page.items = {{"a", absl::FromUnixSeconds(0)}, {"longer", absl::FromUnixSeconds(0)}};
  EXPECT_CALL(*admin_, ListTenants(_, _)).WillRepeatedly(Return(page));
  EXPECT_EQ(Oncectl({"tenants", "list"}), ExitCode::kDone);
  EXPECT_EQ(out_,
            "NAME    CREATED\n"
            "a       1970-01-01T00:00:00+00:00\n"
            "longer  1970-01-01T00:00:00+00:00\n");
  EXPECT_EQ(Oncectl({"tenants", "list", "--json"}), ExitCode::kDone);
  EXPECT_EQ(json::parse(out_)["tenants"][1]["name"], "longer");
}

TEST_F(OncectlTest, CredentialsAreListedRotatedAndRevoked) {
  Page<Credential> page;
  page.items.push_back(Issued().credential);
  page.items[0].revoke_time = absl::FromUnixSeconds(0);
  EXPECT_CALL(*admin_, ListCredentials("shop", _, _)).WillOnce(Return(page));
  EXPECT_EQ(Oncectl({"credentials", "list", "--tenant", "shop"}), ExitCode::kDone);
  EXPECT_THAT(out_, HasSubstr("revoked 1970-01-01T00:00:00+00:00"));

  EXPECT_CALL(*admin_, RotateCredential("0123456789abcdef", std::optional(absl::Minutes(5)), _))
      .WillOnce(Return(RotatedCredential{Issued(), {}}));
  EXPECT_EQ(Oncectl({"credentials", "rotate", "0123456789abcdef", "--overlap", "5m"}),
            ExitCode::kDone);
  EXPECT_EQ(out_, "once_0123456789abcdef_secret\n");
  EXPECT_CALL(*admin_, RotateCredential(_, std::optional<absl::Duration>(), _))
      .WillOnce(Return(RotatedCredential{Issued(), {}}));
  EXPECT_EQ(Oncectl({"credentials", "rotate", "0123456789abcdef"}), ExitCode::kDone);

  EXPECT_CALL(*admin_, RevokeCredential("0123456789abcdef", _))
      .WillOnce(Return(Issued().credential));
  EXPECT_EQ(Oncectl({"credentials", "revoke", "0123456789abcdef"}), ExitCode::kDone);
}

// ---- values ----

TEST(InputTest, EventIdsReadBackAsTheyArePrinted) {
  for (const std::string& id :
       {std::string("order-17"), std::string("hex:zz"), std::string("text:x"),
        std::string("\0\x01", 2), std::string("grüße"), std::string()}) {
    EXPECT_EQ(*ParseEventId(FormatEventId(id)), id);
  }
  EXPECT_EQ(*ParseEventId("hex:0aFF"), std::string("\x0a\xff"));
  EXPECT_EQ(FormatEventId(std::string("\x0a", 1)), "hex:0a");
}

TEST(InputTest, DurationsHaveUnits) {
  EXPECT_EQ(*ParseDuration("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseDuration("7d"), absl::Hours(168));
  EXPECT_EQ(*ParseDuration("0"), absl::ZeroDuration());
  EXPECT_FALSE(ParseDuration("30").ok());
  EXPECT_FALSE(ParseDuration("").ok());
}

// ---- policy, audit ----

class PolicyCommandTest : public OncectlTest {
 protected:
  static VersionedPolicies Current(const std::string& text, int32_t version) {
    VersionedPolicies current;
    current.policies = *HandlerPolicies::Parse(text);
    if (version > 0) {
      current.version =
          PolicyVersion{version, "0123456789abcdef", "a \033reason", absl::FromUnixSeconds(60)};
    }
    return current;
  }
  void Have(const std::string& text, int32_t version) {
    EXPECT_CALL(*admin_, GetPolicies("acme", 0, _)).WillRepeatedly(Return(Current(text, version)));
  }
};

constexpr char kRetry[] = R"(policies { handler: "pay.*" lease { normal { seconds: 5 } } })";
constexpr char kProbe[] = R"(policies {
  handler: "pay.*"  # agreed on in May
  lease { normal { seconds: 5 } }
  expired_lease: EXPIRED_LEASE_PROBE
})";

TEST_F(PolicyCommandTest, ShowPrintsAFileToGoOnWith) {
  Have(kRetry, 3);
  ASSERT_EQ(Oncectl({"policy", "show", "acme"}), ExitCode::kDone);
  EXPECT_THAT(out_, testing::StartsWith("# acme version 3\n# by 0123456789abcdef at 1970-"));
  EXPECT_THAT(out_, Not(HasSubstr("\033")));
  const auto read = HandlerPolicies::Parse(out_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, *HandlerPolicies::Parse(kRetry));
  ASSERT_EQ(Oncectl({"policy", "show", "acme", "--json"}), ExitCode::kDone);
  EXPECT_EQ(json::parse(out_)["version"]["version"], 3);
  EXPECT_CALL(*admin_, GetPolicies("acme", 2, _)).WillOnce(Return(Current("", 2)));
  EXPECT_EQ(Oncectl({"policy", "show", "acme", "--version", "2"}), ExitCode::kDone);
}

TEST_F(PolicyCommandTest, DiffSaysWhatWouldChange) {
  Have(kRetry, 3);
  ASSERT_EQ(Oncectl({"policy", "diff", "acme", "-"}, kProbe), ExitCode::kDiffers);
  EXPECT_EQ(static_cast<int>(ExitCode::kDiffers), 1);
  EXPECT_EQ(out_, R"(--- acme version 3
+++ -
 policies {
   handler: "pay.*"
   lease {
     normal {
       seconds: 5
     }
   }
+  expired_lease: EXPIRED_LEASE_PROBE
 }
)");
  EXPECT_THAT(err_, IsEmpty());
}

TEST_F(PolicyCommandTest, DiffOfWhatMeansTheSameIsEmpty) {
  Have(kRetry, 3);
  EXPECT_EQ(Oncectl({"policy", "diff", "acme", "-"},
                    std::string("# reviewed\n") + kRetry + "policies { handler: \"pay.*\" }"),
            ExitCode::kDiffers);
  EXPECT_EQ(Oncectl({"policy", "diff", "acme", "-"}, std::string("# reviewed\n") + kRetry),
            ExitCode::kDone);
  EXPECT_THAT(out_, IsEmpty());
}

TEST_F(PolicyCommandTest, DiffShowsRecordsThatComeAndGo) {
  Have(R"(policies { handler: "a" } policies { handler: "b" })", 1);
  ASSERT_EQ(Oncectl({"policy", "diff", "acme", "-"},
                    R"(policies { handler: "b" } policies { handler: "c" })"),
            ExitCode::kDiffers);
  EXPECT_THAT(out_, HasSubstr("-policies {\n-  handler: \"a\"\n-}\n"));
  EXPECT_THAT(out_, HasSubstr("+policies {\n+  handler: \"c\"\n+}\n"));
  EXPECT_THAT(out_, Not(HasSubstr("\"b\"")));
}

TEST_F(PolicyCommandTest, TroubleOfDiffIsNotADifference) {
  EXPECT_CALL(*admin_, GetPolicies).WillOnce(Return(absl::InternalError("broken")));
  EXPECT_EQ(Oncectl({"policy", "diff", "acme", "-"}, kProbe), ExitCode::kUsage);
}

TEST_F(PolicyCommandTest, FaultOfAFileNamesTheFileAndTheLine) {
  EXPECT_EQ(Oncectl({"policy", "apply", "acme", "-", "--reason", "r"},
                    "policies {\n  handler: \"a\"\n  leese {}\n}"),
            ExitCode::kUsage);
  EXPECT_THAT(err_, HasSubstr("-:3:9: "));
}

TEST_F(PolicyCommandTest, ApplyShowsWhatItChangesAndFollowsWhatItShowed) {
  Have(kRetry, 3);
  EXPECT_CALL(*admin_, ApplyPolicies(_, _))
      .WillOnce([](const PolicyChange& change, const CallOptions&) {
        EXPECT_EQ(change.tenant, "acme");
        EXPECT_EQ(change.policies, *HandlerPolicies::Parse(kProbe));
        EXPECT_EQ(change.expected_version, 3);
        EXPECT_EQ(change.reason, "OPS-17");
        EXPECT_FALSE(change.accept_digest_change);
        return Current(kProbe, 4);
      });
  ASSERT_EQ(Oncectl({"policy", "apply", "acme", "-", "--reason", "OPS-17"}, kProbe),
            ExitCode::kDone);
  EXPECT_THAT(out_, HasSubstr("+  expired_lease: EXPIRED_LEASE_PROBE\n"));
  EXPECT_THAT(out_, HasSubstr("acme version 4 is current\n"));
}

TEST_F(PolicyCommandTest, ApplyNeedsAReason) {
  EXPECT_EQ(Oncectl({"policy", "apply", "acme", "-"}, kProbe), ExitCode::kUsage);
  EXPECT_THAT(err_, HasSubstr("--reason"));
}

TEST_F(PolicyCommandTest, HistoryAndAuditAreTables) {
  Page<PolicyVersion> versions;
  versions.items = {*Current("", 2).version};
  EXPECT_CALL(*admin_, ListPolicyVersions("acme", _, _)).WillOnce(Return(versions));
  ASSERT_EQ(Oncectl({"policy", "history", "acme"}), ExitCode::kDone);
  EXPECT_THAT(out_, HasSubstr("2        1970-01-01T00:01:00+00:00  0123456789abcdef  a "));
  EXPECT_THAT(out_, Not(HasSubstr("\033")));

  Page<AuditRecord> page;
  page.items.resize(2);
  page.items[0].subject = "acme";
  page.next_page_token = "more";
  EXPECT_CALL(*admin_, ListAuditRecords("", _, _))
      .WillOnce([&](const std::string&, const PageRequest& request, const CallOptions&) {
        EXPECT_EQ(request.page_size, 3);
        return page;
      })
      .WillOnce([&](const std::string&, const PageRequest& request, const CallOptions&) {
        EXPECT_EQ(request.page_size, 1);
        EXPECT_EQ(request.page_token, "more");
        page.items.resize(1);
        return page;
      });
  ASSERT_EQ(Oncectl({"audit", "list", "--limit", "3", "--json"}), ExitCode::kDone);
  EXPECT_EQ(json::parse(out_)["records"].size(), 3u);
  EXPECT_EQ(json::parse(out_)["records"][0]["action"], "CREATE_TENANT");
}

TEST_F(PolicyCommandTest, ChangesOfCredentialsSayWhy) {
  EXPECT_CALL(*admin_, RevokeCredential("0123456789abcdef", _))
      .WillOnce([](const std::string&, const CallOptions& options) {
        EXPECT_EQ(options.reason, "leaked");
        return Credential();
      });
  EXPECT_EQ(Oncectl({"credentials", "revoke", "0123456789abcdef", "--reason", "leaked"}),
            ExitCode::kDone);
}

}  // namespace
}  // namespace once::cli
