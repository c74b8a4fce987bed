#include "kvist/cli/command_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/command_test.h"

namespace kvist::cli::command_tree_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Command sample() {
  return {
      .name = "kvist",
      .description = "serves",
      .options = {{.names = {"-h", "--help"}, .description = "help"}},
      .commands = {
          {.name = "report",
           .description = "a user's report [once more]",
           .options =
               {{.names = {"database"}, .description = "what a sweep left", .positional = true, .takes_value = true}},
           .commands = {{.name = "compare",
                         .description = ".a line that begins with a dot \\ and a backslash",
                         .options = {{.names = {"-f", "--file"},
                                      .description = "sweep file",
                                      .takes_value = true,
                                      .required = true}}}}},
          {.name = "plan", .description = "groups", .commands = {{.name = "memory", .description = "m"}}}}};
}

TEST(ManPage, HasEachCommandWithItsOptions) {
  const std::string page = man_page(sample(), "1.2");
  EXPECT_THAT(page, AllOf(HasSubstr(".TH KVIST 1 \"\" \"kvist 1.2\""), HasSubstr(".SS kvist report [database]\n"),
                          HasSubstr(".SS kvist report compare \\-\\-file FILE\n"),
                          HasSubstr("\\fB\\-f, \\-\\-file FILE\\fR\nsweep file (required)\n")));
}

TEST(ManPage, OmitsCommandsThatOnlyGroupOthers) {
  EXPECT_THAT(man_page(sample(), "1"), AllOf(Not(HasSubstr(".SS kvist plan\n")), HasSubstr(".SS kvist plan memory\n")));
}

TEST(ManPage, TextIsNeverATroffRequest) {
  EXPECT_THAT(man_page(sample(), "1"), HasSubstr("\n\\&.a line that begins with a dot \\e and a backslash.\n"));
}

TEST(Completion, OfBashKnowsWhatFollowsEachCommand) {
  const Result<std::string> script = completion(sample(), "bash");
  ASSERT_TRUE(script.has_value());
  EXPECT_THAT(*script, AllOf(HasSubstr("'kvist report' | 'kvist report compare' | 'kvist plan' | 'kvist plan memory')"),
                             HasSubstr("    'kvist report compare')\n      commands=''\n      options='-f --file'\n"
                                       "      values='-f --file'\n")));
}

TEST(Completion, QuotesDescriptions) {
  EXPECT_THAT(completion(sample(), "zsh").value(), HasSubstr(R"('report:a user'\''s report \[once more\]')"));
  EXPECT_THAT(completion(sample(), "fish").value(), HasSubstr(R"(-a report -d 'a user\'s report [once more]')"));
}

TEST(Completion, RefusesAnotherShell) {
  EXPECT_EQ(completion(sample(), "csh").error().message, "no completion for csh; known: bash, zsh, fish");
}

using PrintedTest = CommandTest;

TEST_F(PrintedTest, TheRealCommandsAreInBoth) {
  const Ran page = kvist({"man"});
  EXPECT_EQ(page.status, 0);
  EXPECT_THAT(page.out, AllOf(HasSubstr(".SS kvist gateway \\-\\-file FILE\n"), HasSubstr(".SS kvist plan capacity ")));
  const Ran script = kvist({"completion", "bash"});
  EXPECT_EQ(script.status, 0);
  EXPECT_THAT(script.out, AllOf(HasSubstr("'kvist trace generate'"), HasSubstr("--tool-parser")));
  EXPECT_EQ(kvist({"completion", "csh"}).status, 1);
  EXPECT_EQ(kvist({"completion"}).status, 2);
}

}  // namespace
}  // namespace kvist::cli::command_tree_test
