#include "rpc/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "core/content_digest.h"
#include "core/fingerprint.h"
#include "policy/document.h"
#include "unit/rpc/status_matchers.h"

namespace once::rpc {
namespace {

using base::ErrorReason;
using ::once::testing::HasMetadata;
using ::once::testing::IsError;
using ::once::testing::IsInvalid;
using ::once::testing::IsOk;
using ::testing::AllOf;

const std::string kAttempt(16, 'a');

class RequestTest : public ::testing::Test {
 protected:
  RequestTest() {
    principal_.tenant = core::TenantId{7};
    principal_.handler_patterns = {"points.*", "order.audit"};
  }

  RequestContext Context() {
    return RequestContext{principal_, limits_, *policies_, deadline_, cancellation_};
  }
  template <typename Request>
  auto Convert(Request request, const FieldPath& path = FieldPath()) {
    return ToCall(std::move(request), Context(), path);
  }

  // Of the caller's tenant.
  std::shared_ptr<const policy::Policies> PoliciesOf(
      const std::vector<core::HandlerPolicy>& policies) const {
    store::PolicyVersionRow row;
    row.tenant = core::TenantId{7};
    row.document = policy::WriteDocument(policies);
    return *policy::Policies(core::Limits()).With({&row, 1});
  }

  static v1::BeginRequest Begin() {
    v1::BeginRequest request;
    request.set_handler("points.grant");
    request.set_event_id("evt-1");
    request.set_attempt_id(kAttempt);
    request.mutable_content()->set_data("hello");
    return request;
  }
  static v1::CompleteRequest Complete() {
    v1::CompleteRequest request;
    request.set_handler("points.grant");
    request.set_event_id("evt-1");
    request.set_attempt_id(kAttempt);
    request.set_fence(17);
    request.set_status(v1::RECEIPT_STATUS_SUCCEEDED);
    return request;
  }
  static v1::AbandonRequest Abandon() {
    v1::AbandonRequest request;
    request.set_handler("points.grant");
    request.set_event_id("evt-1");
    request.set_attempt_id(kAttempt);
    request.set_fence(17);
    request.set_mode(v1::AbandonRequest::MODE_RELEASE);
    return request;
  }
  static v1::RenewRequest Renew() {
    v1::RenewRequest request;
    request.set_handler("points.grant");
    request.set_event_id("evt-1");
    request.set_attempt_id(kAttempt);
    request.set_fence(17);
    return request;
  }
  static v1::LookupRequest Lookup() {
    v1::LookupRequest request;
    request.set_handler("points.grant");
    request.set_event_id("evt-1");
    return request;
  }

