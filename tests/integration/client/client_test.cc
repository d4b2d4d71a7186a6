// What a consumer gets from Client::Execute and a server that is killed, cut off and asked too
// much.
#include "once/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "once/admin.h"
#include "onced_process.h"
#include "tcp_gate.h"

namespace once {
namespace {

using testing::HasSubstr;
using testing_support::Ended;
using testing_support::OncedProcess;
using testing_support::RunProgram;
using testing_support::TcpGate;

class ClientTest : public testing::Test {
 protected:
  static Client Connect(const ConnectionOptions& options) {
    auto connection = MakeConnection(options);
    EXPECT_TRUE(connection.ok()) << connection.status();
    return Client(*std::move(connection));
  }
  // Through a gate: quick to notice that nothing comes back.
  Client Through(const TcpGate& gate) {
    ConnectionOptions options = server_.Options(gate.address());
    options.retry.attempt_timeout = absl::Milliseconds(500);
    options.retry.max_elapsed = absl::Seconds(30);
    return Connect(options);
  }
  // Asks the server itself, until the operation is in this state. No order depends on the pause.
  template <typename Outcome>
  void WaitFor(const OperationId& operation) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (absl::Now() < deadline) {
      const auto outcome = client_.Lookup({operation, {}, {}});
      if (outcome.ok() && std::holds_alternative<Outcome>(*outcome)) return;
      absl::SleepFor(absl::Milliseconds(10));
    }
    FAIL() << "the operation did not get there";
  }

  OncedProcess server_;
  Client client_ = Connect(server_.Options());
  const OperationId operation_{"points.grant",
                               absl::StrCat("event-", AttemptId::Generate().ToString())};
  const Payload payload_ = Content::Json(R"({"points": 7})");
};

TEST_F(ClientTest, SecondExecuteGetsTheFirstOnesReceiptAlsoFromOtherwiseWrittenJson) {
  int runs = 0;
  const auto handler = [&](ExecutionContext& context) {
    ++runs;
    EXPECT_EQ(context.attempt_number(), 1);
    return HandlerResult::Succeeded(std::string("\0balance\xff", 9), "application/x");
  };
  const auto first = client_.Execute(operation_, payload_, handler);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->replayed);
  const auto second = client_.Execute(operation_, Content::Json("{ \"points\" : 7.0 }"), handler);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(second->replayed);
  EXPECT_EQ(second->receipt.result, std::string("\0balance\xff", 9));
  EXPECT_EQ(second->receipt.content_type, "application/x");
  EXPECT_EQ(second->receipt.complete_time, first->receipt.complete_time);
  EXPECT_EQ(second->receipt.fence, first->receipt.fence);
  EXPECT_EQ(runs, 1);
}

TEST_F(ClientTest, OtherContentIsAConflictWithWhatAPersonNeeds) {
  ASSERT_TRUE(client_
                  .Execute(operation_, payload_,
                           [](ExecutionContext&) { return HandlerResult::Succeeded(); })
                  .ok());
  const auto conflict =
      client_.Execute(operation_, Content::Json(R"({"points": 700})"),
                      [](ExecutionContext&) { return HandlerResult::Succeeded(); });
  EXPECT_EQ(ReasonOf(conflict.status()), ErrorReason::kConflict);
  const auto metadata = ErrorInfoOf(conflict.status()).metadata;
  EXPECT_EQ(metadata.at("state"), "COMPLETED");
  EXPECT_EQ(metadata.at("first_digest").size(), 64u);
  EXPECT_NE(metadata.at("first_digest"), metadata.at("request_digest"));
}

TEST_F(ClientTest, ManyThreadsAtOnceRunTheHandlerOnceAndAllGetItsReceipt) {
  std::atomic<int> runs{0};
  std::atomic<int> replayed{0};
  std::vector<std::thread> threads;
  ExecuteOptions options;
  options.wait = absl::Seconds(30);
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      const auto executed = client_.Execute(
          operation_, payload_,
          [&](ExecutionContext&) { return HandlerResult::Succeeded(absl::StrCat(++runs)); },
          options);
      ASSERT_TRUE(executed.ok()) << executed.status();
      EXPECT_EQ(executed->receipt.result, "1");
      if (executed->replayed) ++replayed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(replayed, 15);
}

