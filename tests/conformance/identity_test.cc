// What makes two operations the same, and what the columns take.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "conformance/harness.h"
#include "core/limits.h"

namespace once::conformance {
namespace {

using ::testing::IsEmpty;

class IdentityTest : public OperationTest {
 protected:
  // All of them are granted, though they are claimed together; and each is found again under its
  // own id only.
  void ExpectAllDifferent(const std::vector<std::string>& event_ids) {
    const std::set<std::string> distinct(event_ids.begin(), event_ids.end());
    ASSERT_EQ(distinct.size(), event_ids.size()) << "the test's own list repeats itself";
    std::vector<store::Command> commands;
    for (const std::string& event_id : event_ids) {
      commands.push_back(BeginCommand(Key(event_id), BeginOf(NewAttempt(), event_id)));
    }
    const auto answers = Run(commands);
    ASSERT_EQ(answers.size(), event_ids.size());
    for (size_t i = 0; i < event_ids.size(); ++i) {
      SCOPED_TRACE(absl::StrCat("event id ", SqlBytes(event_ids[i])));
      const auto granted = Get<core::Granted>(std::get<core::BeginOutcome>(answers[i]));
      EXPECT_EQ(granted.attempt_number, 1);
      const auto row = Row(Key(event_ids[i]));
      ASSERT_TRUE(row.has_value());
      EXPECT_EQ(row->claim, granted.claim);
      EXPECT_EQ(row->digest, DigestOf(event_ids[i]));
      (void)Get<core::InProgress>(Begin(Key(event_ids[i]), BeginOf(NewAttempt(), event_ids[i])));
    }
  }
};
ONCE_OPERATION_SUITE(IdentityTest);

TEST_P(IdentityTest, TenantsAndHandlersDoNotMeet) {
  const core::TenantId other_tenant = NewTenant();
  const std::vector<core::OperationKey> keys = {
      {.tenant = tenant_, .handler = handler_, .event_id = "order-1"},
      {.tenant = tenant_, .handler = NewHandler(tenant_), .event_id = "order-1"},
      {.tenant = other_tenant, .handler = NewHandler(other_tenant), .event_id = "order-1"},
      {.tenant = other_tenant, .handler = NewHandler(other_tenant), .event_id = "order-1"},
  };
  std::vector<core::ClaimInfo> claims;
  for (size_t i = 0; i < keys.size(); ++i) {
    claims.push_back(Claim(keys[i], absl::StrCat("content ", i)));
  }
  (void)Complete(keys[0], CompleteOf(claims[0], "done"));
  (void)Abandon(keys[1], ForgetOf(claims[1]));

  EXPECT_EQ(ReceiptOf(keys[0]).result, "done");
  EXPECT_FALSE(Row(keys[1]).has_value());
  EXPECT_EQ(Row(keys[2])->claim, claims[2]);
  EXPECT_EQ(Row(keys[3])->claim, claims[3]);
}

TEST_P(IdentityTest, EventIdsCompareByteForByte) {
  ExpectAllDifferent({
      "A",
      "a",
      "x",
      "x ",
      " x",
      "x\t",
      "caf\xc3\xa9",   // é composed
      "cafe\xcc\x81",  // e and an accent
      "caf\xe9",       // not UTF-8
      "stra\xc3\x9f"
      "e",
      "strasse",
      std::string("\0", 1),
      std::string("\0\0", 2),
      std::string("x\0", 2),
      std::string("x\0y", 3),
      std::string("x\0z", 3),
      "\xff",
      "\xfe",
      "\x80",
      "%",
      "_",
      "'",
      "''",
      "\"",
      "\\",
      "\\'",
      "`",
      ";--",
      "/",
      ":",
      "a/b:c",
      "0",
      "00",
      "1e1",
      "10",
      "0x41",
      "NULL",
      "true",
      "0192f0c1-2345-7abc-8def-0123456789ab",
      "0192F0C1-2345-7ABC-8DEF-0123456789AB",
      std::string(64, 'f'),
      std::string(64, 'F'),
      std::string(254, 'k'),
      std::string(255, 'k'),
      std::string(254, 'k') + "K",
      std::string(254, 'k') + " ",
      std::string(255, '\0'),
      std::string(255, '\xff'),
  });
}

TEST_P(IdentityTest, EventIdsOfOneByteAreAllDifferent) {
  std::vector<std::string> all;
  for (int byte = 0; byte < 256; ++byte) {
    all.emplace_back(1, static_cast<char>(byte));
  }
  ExpectAllDifferent(all);
}

TEST_P(IdentityTest, KeysAreOrderedAsUnsignedBytes) {
  // The order of the locks is the order of the keys: both have to mean the same.
  const core::OperationKey low = Key("\x7f");
  const core::OperationKey high = Key("\x80");
  EXPECT_LT(low, high);
  EXPECT_LT(Key("a"), Key("aa"));
  (void)Claim(low);
  (void)Claim(high);
  if (absl::IsUnimplemented(database().Sql("SELECT 1").status())) GTEST_SKIP() << "no SQL";
  const auto rows = database().Sql(absl::StrCat(
      "SELECT event_id FROM operation WHERE tenant_id = ", tenant_.value, " ORDER BY event_id"));
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->size(), 2);
  EXPECT_EQ((*rows)[0][0], "\x7f");
}

TEST_P(IdentityTest, AllBytesOfAllTextsAreKept) {
  const core::OperationKey key = Key("order-1");
  const std::string odd = absl::StrCat(absl::string_view("\0'\"\\%\r\n\x1a \xff\xfe", 11), " ");
  core::BeginRequest request = BeginOf(NewAttempt());
  request.consumer = absl::StrCat(odd, "consumer", odd);
  request.handler_version = absl::StrCat(odd, "version", odd);
  store::DeliveryInfo delivery{.reference = absl::StrCat(odd, "reference", odd),
                               .source = 3,
                               .cause_handler = absl::StrCat(odd, "handler", odd),
                               .cause_event_id = absl::StrCat(odd, "event", odd),
                               .cause_reason = absl::StrCat(odd, "reason", odd),
                               .aggregate_id = absl::StrCat(odd, "aggregate", odd),
                               .aggregate_version = 1'234'567'890'123};

  const auto answers = Run({BeginCommand(key, request, delivery)});
  const auto granted = Get<core::Granted>(std::get<core::BeginOutcome>(answers.at(0)));
  const std::string note = absl::StrCat(odd, "note", odd);
  const std::string content_type = absl::StrCat(odd, "type", odd);
  (void)Abandon(key, ReleaseOf(granted.claim), note);

  const auto row = Row(key);
  EXPECT_EQ(row->claim.consumer, request.consumer);
  EXPECT_EQ(row->claim.handler_version, request.handler_version);
  const auto attempts = Attempts(key);
  ASSERT_EQ(attempts.size(), 2);
  EXPECT_EQ(attempts[0].consumer, request.consumer);
  EXPECT_EQ(attempts[0].handler_version, request.handler_version);
  EXPECT_EQ(attempts[0].delivery.reference, delivery.reference);
  EXPECT_EQ(attempts[0].delivery.source, 3);
  EXPECT_EQ(attempts[0].delivery.cause_handler, delivery.cause_handler);
  EXPECT_EQ(attempts[0].delivery.cause_event_id, delivery.cause_event_id);
  EXPECT_EQ(attempts[0].delivery.cause_reason, delivery.cause_reason);
  EXPECT_EQ(attempts[0].delivery.aggregate_id, delivery.aggregate_id);
  EXPECT_EQ(attempts[0].delivery.aggregate_version, delivery.aggregate_version);
  EXPECT_EQ(attempts[1].note, note);

  const core::ClaimInfo second = Claim(key);
  (void)Complete(key, CompleteOf(second, odd, core::ReceiptStatus::kSucceeded, content_type));
  EXPECT_EQ(ReceiptOf(key).content_type, content_type);
  EXPECT_EQ(ReceiptOf(key).result, odd);
}

TEST_P(IdentityTest, EmptyTextsAreEmpty) {
  const core::OperationKey key = Key("order-1");
  core::BeginRequest request = BeginOf(NewAttempt());
  request.consumer.clear();
  request.handler_version.clear();
  const auto granted = Get<core::Granted>(Begin(key, request));
  EXPECT_EQ(granted.claim.consumer, "");
  Lapse(key);
  const auto second = Get<core::Granted>(Begin(
      key, request = [&] {
        core::BeginRequest other = request;
        other.attempt = NewAttempt();
        return other;
      }()));
  ASSERT_TRUE(second.earlier_attempt.has_value());
  EXPECT_EQ(second.earlier_attempt->consumer, "");
  EXPECT_EQ(second.earlier_attempt->handler_version, "");
  (void)Complete(key, CompleteOf(second.claim, "", core::ReceiptStatus::kSucceeded, ""));
  const core::Receipt receipt = ReceiptOf(key);
  EXPECT_EQ(receipt.content_type, "");
  EXPECT_EQ(receipt.result, "");
  EXPECT_EQ(receipt.result_size, 0);
}

// ---- widths (C7) ----

class WidthTest : public OperationTest {
 protected:
  // Runs `command` on `key`, which the database has to refuse; a neighbour in the same batch is not
  // written either, and both can go on.
  void ExpectRefused(const core::OperationKey& key, const store::Command& command) {
    const auto before = Row(key);
    const size_t logged = Attempts(key).size();
    const core::OperationKey neighbour = Key("neighbour");
    const store::Command other = BeginCommand(neighbour, BeginOf(NewAttempt()));

    const auto answers = TryRun({other, command});

    EXPECT_TRUE(absl::IsInvalidArgument(answers.status())) << answers.status();
    EXPECT_FALSE(Row(neighbour).has_value());
    EXPECT_EQ(Row(key), before);
    EXPECT_EQ(Attempts(key).size(), logged);
    EXPECT_TRUE(absl::IsInvalidArgument(TryRun({command}).status()));
    EXPECT_TRUE(TryRun({other}).ok());
    (void)Abandon(neighbour, ForgetOf(Row(neighbour)->claim));
  }
};
INSTANTIATE_TEST_SUITE_P(, WidthTest, ::testing::Values(false),
                         [](const auto&) { return "plain"; });

TEST_P(WidthTest, LongestValuesFit) {
  const core::OperationKey key = Key(std::string(core::kMaxEventIdBytes, 'e'));
  core::BeginRequest request = BeginOf(NewAttempt());
  request.consumer = std::string(core::kMaxConsumerBytes, '\xff');
  request.handler_version = std::string(core::kMaxHandlerVersionBytes, '\xff');
  const store::DeliveryInfo delivery{
      .reference = std::string(core::kMaxReferenceBytes, '\xff'),
      .source = 255,
      .cause_handler = std::string(core::kMaxHandlerBytes, '\xff'),
      .cause_event_id = std::string(core::kMaxEventIdBytes, '\xff'),
      .cause_reason = std::string(core::kMaxReasonBytes, '\xff'),
      .aggregate_id = std::string(core::kMaxAggregateIdBytes, '\xff'),
      .aggregate_version = INT64_MAX};
  auto answers = Run({BeginCommand(key, request, delivery)});
  const auto granted = Get<core::Granted>(std::get<core::BeginOutcome>(answers.at(0)));
  (void)Get<core::Abandoned>(
      Abandon(key, ReleaseOf(granted.claim), std::string(core::kMaxReasonBytes, '\xff')));
  const core::ClaimInfo second = Claim(key);
  (void)Get<core::Completed>(
      Complete(key, CompleteOf(second, "", core::ReceiptStatus::kSucceeded,
                               std::string(core::kMaxContentTypeBytes, '\xff'))));
  const auto attempts = Attempts(key);
  ASSERT_EQ(attempts.size(), 4);
  EXPECT_EQ(attempts[0].delivery.reference, delivery.reference);
  EXPECT_EQ(attempts[0].delivery.aggregate_version, INT64_MAX);
  EXPECT_EQ(attempts[1].note.size(), core::kMaxReasonBytes);
  EXPECT_EQ(ReceiptOf(key).content_type.size(), core::kMaxContentTypeBytes);
}

TEST_P(WidthTest, TooLongEventIdIsRefused) {
  const core::OperationKey key = Key(std::string(core::kMaxEventIdBytes + 1, 'e'));
  const core::OperationKey cut = Key(std::string(core::kMaxEventIdBytes, 'e'));
  EXPECT_TRUE(absl::IsInvalidArgument(TryRun({BeginCommand(key, BeginOf(NewAttempt()))}).status()));
  EXPECT_FALSE(Row(cut).has_value()) << "cut off silently";
  (void)Claim(cut);
}

TEST_P(WidthTest, TooLongConsumerIsRefused) {
  core::BeginRequest request = BeginOf(NewAttempt());
  request.consumer = std::string(core::kMaxConsumerBytes + 1, 'c');
  ExpectRefused(Key("order-1"), BeginCommand(Key("order-1"), request));
}

TEST_P(WidthTest, TooLongHandlerVersionIsRefused) {
  core::BeginRequest request = BeginOf(NewAttempt());
  request.handler_version = std::string(core::kMaxHandlerVersionBytes + 1, 'v');
  ExpectRefused(Key("order-1"), BeginCommand(Key("order-1"), request));
}

TEST_P(WidthTest, TooLongDeliveryFieldsAreRefused) {
  const core::OperationKey key = Key("order-1");
  const auto refused = [&](const store::DeliveryInfo& delivery) {
    ExpectRefused(key, BeginCommand(key, BeginOf(NewAttempt()), delivery));
  };
  store::DeliveryInfo delivery;
  delivery.reference = std::string(core::kMaxReferenceBytes + 1, 'r');
  refused(delivery);
  delivery = {};
  delivery.cause_handler = std::string(core::kMaxHandlerBytes + 1, 'h');
  refused(delivery);
  delivery = {};
  delivery.cause_event_id = std::string(core::kMaxEventIdBytes + 1, 'e');
  refused(delivery);
  delivery = {};
  delivery.cause_reason = std::string(core::kMaxReasonBytes + 1, 'r');
  refused(delivery);
  delivery = {};
  delivery.aggregate_id = std::string(core::kMaxAggregateIdBytes + 1, 'a');
  refused(delivery);
}

TEST_P(WidthTest, TooLongContentTypeIsRefusedAndTheClaimStays) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  for (const std::string& result : {std::string("small"), std::string(5000, 'x')}) {
    ExpectRefused(
        key, CompleteCommand(key, CompleteOf(claim, result, core::ReceiptStatus::kSucceeded,
                                             std::string(core::kMaxContentTypeBytes + 1, 't'))));
  }
  (void)Get<core::Completed>(Complete(key, CompleteOf(claim, std::string(6000, 'y'))));
  EXPECT_EQ(ReceiptOf(key).result, std::string(6000, 'y'));
}

TEST_P(WidthTest, TooLongNoteIsRefused) {
  const core::OperationKey key = Key("order-1");
  const core::ClaimInfo claim = Claim(key);
  ExpectRefused(key,
                AbandonCommand(key, ReleaseOf(claim), std::string(core::kMaxReasonBytes + 1, 'n')));
}

}  // namespace
}  // namespace once::conformance
