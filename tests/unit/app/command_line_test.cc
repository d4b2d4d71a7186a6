#include "app/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

namespace once::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

ParsedCommand MustParse(const std::vector<std::string>& args) {
  const auto result = ParseCommandLine(args);
  if (const auto* print = std::get_if<PrintAndExit>(&result)) {
    ADD_FAILURE() << print->text;
    return {};
  }
  return std::get<ParsedCommand>(result);
}

PrintAndExit MustPrint(const std::vector<std::string>& args) {
  const auto result = ParseCommandLine(args);
  if (!std::holds_alternative<PrintAndExit>(result)) {
    ADD_FAILURE() << "parsed";
    return {};
  }
  return std::get<PrintAndExit>(result);
}

TEST(ParseCommandLine, KeepsValuesAsTheyAre) {
  const ParsedCommand parsed =
      MustParse({"serve", "--store=sqlite:a", "--max-wait", "1s", "--listen=a:1,b:2",
                 "--listen=c:3", "--migrate", "--flagfile", "f"});
  EXPECT_EQ(parsed.command, Command::kServe);
  EXPECT_EQ(parsed.flagfile, "f");
  EXPECT_THAT(parsed.flags, UnorderedElementsAre(Pair("store", ElementsAre("sqlite:a")),
                                                 Pair("max-wait", ElementsAre("1s")),
                                                 Pair("listen", ElementsAre("a:1,b:2", "c:3")),
                                                 Pair("migrate", ElementsAre("true"))));
}

TEST(ParseCommandLine, SwitchesTakeAnExplicitValue) {
  EXPECT_THAT(MustParse({"serve", "--migrate=false"}).flags["migrate"], ElementsAre("false"));
}

TEST(ParseCommandLine, EmptyValuesStay) {
  EXPECT_THAT(MustParse({"dev", "--http-listen="}).flags["http-listen"], ElementsAre(""));
}

TEST(ParseCommandLine, UnknownFlagsAreHandedOnToBeReportedWithTheOthers) {
  EXPECT_THAT(
      MustParse({"serve", "--listne=1", "--migrate"}).flags,
      UnorderedElementsAre(Pair("listne", ElementsAre("1")), Pair("migrate", ElementsAre("true"))));
}

TEST(ParseCommandLine, FlagsOfOtherCommandsAreHandedOnToo) {
  EXPECT_THAT(MustParse({"migrate", "--committers=2"}).flags,
              ElementsAre(Pair("committers", ElementsAre("2"))));
}

TEST(ParseCommandLine, RefusesWhatIsNoFlag) {
  EXPECT_EQ(MustPrint({"serve", "x"}).code, 2);
  EXPECT_EQ(MustPrint({"serve", "-x"}).code, 2);
  EXPECT_EQ(MustPrint({"serve", "--max-wait"}).code, 2);
  EXPECT_EQ(MustPrint({"nonsense"}).code, 2);
  EXPECT_EQ(MustPrint({}).code, 2);
}

TEST(ParseCommandLine, HelpAndVersionSucceed) {
  EXPECT_EQ(MustPrint({"--help"}).code, 0);
  const PrintAndExit help = MustPrint({"serve", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.text, HasSubstr("--max-wait"));
  EXPECT_THAT(MustPrint({"version"}).text, HasSubstr("onced 0."));
  EXPECT_THAT(MustPrint({"--version"}).text, HasSubstr("onced 0."));
}

}  // namespace
}  // namespace once::app