TEST_F(ClientTest, FailedHandlerFreesTheOperationAtOnce) {
  const auto failed =
      client_.Execute(operation_, payload_, [](ExecutionContext&) -> absl::StatusOr<HandlerResult> {
        return absl::UnavailableError("bank is closed");
      });
  EXPECT_EQ(failed.status(), absl::UnavailableError("bank is closed"));
  EXPECT_THROW(client_
                   .Execute(operation_, payload_,
                            [](ExecutionContext&) -> absl::StatusOr<HandlerResult> {
                              throw std::runtime_error("gr\xfc\xdf");  // not UTF-8
                            })
                   .IgnoreError(),
               std::runtime_error);
  const auto executed = client_.Execute(operation_, payload_, [](ExecutionContext& context) {
    EXPECT_EQ(context.attempt_number(), 3);
    EXPECT_FALSE(context.earlier_attempt().has_value());
    return HandlerResult::Succeeded();
  });
  EXPECT_TRUE(executed.ok()) << executed.status();
}

TEST_F(ClientTest, HandlerMayPostponeForgetOrLeaveTheOutcomeOpen) {
  const auto fail_with = [&](const OperationId& operation, const absl::Status& status,
                             absl::Duration lease) {
    ExecuteOptions options;
    options.lease = lease;
    EXPECT_FALSE(client_
                     .Execute(
                         operation, payload_,
                         [&](ExecutionContext&) -> absl::StatusOr<HandlerResult> { return status; },
                         options)
                     .ok());
  };
  const auto succeed = [](ExecutionContext&) { return HandlerResult::Succeeded(); };

  fail_with(operation_, RetryAfter(absl::UnavailableError(""), absl::Hours(1)), absl::Seconds(30));
  const auto postponed = client_.Execute(operation_, payload_, succeed);
  EXPECT_EQ(ReasonOf(postponed.status()), ErrorReason::kInProgress);
  EXPECT_EQ(ErrorInfoOf(postponed.status()).metadata.at("why"), "DELAYED");

  const OperationId forgotten{"points.grant", operation_.event_id + "-forgotten"};
  fail_with(forgotten, ForgetOperation(absl::InvalidArgumentError("")), absl::Seconds(30));
  const auto other_content = client_.Execute(forgotten, Content::Json("{}"), succeed);
  EXPECT_TRUE(other_content.ok()) << other_content.status();

  const OperationId open{"points.grant", operation_.event_id + "-open"};
  fail_with(open, OutcomeUnknown(absl::DeadlineExceededError("")), absl::Milliseconds(300));
  ExecuteOptions patient;
  patient.wait = absl::Seconds(30);
  const auto after = client_.Execute(
      open, payload_,
      [](ExecutionContext& context) {
        EXPECT_TRUE(context.earlier_attempt().has_value());
        return HandlerResult::Succeeded();
      },
      patient);
  EXPECT_TRUE(after.ok()) << after.status();
}

TEST_F(ClientTest, WaiterGetsTheReceiptOfTheOneThatHolds) {
  absl::Notification holding;
  absl::Notification may_finish;
  std::thread holder([&] {
    const auto executed = client_.Execute(operation_, payload_, [&](ExecutionContext&) {
      holding.Notify();
      may_finish.WaitForNotification();
      return HandlerResult::Succeeded("theirs");
    });
    EXPECT_TRUE(executed.ok()) << executed.status();
  });
  holding.WaitForNotification();
  const auto impatient = client_.Execute(
      operation_, payload_, [](ExecutionContext&) { return HandlerResult::Succeeded("mine"); });
  EXPECT_EQ(ReasonOf(impatient.status()), ErrorReason::kInProgress);
  std::thread finisher([&] { may_finish.Notify(); });
  ExecuteOptions patient;
  patient.wait = absl::Seconds(30);
  const auto waited = client_.Execute(
      operation_, payload_, [](ExecutionContext&) { return HandlerResult::Succeeded("mine"); },
      patient);
  ASSERT_TRUE(waited.ok()) << waited.status();
  EXPECT_TRUE(waited->replayed);
  EXPECT_EQ(waited->receipt.result, "theirs");
  holder.join();
  finisher.join();
}

