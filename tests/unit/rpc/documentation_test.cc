// The pages of the reference say what the code does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "core/limits.h"
#include "once/v1/error_reason.pb.h"

namespace once::rpc {
namespace {

using ::testing::HasSubstr;

std::string Page(const std::string& name) {
  std::ifstream file(absl::StrCat(ONCE_SOURCE_DIR, "/docs/reference/", name));
  EXPECT_TRUE(file.good()) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(DocumentationTest, EveryReasonIsListedWithItsStatusAndWhetherToRepeat) {
  const std::string page = Page("errors.md");
  const google::protobuf::EnumDescriptor& reasons = *v1::ErrorReason_descriptor();
  for (int number = 1; number < reasons.value_count(); ++number) {
    const auto reason = static_cast<base::ErrorReason>(number);
    const absl::Status error = base::MakeError(reason, "");
    const bool delayed = base::DetailsOf(error).retry_delay.has_value();
    EXPECT_THAT(page, HasSubstr(absl::StrCat("| `", base::ReasonName(reason), "` | `",
                                             absl::StatusCodeToString(error.code()), "` | ",
                                             delayed ? "after the delay" : "")));
  }
}

TEST(DocumentationTest, LimitsAreTheDefaults) {
  const std::string page = Page("protocol.md");
  const core::Limits limits;
  EXPECT_THAT(page, HasSubstr(absl::StrCat("1–", core::kMaxHandlerBytes, " bytes of")));
  EXPECT_THAT(page, HasSubstr(absl::StrCat("| event id | 1–", core::kMaxEventIdBytes, " bytes")));
  EXPECT_THAT(page, HasSubstr(absl::StrCat("0 bytes to ", limits.max_content_bytes >> 20, " MiB")));
  EXPECT_EQ(limits.max_content_bytes, limits.max_result_bytes);
  EXPECT_THAT(page, HasSubstr(absl::StrCat("1–", limits.max_batch_items, " items and ",
                                           limits.max_message_bytes >> 20, " MiB")));
  EXPECT_THAT(page, HasSubstr(absl::StrCat("| page | 1–", limits.max_page_size,
                                           "; 0: ", limits.default_page_size)));
  EXPECT_THAT(page, HasSubstr(absl::StrCat("| depth of JSON content | ", limits.max_json_depth)));
}

}  // namespace
}  // namespace once::rpc
