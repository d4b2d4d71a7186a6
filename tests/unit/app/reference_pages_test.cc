// The reference pages are made from the program's tables; this is what keeps them so.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "app/flags.h"
#include "app/metrics.h"

namespace once::app {
namespace {

std::string PageText(const std::string& name) {
  std::ifstream file(std::string(ONCE_SOURCE_DIR) + "/docs/reference/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ReferencePages, FlagsPageIsWhatTheProgramSays) {
  EXPECT_EQ(PageText("flags.md"), FlagsMarkdown())
      << "run: onced help-markdown flags > docs/reference/flags.md";
}

TEST(ReferencePages, MetricsPageIsWhatTheProgramSays) {
  EXPECT_EQ(PageText("metrics.md"), MetricsMarkdown())
      << "run: onced help-markdown metrics > docs/reference/metrics.md";
}

}  // namespace
}  // namespace once::app