// ---- leases ----

TEST_F(ClientTest, HandlerThatRunsManyTimesItsLeaseKeepsTheClaim) {
  ExecuteOptions options;
  options.lease = absl::Milliseconds(300);
  const auto executed = client_.Execute(
      operation_, payload_,
      [&](ExecutionContext& context) {
        const absl::Time end = absl::Now() + absl::Seconds(2);
        while (absl::Now() < end) {
          EXPECT_FALSE(context.claim_lost());
          const auto rival = client_.Lookup({operation_, {}, {}});
          EXPECT_TRUE(rival.ok() && std::holds_alternative<InProgress>(*rival));
          absl::SleepFor(absl::Milliseconds(50));
        }
        return HandlerResult::Succeeded();
      },
      options);
  EXPECT_TRUE(executed.ok()) << executed.status();
}

TEST_F(ClientTest, OwnerThatIsCutOffLosesTheClaimIsToldAndCannotComplete) {
  TcpGate gate(server_.port());
  const Client cut_off = Through(gate);
  ExecuteOptions options;
  options.lease = absl::Milliseconds(400);
  options.consumer = "a";
  absl::Notification told;
  const auto late = cut_off.Execute(
      operation_, payload_,
      [&](ExecutionContext& context) {
        context.OnClaimLost([&] { told.Notify(); });
        gate.SwallowReplies(true);
        gate.Cut();
        told.WaitForNotification();
        EXPECT_TRUE(context.claim_lost());
        ExecuteOptions rival;
        rival.consumer = "b";
        rival.wait = absl::Seconds(30);
        const auto taken = client_.Execute(
            operation_, payload_,
            [&](ExecutionContext& second) {
              EXPECT_EQ(second.attempt_number(), 2);
              EXPECT_LT(context.fence(), second.fence());
              EXPECT_EQ(second.earlier_attempt()->attempt_id, context.attempt_id());
              EXPECT_EQ(second.earlier_attempt()->consumer, "a");
              return HandlerResult::Succeeded("b's");
            },
            rival);
        EXPECT_TRUE(taken.ok()) << taken.status();
        gate.SwallowReplies(false);
        gate.Cut();
        return HandlerResult::Succeeded("a's");
      },
      options);
  EXPECT_EQ(ReasonOf(late.status()), ErrorReason::kClaimLost) << late.status();
  EXPECT_EQ(ErrorInfoOf(late.status()).metadata.at("consumer"), "b");
  const auto receipt = client_.Lookup({operation_, {}, {}});
  ASSERT_TRUE(receipt.ok());
  EXPECT_EQ(std::get<Completed>(*receipt).receipt.result, "b's");
}

// ---- lost replies, restarts ----

TEST_F(ClientTest, LostReplyOfBeginIsGrantedAgainWithTheSameFence) {
  TcpGate gate(server_.port());
  const Client client = Through(gate);
  ASSERT_FALSE(client.Lookup({operation_, {}, {}}).ok());  // connected
  gate.SwallowReplies(true);
  std::thread healer([&] {
    WaitFor<InProgress>(operation_);  // it happened, and nobody was told
    gate.SwallowReplies(false);
    gate.Cut();
  });
  int runs = 0;
  const auto executed = client.Execute(operation_, payload_, [&](ExecutionContext& context) {
    ++runs;
    EXPECT_EQ(context.attempt_number(), 1);
    EXPECT_FALSE(context.earlier_attempt().has_value());
    return HandlerResult::Succeeded();
  });
  healer.join();
  EXPECT_TRUE(executed.ok()) << executed.status();
  EXPECT_EQ(runs, 1);
}

