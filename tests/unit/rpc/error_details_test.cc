#include "rpc/error_details.h"

#include <gmock/gmock.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "once/v1/error_reason.pb.h"

namespace once::rpc {
namespace {

using base::ErrorReason;
using base::MakeError;
using ::testing::Contains;
using ::testing::Pair;

// A decoder of its own, with the field numbers of google/rpc/status.proto and error_details.proto
// as published, so that a mistake in our copies of these messages shows.
using Fields = std::multimap<int, std::string>;  // varints as decimal text

Fields Decode(const std::string& bytes) {
  using google::protobuf::internal::WireFormatLite;
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream input(&array);
  Fields fields;
  while (const uint32_t tag = input.ReadTag()) {
    const int number = static_cast<int>(tag >> 3);
    if ((tag & 7) == 0) {
      uint64_t value = 0;
      EXPECT_TRUE(input.ReadVarint64(&value));
      fields.emplace(number, std::to_string(value));
    } else {
      EXPECT_EQ(tag & 7, 2u);
      uint32_t length = 0;
      std::string value;
      EXPECT_TRUE(input.ReadVarint32(&length));
      EXPECT_TRUE(input.ReadString(&value, static_cast<int>(length)));
      fields.emplace(number, value);
    }
  }
  return fields;
}

std::string Get(const Fields& fields, int number) {
  const auto found = fields.find(number);
  return found == fields.end() ? "" : found->second;
}

// google.rpc.Status: code = 1, message = 2, details = 3 (Any: type_url = 1, value = 2).
struct Decoded {
  std::string code;
  std::string message;
  std::map<std::string, Fields> details;  // by type URL
};

Decoded DecodeStatus(const grpc::Status& status) {
  const Fields fields = Decode(status.error_details());
  Decoded decoded{Get(fields, 1), Get(fields, 2), {}};
  const auto [begin, end] = fields.equal_range(3);
  for (auto it = begin; it != end; ++it) {
    const Fields any = Decode(it->second);
    decoded.details.emplace(Get(any, 1), Decode(Get(any, 2)));
  }
  return decoded;
}

constexpr char kErrorInfo[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kRetryInfo[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr char kBadRequest[] = "type.googleapis.com/google.rpc.BadRequest";

TEST(ErrorDetailsTest, StockClientsReadReasonAndMetadata) {
  const grpc::Status status = ToGrpcStatus(
      MakeError(ErrorReason::kTenantNotFound, "there is no tenant acme", {{"tenant", "acme"}}));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "there is no tenant acme");
  const Decoded decoded = DecodeStatus(status);
  EXPECT_EQ(decoded.code, "5");
  EXPECT_EQ(decoded.message, "there is no tenant acme");
  ASSERT_EQ(decoded.details.size(), 1u);
  const Fields info = decoded.details.at(kErrorInfo);  // reason = 1, domain = 2, metadata = 3
  EXPECT_EQ(Get(info, 1), "TENANT_NOT_FOUND");
  EXPECT_EQ(Get(info, 2), "once");
  const Fields entry = Decode(Get(info, 3));  // a map: key = 1, value = 2
  EXPECT_EQ(Get(entry, 1), "tenant");
  EXPECT_EQ(Get(entry, 2), "acme");
}

TEST(ErrorDetailsTest, RetryableErrorsCarryADelay) {
  const Decoded decoded = DecodeStatus(
      ToGrpcStatus(MakeError(ErrorReason::kOverloaded, "full", {}, absl::Milliseconds(2'250))));
  const Fields retry = decoded.details.at(kRetryInfo);  // retry_delay = 1
  const Fields delay = Decode(Get(retry, 1));           // seconds = 1, nanos = 2
  EXPECT_EQ(Get(delay, 1), "2");
  EXPECT_EQ(Get(delay, 2), "250000000");
  for (const ErrorReason reason :
       {ErrorReason::kQuotaExceeded, ErrorReason::kOverloaded, ErrorReason::kDraining,
        ErrorReason::kStoreUnavailable, ErrorReason::kOutcomeUnknown}) {
    EXPECT_EQ(DecodeStatus(ToGrpcStatus(MakeError(reason, "x"))).details.count(kRetryInfo), 1u);
  }
}

TEST(ErrorDetailsTest, FieldErrorsCarryABadRequest) {
  const Decoded decoded =
      DecodeStatus(ToGrpcStatus(base::InvalidField("event_id", "is 256 bytes; the limit is 255")));
  EXPECT_EQ(decoded.details.count(kRetryInfo), 0u);
  const Fields bad = decoded.details.at(kBadRequest);  // field_violations = 1
  const Fields violation = Decode(Get(bad, 1));        // field = 1, description = 2
  EXPECT_EQ(Get(violation, 1), "event_id");
  EXPECT_EQ(Get(violation, 2), "event_id is 256 bytes; the limit is 255");
}

TEST(ErrorDetailsTest, DefectsDoNotLeakTheirText) {
  for (const absl::Status& defect :
       {absl::InternalError("SELECT secret FROM credential"), absl::UnavailableError("db7.local"),
        MakeError(ErrorReason::kInternal, "row of tenant 4711 is broken")}) {
    const grpc::Status status = ToGrpcStatus(defect);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
    EXPECT_THAT(status.error_message(), ::testing::StartsWith("a defect of the server"));
    EXPECT_EQ(Get(DecodeStatus(status).details.at(kErrorInfo), 1), "INTERNAL");
    EXPECT_THAT(status.error_details(), ::testing::Not(::testing::HasSubstr("secret")));
    EXPECT_THAT(status.error_details(), ::testing::Not(::testing::HasSubstr("4711")));
  }
}

TEST(ErrorDetailsTest, ItemErrorsSayTheSame) {
  v1::ItemError item;
  FillItemError(MakeError(ErrorReason::kStoreUnavailable, "away", {{"a", "b"}}), &item);
  EXPECT_EQ(item.code(), 14);
  EXPECT_EQ(item.reason(), "STORE_UNAVAILABLE");
  EXPECT_EQ(item.message(), "away");
  EXPECT_EQ(item.metadata().at("a"), "b");
  EXPECT_EQ(item.retry_delay().nanos(), 200'000'000);
  v1::ItemError defect;
  FillItemError(absl::InternalError("SQL"), &defect);
  EXPECT_EQ(defect.code(), 13);
  EXPECT_EQ(defect.reason(), "INTERNAL");
  EXPECT_FALSE(defect.has_retry_delay());
}

TEST(ErrorDetailsTest, ReasonsHaveTheNumbersAndNamesOfTheProtocol) {
  const google::protobuf::EnumDescriptor& reasons = *v1::ErrorReason_descriptor();
  ASSERT_EQ(reasons.value_count(), 21);
  for (int number = 1; number < reasons.value_count(); ++number) {
    const auto reason = static_cast<ErrorReason>(number);
    EXPECT_EQ(std::string("ERROR_REASON_") + std::string(base::ReasonName(reason)),
              reasons.FindValueByNumber(number)->name());
  }
}

// Clients refuse more than 8 KiB of metadata unless told otherwise.
TEST(ErrorDetailsTest, LargestErrorFitsIntoTheTrailersOfStockClients) {
  std::string path;
  for (int i = 0; i < 512; ++i) {
    path += "é";
  }
  const grpc::Status status = ToGrpcStatus(MakeError(
      ErrorReason::kContentNotCanonical, path.substr(0, 400),
      {{"field", "requests[999].content.data"}, {"pointer", path}, {"offset", "1048575"}}));
  const size_t message = 3 * status.error_message().size();            // percent-encoded
  const size_t details = (status.error_details().size() + 2) / 3 * 4;  // base64
  EXPECT_LT(message + details, 6'000u);
}

}  // namespace
}  // namespace once::rpc
