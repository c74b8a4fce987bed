#include "kvist/laboratory/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvist::laboratory {
namespace {

using ::testing::HasSubstr;

/// level(kv, 40) is 40; anything else of level() is missing; other names are unknown.
Result<std::optional<double>> lookup(const std::string& name, const std::vector<std::string>& arguments) {
  if (name != "level" && name != "a.level") return fail(ErrorCode::kInvalidArgument, "no figure \"" + name + "\"");
  if (arguments.size() < 2 || arguments[0] != "kv") return std::nullopt;
  return std::stod(arguments[1]) + (arguments.size() == 3 && arguments[2] == "what-if" ? 1'000 : 0);
}

double value(const std::string& expression) {
  const Result<std::optional<double>> result = evaluate(expression, lookup);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result.has_value() && result->has_value()) << expression;
  return result && *result ? **result : -1e9;
}

TEST(Expression, ComputesAsOneExpects) {
  EXPECT_DOUBLE_EQ(value("1 + 2 * 3 - 4 / 2"), 5);
  EXPECT_DOUBLE_EQ(value("-(1 - 3) * 2"), 4);
  EXPECT_DOUBLE_EQ(value("level(kv, 100) / level(kv, 80)"), 1.25);
  EXPECT_DOUBLE_EQ(value("level(kv, 10, what-if)-a.level(kv, 10)"), 1'000);
  EXPECT_DOUBLE_EQ(value("max(1, level(kv, 7), 3) + min(2, 1) + mean(1, 2, 6) + abs(-4)"), 7 + 1 + 3 + 4);
}

TEST(Expression, ComparisonsAreOneOrZero) {
  EXPECT_DOUBLE_EQ(value("level(kv, 100) / level(kv, 80) >= 1.25"), 1);
  EXPECT_DOUBLE_EQ(value("1 < 1"), 0);
  EXPECT_DOUBLE_EQ(value("1 <= 1 and 2 > 1"), 1);
  EXPECT_DOUBLE_EQ(value("1 > 2 or 3 > 2 and 1 > 2"), 0);
  EXPECT_DOUBLE_EQ(value("(1 > 2 or 3 > 2) and 2 > 1"), 1);
}

TEST(Expression, WhatIsMissingStaysMissing) {
  for (const char* expression :
       {"level(random, 40)", "1 + level(random, 40)", "level(random, 40) > 3", "max(1, level(random, 40))", "1 / 0",
        "9e307 * 10", "mean(9e307, 9e307)", "2 > 1 and level(random, 4) > 0"}) {
    const Result<std::optional<double>> result = evaluate(expression, lookup);
    ASSERT_TRUE(result.has_value()) << expression;
    EXPECT_FALSE(result->has_value()) << expression;
  }
}

TEST(Expression, SaysWhatIsWrongAndWhere) {
  const auto message = [](const std::string& expression) { return evaluate(expression, lookup).error().message; };
  EXPECT_THAT(message("1 +"), HasSubstr("character 4: expected a number"));
  EXPECT_THAT(message("(1"), HasSubstr("expected )"));
  EXPECT_THAT(message("1 2"), HasSubstr("what follows is no operator"));
  EXPECT_THAT(message("speed(kv, 40)"), HasSubstr("no figure \"speed\""));
  EXPECT_THAT(message("level kv"), HasSubstr("expected ( behind level"));
  EXPECT_THAT(message("level(kv 40)"), HasSubstr("expected , or )"));
  EXPECT_THAT(message(std::string(5'000, '1')), HasSubstr("4096"));
  EXPECT_THAT(message(std::string(100, '(') + "1" + std::string(100, ')')), HasSubstr("nested too deeply"));
  EXPECT_THAT(message(std::string(100, '-') + "1"), HasSubstr("nested too deeply"));
}

TEST(FillIn, ReplacesFiguresInTheirFormat) {
  const auto filled = [](const std::string& text) { return fill_in(text, lookup).value(); };
  EXPECT_EQ(filled("no figure"), "no figure");
  EXPECT_EQ(filled("{{level(kv, 40)}} and {{level(kv, 240)|ms}}, {{level(kv, 12)|pct}}"), "40.0 and 240ms, 12.0%");
  EXPECT_EQ(filled("{{level(kv, 12000)|s}} {{1.256|x}} {{3|points}} {{2.5|0}} {{level(x, 1)|ms}}"),
            "12.0s 1.26 times 3.0 points 2 -");
  EXPECT_EQ(filled("{{2 > 1|holds}}, {{1 > 2|holds}}"), "holds, does not hold");
  EXPECT_THAT(fill_in("{{1", lookup).error().message, HasSubstr("without }}"));
  EXPECT_THAT(fill_in("{{1|euros}}", lookup).error().message, HasSubstr("no format \"euros\""));
}

}  // namespace
}  // namespace kvist::laboratory