TEST_F(ClientTest, LostReplyOfCompleteIsAnsweredWithTheReceiptThatWasStored) {
  TcpGate gate(server_.port());
  const Client client = Through(gate);
  std::thread healer;
  int runs = 0;
  const auto executed = client.Execute(operation_, payload_, [&](ExecutionContext&) {
    ++runs;
    gate.SwallowReplies(true);
    healer = std::thread([&] {
      WaitFor<Completed>(operation_);
      gate.SwallowReplies(false);
      gate.Cut();
    });
    return HandlerResult::Succeeded("done");
  });
  healer.join();
  ASSERT_TRUE(executed.ok()) << executed.status();
  EXPECT_FALSE(executed->replayed);
  EXPECT_EQ(executed->receipt.result, "done");
  EXPECT_EQ(runs, 1);
}

TEST_F(ClientTest, ServerThatIsKilledWhileTheHandlerRunsCostsNothing) {
  std::thread starter;
  const auto executed = client_.Execute(operation_, payload_, [&](ExecutionContext& context) {
    server_.Kill();
    starter = std::thread([&] { server_.StartAgain(); });
    EXPECT_FALSE(context.claim_lost());
    return HandlerResult::Succeeded("done");
  });
  starter.join();
  ASSERT_TRUE(executed.ok()) << executed.status();
  EXPECT_EQ(executed->receipt.result, "done");
  EXPECT_EQ(server_.Stop(), 0);
}

TEST_F(ClientTest, RestartedConsumerGoesOnWithItsStoredAttempt) {
  BeginRequest begin;
  begin.operation = operation_;
  begin.payload = payload_;
  begin.attempt_id = AttemptId::Generate();
  const auto first = client_.Begin(begin);
  ASSERT_TRUE(first.ok()) << first.status();
  ExecuteOptions options;
  options.attempt_id = begin.attempt_id;
  const auto executed = Connect(server_.Options())
                            .Execute(
                                operation_, payload_,
                                [&](ExecutionContext& context) {
                                  EXPECT_EQ(context.fence(), std::get<Granted>(*first).claim.fence);
                                  EXPECT_EQ(context.attempt_number(), 1);
                                  return HandlerResult::Succeeded();
                                },
                                options);
  EXPECT_TRUE(executed.ok()) << executed.status();
}

// The shortest keepalive that the client takes must be one that the server allows: more than two
// pings too many would end the connection.
TEST_F(ClientTest, IdleConnectionIsProbedWithoutBeingClosedForIt) {
  const TcpGate gate(server_.port());
  ConnectionOptions options = server_.Options(gate.address());
  options.keepalive_time = absl::Seconds(10);
  const Client client = Connect(options);
  EXPECT_EQ(ReasonOf(client.Lookup({operation_, {}, {}}).status()),
            ErrorReason::kOperationNotFound);
  absl::SleepFor(absl::Seconds(55));  // five pings
  EXPECT_EQ(ReasonOf(client.Lookup({operation_, {}, {}}).status()),
            ErrorReason::kOperationNotFound);
  EXPECT_EQ(gate.accepted(), 1);
}

// ---- errors, limits, batches ----

TEST_F(ClientTest, ValueOutOfItsLimitIsNamedWithTheLimit) {
  BeginRequest begin;
  begin.operation = {"points.grant", std::string(256, 'x')};
  begin.payload = payload_;
  begin.attempt_id = AttemptId::Generate();
  const auto refused = client_.Begin(begin);
  const ErrorInfo info = ErrorInfoOf(refused.status());
  EXPECT_EQ(info.reason, ErrorReason::kInvalidField);
  EXPECT_EQ(info.metadata.at("limit"), "255");
  ASSERT_FALSE(info.field_violations.empty());
  EXPECT_EQ(info.field_violations[0].field, "event_id");
}