  auth::Principal principal_;
  core::Limits limits_;
  std::shared_ptr<const policy::Policies> policies_ =
      PoliciesOf({{.handler = "order.*", .on_lapse = core::LapsePolicy::kInDoubt}});
  absl::Time deadline_ = absl::FromUnixSeconds(1'000);
  std::shared_ptr<pipeline::Cancellation> cancellation_ =
      std::make_shared<pipeline::Cancellation>();
};

TEST_F(RequestTest, BeginCarriesEverythingOver) {
  v1::BeginRequest request = Begin();
  request.mutable_lease()->set_seconds(5);
  request.mutable_wait()->set_seconds(2);
  request.set_consumer("worker-3");
  request.set_handler_version("1.2");
  request.mutable_delivery()->set_reference("offset 9");
  request.mutable_delivery()->set_source(v1::DELIVERY_SOURCE_DEAD_LETTER);
  request.mutable_causation()->set_handler("order.pay");
  request.mutable_causation()->set_event_id("evt-0");
  request.mutable_causation()->set_reason("paid");
  request.mutable_aggregate()->set_id("account-1");
  request.mutable_aggregate()->set_version(3);

  const auto call = Convert(request);

  ASSERT_THAT(call, IsOk());
  EXPECT_EQ(call->info.tenant, core::TenantId{7});
  EXPECT_EQ(call->info.handler, "points.grant");
  EXPECT_EQ(call->info.event_id, "evt-1");
  EXPECT_EQ(call->info.deadline, deadline_);
  EXPECT_EQ(call->info.cancellation, cancellation_);
  EXPECT_EQ(call->request.attempt.bytes[0], 'a');
  EXPECT_EQ(call->request.lease, absl::Seconds(5));
  EXPECT_EQ(call->wait, absl::Seconds(2));
  EXPECT_EQ(call->request.consumer, "worker-3");
  EXPECT_EQ(call->request.handler_version, "1.2");
  EXPECT_EQ(call->request.digest.scheme, core::DigestScheme::kRawSha256);
  EXPECT_EQ(call->request.digest.sha256, base::Sha256("hello"));
  EXPECT_EQ(call->delivery.reference, "offset 9");
  EXPECT_EQ(call->delivery.source, 3);
  EXPECT_EQ(call->delivery.cause_handler, "order.pay");
  EXPECT_EQ(call->delivery.cause_event_id, "evt-0");
  EXPECT_EQ(call->delivery.cause_reason, "paid");
  EXPECT_EQ(call->delivery.aggregate_id, "account-1");
  EXPECT_EQ(call->delivery.aggregate_version, 3);
}

TEST_F(RequestTest, BeginWithoutOptionalFieldsHasDefaults) {
  const auto call = Convert(Begin());
  ASSERT_THAT(call, IsOk());
  EXPECT_EQ(call->request.lease, absl::Seconds(30));
  EXPECT_EQ(call->wait, absl::ZeroDuration());
  EXPECT_EQ(call->request.on_lapse, core::LapsePolicy::kRetry);
}

TEST_F(RequestTest, HandlersThatForbidASecondRunAreKnown) {
  v1::BeginRequest begin = Begin();
  begin.set_handler("order.audit");
  EXPECT_EQ(Convert(begin)->request.on_lapse, core::LapsePolicy::kInDoubt);
  v1::LookupRequest lookup = Lookup();
  lookup.set_handler("order.audit");
  EXPECT_EQ(Convert(lookup)->request.on_lapse, core::LapsePolicy::kInDoubt);
}

// ---- what the handler's policy says ----

TEST_F(RequestTest, WhoCanProbeSaysSo) {
  v1::BeginRequest begin = Begin();
  EXPECT_FALSE(Convert(begin)->request.can_probe);
  begin.set_can_probe(true);
  EXPECT_TRUE(Convert(begin)->request.can_probe);
}

TEST_F(RequestTest, RefusedHandlerBeginsNothingAndEndsWhatItHas) {
  policies_ = PoliciesOf(
      {{.handler = "*", .admission = core::Admission::kRefused}, {.handler = "points.spend"}});
  EXPECT_THAT(Convert(Begin()),
              AllOf(IsError(ErrorReason::kHandlerNotAllowed, "points.grant"),
                    HasMetadata("handler", "points.grant"), HasMetadata("pattern", "*")));
  EXPECT_THAT(Convert(Complete()), IsOk());
  EXPECT_THAT(Convert(Abandon()), IsOk());
  EXPECT_THAT(Convert(Lookup()), IsOk());
  v1::BeginRequest listed = Begin();
  listed.set_handler("points.spend");
  EXPECT_THAT(Convert(listed), IsOk());
}

TEST_F(RequestTest, LeasesKeepToThePolicy) {
  core::HandlerPolicy policy{.handler = "points.*"};
  policy.lease = {
      .normal = absl::Seconds(5), .least = absl::Seconds(2), .greatest = absl::Seconds(9)};
  policies_ = PoliciesOf({policy});
  EXPECT_EQ(Convert(Begin())->request.lease, absl::Seconds(5));
  v1::BeginRequest begin = Begin();
  begin.mutable_lease()->set_seconds(9);
  EXPECT_THAT(Convert(begin), IsOk());
  begin.mutable_lease()->set_nanos(1);
  EXPECT_THAT(Convert(begin), IsInvalid("lease is 9.000000001s; the limit is 9s"));
  begin.mutable_lease()->set_nanos(0);
  begin.mutable_lease()->set_seconds(1);
  EXPECT_THAT(Convert(begin), IsInvalid("lease is 1s; the minimum is 2s"));
  v1::RenewRequest renew = Renew();
  renew.clear_lease();
  EXPECT_EQ(Convert(renew)->request.lease, absl::Seconds(5));
  // The claim may be older than the policy, and goes on within it.
  renew.mutable_lease()->set_seconds(10);
  EXPECT_EQ(Convert(renew)->request.lease, absl::Seconds(9));
  renew.mutable_lease()->set_seconds(1);
  EXPECT_EQ(Convert(renew)->request.lease, absl::Seconds(2));
  renew.mutable_lease()->set_seconds(86401);
  EXPECT_THAT(Convert(renew), IsInvalid("lease is 24h1s; the limit is 24h"));
}

TEST_F(RequestTest, IgnoredMembersMakeContentsTheSame) {
  core::HandlerPolicy policy{.handler = "points.*"};
  policy.digest = {.scheme = core::DigestScheme::kJsonJcsSha256,
                   .ignored_members = {"/meta/sent_at"}};
  policies_ = PoliciesOf({policy});
  const auto digest_of = [&](const std::string& content, v1::DigestScheme scheme) {
    v1::BeginRequest begin = Begin();
    begin.mutable_content()->set_data(content);
    begin.mutable_content()->set_scheme(scheme);
    const auto call = Convert(begin);
    EXPECT_THAT(call, IsOk());
    v1::LookupRequest lookup = Lookup();
    *lookup.mutable_content() = begin.content();
    EXPECT_EQ(Convert(lookup)->request.digest, call->request.digest);
    return call->request.digest;
  };
  const std::string first = R"({"a":1,"meta":{"sent_at":"10:00","by":"x"}})";
  const std::string later = R"({"meta":{"by":"x","sent_at":"10:05"},"a":1})";
  const std::string other = R"({"a":1,"meta":{"sent_at":"10:00","by":"y"}})";
  for (const auto scheme : {v1::DIGEST_SCHEME_UNSPECIFIED, v1::DIGEST_SCHEME_JSON_JCS_SHA256}) {
    EXPECT_EQ(digest_of(first, scheme), digest_of(later, scheme));
    EXPECT_NE(digest_of(first, scheme), digest_of(other, scheme));
  }
  // A caller that names the form gets that form.
  EXPECT_NE(digest_of(first, v1::DIGEST_SCHEME_RAW_SHA256),
            digest_of(later, v1::DIGEST_SCHEME_RAW_SHA256));
}

TEST_F(RequestTest, AttemptLogIsThePolicysOrTheServers) {
  EXPECT_FALSE(Convert(Begin())->attempt_log.has_value());
  policies_ = PoliciesOf({{.handler = "points.*", .attempt_log = core::AttemptLog::kBuffered}});
  EXPECT_EQ(Convert(Begin())->attempt_log, core::AttemptLog::kBuffered);
}

TEST_F(RequestTest, AnOrderNeedsTheAggregate) {
  EXPECT_FALSE(Convert(Begin())->request.order.has_value());
  policies_ = PoliciesOf({{.handler = "points.*", .order = {.guards_versions = true}}});
  v1::BeginRequest begin = Begin();
  begin.clear_aggregate();
  EXPECT_THAT(Convert(begin),
              IsError(ErrorReason::kInvalidField,
                      "aggregate is not set; the policy for points.* orders by aggregate"));
  begin.mutable_aggregate()->set_id("account-1");
  begin.mutable_aggregate()->set_version(7);
  const auto call = Convert(begin);
  ASSERT_THAT(call, IsOk());
  ASSERT_TRUE(call->request.order.has_value());
  EXPECT_EQ(call->request.order->aggregate_id, "account-1");
  EXPECT_EQ(call->request.order->version, 7);
  EXPECT_TRUE(call->request.order->guards_versions);
  EXPECT_FALSE(call->request.order->one_at_a_time);
  EXPECT_EQ(call->delivery.aggregate_id, "account-1") << "the attempt log tells of it, too";
}

TEST_F(RequestTest, ResolveSaysWhatWasFoundAndByWhom) {
  principal_.credential_id = "0123456789abcdef";
  v1::ResolveRequest request;
  request.set_handler("points.grant");
  request.set_event_id("evt-1");
  request.set_attempt_id(kAttempt);
  request.set_fence(17);
  request.set_verdict(v1::ResolveRequest::VERDICT_REFUSED);
  request.set_result("no funds");
  request.set_content_type("text/plain");
  request.set_evidence("the bank's letter of 3 May");
  const auto call = Convert(request);
  ASSERT_THAT(call, IsOk());
  EXPECT_EQ(call->request.verdict, core::Verdict::kRefused);
  EXPECT_EQ(call->request.result, "no funds");
  EXPECT_EQ(call->request.fingerprint,
            core::FingerprintOf(core::ReceiptStatus::kRejected, "text/plain", "no funds"));
  EXPECT_EQ(call->author.reason, "the bank's letter of 3 May");
  EXPECT_EQ(call->author.credential_id, principal_.credential_id);

  v1::ResolveRequest none = request;
  none.clear_verdict();
  EXPECT_THAT(Convert(none),
              IsError(ErrorReason::kInvalidField, "verdict must be DONE, REFUSED or NOT_DONE"));
  v1::ResolveRequest unfounded = request;
  unfounded.clear_evidence();
  EXPECT_THAT(Convert(unfounded), IsError(ErrorReason::kInvalidField, "evidence is empty"));
  unfounded.set_evidence(std::string(256, 'x'));
  EXPECT_THAT(Convert(unfounded),
              IsError(ErrorReason::kInvalidField, "evidence is 256 bytes; the limit is 255"));
  v1::ResolveRequest idle = request;
  idle.set_verdict(v1::ResolveRequest::VERDICT_NOT_DONE);
  EXPECT_THAT(Convert(idle),
              IsError(ErrorReason::kInvalidField, "result has no meaning with NOT_DONE"));
  v1::ResolveRequest elsewhere = request;
  elsewhere.set_handler("orders");
  EXPECT_THAT(Convert(elsewhere), IsError(ErrorReason::kPermissionDenied, "does not cover"));
}

TEST_F(RequestTest, HandlerMustBeCovered) {
  v1::BeginRequest request = Begin();
  request.set_handler("orders");
  EXPECT_THAT(Convert(request),
              AllOf(IsError(ErrorReason::kPermissionDenied, "does not cover the handler orders"),
                    HasMetadata("handler", "orders")));
  principal_.handler_patterns.clear();
  EXPECT_THAT(Convert(Begin()), IsError(ErrorReason::kPermissionDenied, ""));
  EXPECT_THAT(Convert(Complete()), IsError(ErrorReason::kPermissionDenied, ""));
  EXPECT_THAT(Convert(Abandon()), IsError(ErrorReason::kPermissionDenied, ""));
  EXPECT_THAT(Convert(Renew()), IsError(ErrorReason::kPermissionDenied, ""));
  EXPECT_THAT(Convert(Lookup()), IsError(ErrorReason::kPermissionDenied, ""));
}

// ---- every limited field at its limit and one beyond ----

template <typename Request>
struct LimitCase {
  std::string field;
  size_t limit;
  std::function<void(Request&, std::string)> set;
};

TEST_F(RequestTest, BeginTextsAreLimited) {
  principal_.handler_patterns = {"*"};
  const std::vector<LimitCase<v1::BeginRequest>> cases = {
      {"handler", 128, [](auto& r, std::string v) { r.set_handler(v); }},
      {"event_id", 255, [](auto& r, std::string v) { r.set_event_id(v); }},
      {"consumer", 128, [](auto& r, std::string v) { r.set_consumer(v); }},
      {"handler_version", 64, [](auto& r, std::string v) { r.set_handler_version(v); }},
      {"delivery.reference", 255,
       [](auto& r, std::string v) { r.mutable_delivery()->set_reference(v); }},
      {"causation.handler", 128,
       [](auto& r, std::string v) {
         r.mutable_causation()->set_handler(v);
         r.mutable_causation()->set_event_id("e");
       }},
      {"causation.event_id", 255,
       [](auto& r, std::string v) {
         r.mutable_causation()->set_handler("h");
         r.mutable_causation()->set_event_id(v);
       }},
      {"causation.reason", 255,
       [](auto& r, std::string v) {
         r.mutable_causation()->set_handler("h");
         r.mutable_causation()->set_event_id("e");
         r.mutable_causation()->set_reason(v);
       }},
      {"aggregate.id", 255, [](auto& r, std::string v) { r.mutable_aggregate()->set_id(v); }},
      {"content.data", size_t{1} << 20,
       [](auto& r, std::string v) { r.mutable_content()->set_data(v); }},
  };
  for (const auto& one : cases) {
    v1::BeginRequest request = Begin();
    one.set(request, std::string(one.limit, 'x'));
    EXPECT_THAT(Convert(request), IsOk()) << one.field;
    one.set(request, std::string(one.limit + 1, 'x'));
    const std::string limit = std::to_string(one.limit);
    const std::string size = std::to_string(one.limit + 1);
    EXPECT_THAT(Convert(request),
                AllOf(IsInvalid(one.field + " is " + size + " bytes; the limit is " + limit),
                      HasMetadata("field", one.field), HasMetadata("size", size),
                      HasMetadata("limit", limit)));
    EXPECT_THAT(Convert(request, FieldPath::OfItem(3)),
                HasMetadata("field", "requests[3]." + one.field));
  }
}

TEST_F(RequestTest, CompleteTextsAreLimited) {
  v1::CompleteRequest request = Complete();
  request.set_content_type(std::string(128, 'x'));
  EXPECT_THAT(Convert(request), IsOk());
  request.set_content_type(std::string(129, 'x'));
  EXPECT_THAT(Convert(request), IsInvalid("content_type is 129 bytes; the limit is 128"));
}

TEST_F(RequestTest, AbandonTextsAreLimited) {
  v1::AbandonRequest request = Abandon();
  request.set_reason(std::string(255, 'x'));
  EXPECT_THAT(Convert(request), IsOk());
  request.set_reason(std::string(256, 'x'));
  EXPECT_THAT(Convert(request), IsInvalid("reason is 256 bytes; the limit is 255"));
}

TEST_F(RequestTest, ResultAboveTheLimitSaysThatTheClaimStays) {
  v1::CompleteRequest request = Complete();
  request.set_result(std::string(size_t{1} << 20, 'x'));
  EXPECT_THAT(Convert(request), IsOk());
  request.mutable_result()->push_back('x');
  EXPECT_THAT(Convert(request),
              AllOf(IsError(ErrorReason::kResultTooLarge,
                            "result is 1048577 bytes; the limit is 1048576. The claim stays"),
                    HasMetadata("field", "result"), HasMetadata("limit", "1048576"),
                    HasMetadata("size", "1048577")));
}

TEST_F(RequestTest, ResultAndContentMayBeEmpty) {
  v1::BeginRequest begin = Begin();
  begin.mutable_content()->clear_data();
  EXPECT_EQ(Convert(begin)->request.digest.sha256, base::Sha256(""));
  EXPECT_THAT(Convert(Complete()), IsOk());
}

TEST_F(RequestTest, LimitsAreSettable) {
  limits_.max_content_bytes = 4;
  limits_.max_result_bytes = 4;
  EXPECT_THAT(Convert(Begin()), IsInvalid("content.data is 5 bytes; the limit is 4"));
  v1::CompleteRequest complete = Complete();
  complete.set_result("12345");
  EXPECT_THAT(Convert(complete), IsError(ErrorReason::kResultTooLarge, "the limit is 4"));
}

TEST_F(RequestTest, WaitIsLimitedAndHasNoPlaceInBatches) {
  v1::BeginRequest request = Begin();
  request.mutable_wait()->set_seconds(60);
  EXPECT_EQ(Convert(request)->wait, absl::Seconds(60));
  EXPECT_THAT(Convert(request, FieldPath::OfItem(0)),
              IsInvalid("requests[0].wait must not be set in a batch"));
  request.mutable_wait()->set_nanos(1);
  EXPECT_THAT(Convert(request), IsInvalid("wait is 1m0.000000001s; the limit is 1m"));
  request.mutable_wait()->set_seconds(-1);
  request.mutable_wait()->set_nanos(0);
  EXPECT_THAT(Convert(request), IsInvalid("wait is -1s; the minimum is 0"));
  request.mutable_wait()->set_seconds(0);
  EXPECT_THAT(Convert(request, FieldPath::OfItem(0)), IsOk());
}

TEST_F(RequestTest, RetryDelayIsLimited) {
  v1::AbandonRequest request = Abandon();
  request.mutable_retry_delay()->set_seconds(86'400);
  EXPECT_EQ(Convert(request)->request.retry_delay, absl::Hours(24));
  request.mutable_retry_delay()->set_nanos(1);
  EXPECT_FALSE(Convert(request).ok());
  request.mutable_retry_delay()->set_seconds(1);
  request.set_mode(v1::AbandonRequest::MODE_FORGET);
  EXPECT_THAT(Convert(request), IsInvalid("retry_delay has no meaning with FORGET; use RELEASE"));
}

// ---- enums and combinations ----

TEST_F(RequestTest, PayloadIsRequiredForBeginOnly) {
  v1::BeginRequest begin = Begin();
  begin.clear_payload();
  EXPECT_THAT(Convert(begin), IsInvalid("payload is not set; send content or digest"));
  const auto lookup = Convert(Lookup());
  ASSERT_THAT(lookup, IsOk());
  EXPECT_EQ(lookup->request.digest, std::nullopt);
}

TEST_F(RequestTest, LookupDigestsContent) {
  v1::LookupRequest request = Lookup();
  request.mutable_content()->set_data("{\"b\": 1, \"a\": 2}");
  request.mutable_content()->set_scheme(v1::DIGEST_SCHEME_JSON_JCS_SHA256);
  request.mutable_wait()->set_seconds(1);
  const auto call = Convert(request);
  ASSERT_THAT(call, IsOk());
  EXPECT_EQ(call->wait, absl::Seconds(1));
  EXPECT_EQ(call->request.digest,
            *core::DigestContent(core::DigestScheme::kJsonJcsSha256, "{\"a\":2,\"b\":1}"));
}

TEST_F(RequestTest, DigestOfTheCallerIsTakenAsItIs) {
  v1::BeginRequest request = Begin();
  request.mutable_digest()->set_scheme(v1::DIGEST_SCHEME_JSON_JCS_SHA256);
  request.mutable_digest()->set_sha256(std::string(32, 'd'));
  const auto call = Convert(request);
  ASSERT_THAT(call, IsOk());
  EXPECT_EQ(call->request.digest.scheme, core::DigestScheme::kJsonJcsSha256);
  EXPECT_EQ(call->request.digest.sha256[31], 'd');
}

TEST_F(RequestTest, DigestNeedsSchemeAndSize) {
  v1::BeginRequest request = Begin();
  request.mutable_digest()->set_sha256(std::string(32, 'd'));
  EXPECT_THAT(Convert(request), IsInvalid("digest.scheme is not set; say what was digested"));
  request.mutable_digest()->set_scheme(static_cast<v1::DigestScheme>(99));
  EXPECT_THAT(Convert(request), IsInvalid("digest.scheme is 99, which this server does not know"));
  request.mutable_digest()->set_scheme(v1::DIGEST_SCHEME_RAW_SHA256);
  for (const size_t size : {0, 31, 33}) {
    request.mutable_digest()->set_sha256(std::string(size, 'd'));
    EXPECT_THAT(Convert(request), IsInvalid("digest.sha256 is " + std::to_string(size) +
                                            " bytes; it needs exactly 32"));
  }
}

TEST_F(RequestTest, UnknownEnumeratorsAreRefused) {
  v1::BeginRequest begin = Begin();
  begin.mutable_content()->set_scheme(static_cast<v1::DigestScheme>(3));
  EXPECT_THAT(Convert(begin), HasMetadata("field", "content.scheme"));
  begin = Begin();
  begin.mutable_delivery()->set_source(static_cast<v1::DeliverySource>(257));
  EXPECT_THAT(Convert(begin), HasMetadata("field", "delivery.source"));
  v1::CompleteRequest complete = Complete();
  complete.set_status(v1::RECEIPT_STATUS_UNSPECIFIED);
  EXPECT_THAT(Convert(complete), IsInvalid("status must be SUCCEEDED or REJECTED"));
  complete.set_status(static_cast<v1::ReceiptStatus>(257));
  EXPECT_THAT(Convert(complete), HasMetadata("field", "status"));
  v1::AbandonRequest abandon = Abandon();
  abandon.set_mode(v1::AbandonRequest::MODE_UNSPECIFIED);
  EXPECT_THAT(Convert(abandon), IsInvalid("mode must be RELEASE or FORGET"));
}

TEST_F(RequestTest, AggregateVersionIsNotNegative) {
  v1::BeginRequest request = Begin();
  request.mutable_aggregate()->set_id("a");
  EXPECT_THAT(Convert(request), IsOk());
  request.mutable_aggregate()->set_version(-1);
  EXPECT_THAT(Convert(request), IsInvalid("aggregate.version is -1; the minimum is 0"));
}

TEST_F(RequestTest, ContentThatIsNotCanonicalIsRefusedWithThePathOfTheFault) {
  v1::BeginRequest request = Begin();
  request.mutable_content()->set_scheme(v1::DIGEST_SCHEME_JSON_JCS_SHA256);
  request.mutable_content()->set_data(R"({"a": {"b": 9007199254740993}})");
  EXPECT_THAT(Convert(request), AllOf(IsError(ErrorReason::kContentNotCanonical,
                                              "content.data is not I-JSON at \"/a/b\""),
                                      HasMetadata("field", "content.data"),
                                      HasMetadata("pointer", "/a/b"), HasMetadata("offset", "12")));
  EXPECT_THAT(Convert(request, FieldPath::OfItem(2)),
              HasMetadata("field", "requests[2].content.data"));
}

TEST_F(RequestTest, LongPathsOfFaultsAreCutInTheMessageAtACharacter) {
  std::string name;
  for (int i = 0; i < 63; ++i) {
    name += "é";
  }
  std::string json = "1e999";
  for (int i = 0; i < 5; ++i) {
    json = "{\"" + name + "\":" + json + "}";
  }
  v1::BeginRequest request = Begin();
  request.mutable_content()->set_scheme(v1::DIGEST_SCHEME_JSON_JCS_SHA256);
  request.mutable_content()->set_data(json);
  const auto call = Convert(request);
  ASSERT_THAT(call, IsError(ErrorReason::kContentNotCanonical, "…\""));
  EXPECT_LT(call.status().message().size(), 500u);
  EXPECT_GT(base::DetailsOf(call.status()).metadata.at("pointer").size(), 500u);
  v1::BeginRequest utf8;
  utf8.set_consumer(std::string(call.status().message()));
  EXPECT_TRUE(utf8.ParseFromString(utf8.SerializeAsString()));  // still UTF-8
}

TEST_F(RequestTest, DepthLimitIsTheSettingsOne) {
  limits_.max_json_depth = 2;
  v1::BeginRequest request = Begin();
  request.mutable_content()->set_scheme(v1::DIGEST_SCHEME_JSON_JCS_SHA256);
  request.mutable_content()->set_data("[[1]]");
  EXPECT_THAT(Convert(request), IsOk());
  request.mutable_content()->set_data("[[[1]]]");
  EXPECT_THAT(Convert(request), IsError(ErrorReason::kContentNotCanonical, ""));
}

TEST_F(RequestTest, CompleteCarriesEverythingOver) {
  v1::CompleteRequest request = Complete();
  request.set_status(v1::RECEIPT_STATUS_REJECTED);
  request.set_result(std::string("\0result", 7));
  request.set_content_type("text/plain");
  const auto call = Convert(request);
  ASSERT_THAT(call, IsOk());
  EXPECT_EQ(call->request.fence, core::Fence{17});
  EXPECT_EQ(call->request.status, core::ReceiptStatus::kRejected);
  EXPECT_EQ(call->request.result, std::string("\0result", 7));
  EXPECT_EQ(call->request.content_type, "text/plain");
  EXPECT_EQ(call->request.fingerprint,
            core::FingerprintOf(core::ReceiptStatus::kRejected, "text/plain",
                                std::string("\0result", 7)));
}

TEST_F(RequestTest, AbandonAndRenewCarryEverythingOver) {
  v1::AbandonRequest abandon = Abandon();
  abandon.mutable_retry_delay()->set_seconds(9);
  abandon.set_reason("downstream away");
  const auto abandoned = Convert(abandon);
  ASSERT_THAT(abandoned, IsOk());
  EXPECT_FALSE(abandoned->request.forget);
  EXPECT_EQ(abandoned->request.retry_delay, absl::Seconds(9));
  EXPECT_EQ(abandoned->note, "downstream away");
  abandon.clear_retry_delay();
  abandon.set_mode(v1::AbandonRequest::MODE_FORGET);
  EXPECT_TRUE(Convert(abandon)->request.forget);

  v1::RenewRequest renew = Renew();
  renew.mutable_lease()->set_seconds(9);
  const auto renewed = Convert(renew);
  ASSERT_THAT(renewed, IsOk());
  EXPECT_EQ(renewed->request.lease, absl::Seconds(9));
  EXPECT_EQ(renewed->request.fence, core::Fence{17});
}

TEST_F(RequestTest, BatchesAreLimitedInItemsAndBytes) {
  EXPECT_THAT(CheckItemCount(1, limits_), IsOk());
  EXPECT_THAT(CheckItemCount(1000, limits_), IsOk());
  EXPECT_THAT(CheckItemCount(1001, limits_),
              AllOf(IsInvalid("requests has 1001 items; the limit is 1000"),
                    HasMetadata("size", "1001"), HasMetadata("limit", "1000")));
  EXPECT_THAT(CheckItemCount(0, limits_), IsInvalid("requests has 0 items; it needs 1 to 1000"));
  EXPECT_THAT(CheckMessageSize(size_t{4} << 20, limits_), IsOk());
  EXPECT_THAT(CheckMessageSize((size_t{4} << 20) + 1, limits_),
              IsInvalid("requests is 4194305 bytes in all; the limit is 4194304"));
}

}  // namespace
}  // namespace once::rpc
