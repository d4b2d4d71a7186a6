#include "once/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "once/v1/error_reason.pb.h"
#include "status_details.h"
#include "status_matchers.h"

namespace once {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;
using testing_support::HasCode;

// Protobuf by hand, from the field numbers of google/rpc/status.proto and error_details.proto, so
// that this does not share a mistake with the code.
std::string Field(int number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) +
         std::string(1, static_cast<char>(bytes.size())) + bytes;
}
std::string Any(const std::string& type, const std::string& value) {
  // Over 127 bytes would need a longer length.
  return Field(3, Field(1, "type.googleapis.com/google.rpc." + type) + Field(2, value));
}

TEST(ErrorInfoTest, DetailsFromTheWireAreDecoded) {
  const std::string error_info =
      Field(1, "INVALID_FIELD") + Field(2, "once") + Field(3, Field(1, "limit") + Field(2, "255"));
  const std::string retry_info = Field(1, std::string("\x08\x02", 2));  // 2 s
  const std::string bad_request = Field(1, Field(1, "event_id") + Field(2, "too long"));
  const std::string wire =
      Any("ErrorInfo", error_info) + Any("RetryInfo", retry_info) + Any("BadRequest", bad_request);

  const absl::Status status = client_internal::FromWire(3, "event_id is 256 bytes", wire);

  EXPECT_THAT(status, HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(status.message(), "event_id is 256 bytes");
  const ErrorInfo info = ErrorInfoOf(status);
  EXPECT_EQ(info.reason, ErrorReason::kInvalidField);
  EXPECT_THAT(info.metadata, ElementsAre(Pair("limit", "255")));
  EXPECT_EQ(info.retry_delay, absl::Seconds(2));
  ASSERT_EQ(info.field_violations.size(), 1u);
  EXPECT_EQ(info.field_violations[0].field, "event_id");
  EXPECT_EQ(info.field_violations[0].description, "too long");
}

TEST(ErrorInfoTest, ReasonOfAnotherDomainIsNotTakenForOurs) {
  const std::string error_info = Field(1, "OVERLOADED") + Field(2, "proxy.example");
  const auto status = client_internal::FromWire(8, "", Any("ErrorInfo", error_info));
  EXPECT_EQ(ReasonOf(status), ErrorReason::kUnknown);
}

TEST(ErrorInfoTest, ReasonOfANewerServerKeepsItsName) {
  const std::string error_info = Field(1, "SOMETHING_NEW") + Field(2, "once");
  const auto info = ErrorInfoOf(client_internal::FromWire(9, "", Any("ErrorInfo", error_info)));
  EXPECT_EQ(info.reason, ErrorReason::kUnknown);
  EXPECT_EQ(info.reason_name, "SOMETHING_NEW");
}

TEST(ErrorInfoTest, GarbageAndForeignStatusesGiveUnknown) {
  EXPECT_EQ(ReasonOf(client_internal::FromWire(14, "", "\xff\xff\xff")), ErrorReason::kUnknown);
  EXPECT_EQ(ReasonOf(absl::UnavailableError("")), ErrorReason::kUnknown);
  EXPECT_EQ(ReasonOf(absl::OkStatus()), ErrorReason::kUnknown);
  EXPECT_THAT(client_internal::FromWire(99, "", ""), HasCode(absl::StatusCode::kUnknown));
}

TEST(ErrorInfoTest, EveryReasonOfTheProtocolHasItsNumberAndName) {
  const auto* values = v1::ErrorReason_descriptor();
  for (int i = 0; i < values->value_count(); ++i) {
    const auto* value = values->value(i);
    if (value->number() == 0) continue;
    const auto reason = static_cast<ErrorReason>(value->number());
    EXPECT_EQ(absl::StrCat("ERROR_REASON_", ToString(reason)), value->name());
    EXPECT_EQ(client_internal::ReasonFromName(ToString(reason)), reason);
  }
}

TEST(ErrorInfoTest, LongerMessageKeepsTheDetails) {
  const auto status = testing_support::ServerError(absl::StatusCode::kUnavailable,
                                                   ErrorReason::kDraining, absl::Seconds(1));
  const auto longer = client_internal::Annotate(status, " [gave up]");
  EXPECT_EQ(longer.message(), "the server says so [gave up]");
  EXPECT_EQ(ErrorInfoOf(longer).reason, ErrorReason::kDraining);
  EXPECT_EQ(ErrorInfoOf(longer).retry_delay, absl::Seconds(1));
}

TEST(HandlerVerdictTest, TravelsInTheStatusThatTheHandlerReturns) {
  using Kind = client_internal::HandlerVerdict::Kind;
  const absl::Status failure = absl::InternalError("no");
  EXPECT_EQ(client_internal::VerdictOf(failure).kind, Kind::kRelease);
  EXPECT_EQ(client_internal::VerdictOf(failure).delay, absl::ZeroDuration());
  EXPECT_EQ(client_internal::VerdictOf(RetryAfter(failure, absl::Seconds(90))).delay,
            absl::Seconds(90));
  EXPECT_EQ(client_internal::VerdictOf(ForgetOperation(failure)).kind, Kind::kForget);
  EXPECT_EQ(client_internal::VerdictOf(OutcomeUnknown(failure)).kind, Kind::kUnknown);
  EXPECT_EQ(OutcomeUnknown(failure).message(), "no");
}

}  // namespace
}  // namespace once