TEST_F(ClientTest, ResultThatIsTooLargeIsRefusedAndTheClaimStaysForASmallerOne) {
  BeginRequest begin;
  begin.operation = operation_;
  begin.payload = payload_;
  begin.attempt_id = AttemptId::Generate();
  const auto granted = client_.Begin(begin);
  ASSERT_TRUE(granted.ok()) << granted.status();
  CompleteRequest complete;
  complete.operation = operation_;
  complete.attempt_id = begin.attempt_id;
  complete.fence = std::get<Granted>(*granted).claim.fence;
  complete.result.assign((1 << 20) + 1, 'x');
  EXPECT_EQ(ReasonOf(client_.Complete(complete).status()), ErrorReason::kResultTooLarge);
  complete.result.resize(1 << 20);
  const auto completed = client_.Complete(complete);
  ASSERT_TRUE(completed.ok()) << completed.status();
  EXPECT_EQ(std::get<Completed>(*completed).receipt.result.size(), size_t{1} << 20);
}

TEST_F(ClientTest, BatchIsAnsweredItemByItemInOrder) {
  std::vector<BeginRequest> begins(1000);
  for (size_t i = 0; i < begins.size(); ++i) {
    begins[i].operation = {"batch", absl::StrCat("event-", i)};
    begins[i].payload = Content::Raw(absl::StrCat(i));
    begins[i].attempt_id = AttemptId::Generate();
  }
  begins[1].operation.event_id.clear();       // wrong by itself
  begins[2].operation = begins[0].operation;  // other content under the same identity
  const auto outcomes = client_.BatchBegin(begins);
  ASSERT_TRUE(outcomes.ok()) << outcomes.status();
  ASSERT_EQ(outcomes->size(), begins.size());
  EXPECT_TRUE(std::holds_alternative<Granted>(*(*outcomes)[0]));
  EXPECT_EQ(ReasonOf((*outcomes)[1].status()), ErrorReason::kInvalidField);
  EXPECT_TRUE(std::holds_alternative<Conflict>(*(*outcomes)[2]));
  std::vector<CompleteRequest> completes;
  for (size_t i = 3; i < begins.size(); ++i) {
    ASSERT_TRUE((*outcomes)[i].ok()) << (*outcomes)[i].status();
    const auto& claim = std::get<Granted>(*(*outcomes)[i]).claim;
    EXPECT_EQ(claim.attempt_id, begins[i].attempt_id);
    completes.push_back({begins[i].operation, claim.attempt_id, claim.fence,
                         ReceiptStatus::kSucceeded, absl::StrCat(i), ""});
  }
  const auto receipts = client_.BatchComplete(completes);
  ASSERT_TRUE(receipts.ok()) << receipts.status();
  ASSERT_EQ(receipts->size(), completes.size());
  for (size_t i = 0; i < receipts->size(); ++i) {
    EXPECT_EQ(std::get<Completed>(*(*receipts)[i]).receipt.result, absl::StrCat(i + 3));
  }
}

// ---- credentials ----

TEST_F(ClientTest, CredentialIsRotatedUnderAClientThatReadsItsFileAgain) {
  ConnectionOptions admin_options = server_.Options();
  admin_options.token_file = server_.admin_token_file();
  auto admin_connection = MakeAdminConnection(admin_options);
  ASSERT_TRUE(admin_connection.ok()) << admin_connection.status();
  const AdminClient admin(*admin_connection);
  ASSERT_TRUE(admin.CreateTenant("shop").ok());
  EXPECT_EQ(ReasonOf(admin.CreateTenant("shop").status()), ErrorReason::kTenantAlreadyExists);
  const auto issued = admin.CreateCredential({"shop", Role::kConsumer, {"points.*"}, "", {}});
  ASSERT_TRUE(issued.ok()) << issued.status();

  ConnectionOptions options = server_.Options();
  options.token_file = server_.folder() + "/token";
  std::ofstream(options.token_file) << issued->token << "\n";
  const Client client = Connect(options);
  const auto probe = [&] { return ReasonOf(client.Lookup({operation_, {}, {}}).status()); };
  EXPECT_EQ(probe(), ErrorReason::kOperationNotFound);
  EXPECT_EQ(ReasonOf(client.Lookup({{"orders", "e"}, {}, {}}).status()),
            ErrorReason::kPermissionDenied);

  const auto rotated = admin.RotateCredential(issued->credential.credential_id, absl::Hours(1));
  ASSERT_TRUE(rotated.ok()) << rotated.status();
  EXPECT_TRUE(rotated->replaced.expire_time.has_value());
  std::ofstream(options.token_file + ".new") << rotated->issued.token << "\n";
  std::filesystem::rename(options.token_file + ".new", options.token_file);
  const auto revoked = admin.RevokeCredential(issued->credential.credential_id);
  ASSERT_TRUE(revoked.ok()) << revoked.status();
  // The old one may be good for some seconds; the client must have the new one before it is not.
  const absl::Time end = absl::Now() + absl::Seconds(7);
  while (absl::Now() < end) {
    EXPECT_EQ(probe(), ErrorReason::kOperationNotFound);
    absl::SleepFor(absl::Milliseconds(50));
  }
  options.token_file.clear();
  options.token = issued->token;
  EXPECT_EQ(ReasonOf(Connect(options).Lookup({operation_, {}, {}}).status()),
            ErrorReason::kUnauthenticated);

  const auto tenants = admin.ListAllTenants();
  ASSERT_TRUE(tenants.ok());
  EXPECT_EQ(tenants->size(), 2u);
  const auto credentials = admin.ListAllCredentials("shop");
  ASSERT_TRUE(credentials.ok());
  EXPECT_EQ(credentials->size(), 2u);
}

// ---- oncectl ----

TEST_F(ClientTest, OncectlTellsOutcomesByExitCode) {
  const auto oncectl = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {ONCECTL_PROGRAM, "--server=" + server_.address(),
                                         "--token-file=" + server_.token_file()});
    return RunProgram(arguments);
  };
  const std::string attempt = AttemptId::Generate().ToString();
  const std::vector<std::string> begin = {"begin", "points.grant", "hex:00ff", "--content-string",
                                          R"({"n":1})"};
  std::vector<std::string> owner = begin;
  owner.insert(owner.end(), {"--attempt-id", attempt, "--json"});
  const Ended granted = oncectl(owner);
  EXPECT_EQ(granted.status, 0) << granted.output;
  const size_t at = granted.output.find("\"fence\":");
  ASSERT_NE(at, std::string::npos);
  const std::string fence =
      granted.output.substr(at + 8, granted.output.find_first_of(",}", at) - at - 8);
  EXPECT_EQ(oncectl(begin).status, 11);
  EXPECT_EQ(oncectl({"lookup", "points.grant", "hex:00ff"}).status, 11);
  EXPECT_EQ(
      oncectl({"renew", "points.grant", "hex:00ff", "--attempt-id", attempt, "--fence", fence})
          .status,
      0);
  EXPECT_EQ(oncectl({"complete", "points.grant", "hex:00ff", "--attempt-id", attempt, "--fence",
                     fence, "--result-string", "done"})
                .status,
            0);
  const Ended replay = oncectl(begin);
  EXPECT_EQ(replay.status, 10);
  EXPECT_THAT(replay.output, HasSubstr("result: done"));
  EXPECT_EQ(oncectl({"begin", "points.grant", "hex:00ff", "--content-string", "{}"}).status, 12);
  EXPECT_EQ(oncectl({"lookup", "points.grant", "hex:00ff"}).status, 0);
  EXPECT_EQ(oncectl({"lookup", "points.grant", "never"}).status, 4);
  EXPECT_EQ(oncectl({"begin", "no handler", "e", "--content-string", ""}).status, 2);
  EXPECT_EQ(oncectl({"tenants", "list"}).status, 5);
  EXPECT_EQ(oncectl({"--token-file=" + server_.admin_token_file(), "tenants", "list"}).status, 0);
  server_.Kill();
  EXPECT_EQ(oncectl({"lookup", "points.grant", "hex:00ff", "--timeout=300ms"}).status, 3);
}

}  // namespace
}  // namespace once
