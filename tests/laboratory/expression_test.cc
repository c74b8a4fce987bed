#include "kvist/laboratory/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvist::laboratory::expression_test {
namespace {

using ::testing::HasSubstr;

/// level(kv, 40) is 40; anything else of level() is missing.
Figures levels() {
  const auto find = [](const std::string&, const std::vector<std::string>& arguments) -> Result<std::optional<double>> {
    if (arguments.empty()) return fail(ErrorCode::kInvalidArgument, "level takes a mode");
    if (arguments.size() < 2 || arguments[0] != "kv") return std::nullopt;
    return std::stod(arguments[1]) + (arguments.size() == 3 && arguments[2] == "what-if" ? 1'000 : 0);
  };
  return {.names = {"level", "low_level"}, .find = find};
}

double value(const std::string& expression) {
  const Result<std::optional<double>> result = evaluate(expression, levels());
  EXPECT_TRUE(result.has_value()) << result.error().message;
  EXPECT_TRUE(result.has_value() && result->has_value()) << expression;
  return result && *result ? **result : -1e9;
}

TEST(Expression, FollowsArithmeticRules) {
  EXPECT_DOUBLE_EQ(value("1 + 2 * 3 - 4 / 2"), 5);
  EXPECT_DOUBLE_EQ(value("-(1 - 3) * 2"), 4);
  EXPECT_DOUBLE_EQ(value("level(kv, 100) / level(kv, 80)"), 1.25);
  EXPECT_DOUBLE_EQ(value("level(kv, 10, 'what-if')-low_level(kv, 10)"), 1'000);
  EXPECT_DOUBLE_EQ(value("max(1, level(kv, 7), 3) + min(2, 1) + mean(1, 2, 6) + abs(-4)"), 7 + 1 + 3 + 4);
  EXPECT_DOUBLE_EQ(value("1 / 3 * 3 - 1"), 1.0 / 3 * 3 - 1);
}

TEST(Expression, ComparisonsAreOneOrZero) {
  EXPECT_DOUBLE_EQ(value("level(kv, 100) / level(kv, 80) >= 1.25"), 1);
  EXPECT_DOUBLE_EQ(value("1 < 1"), 0);
  EXPECT_DOUBLE_EQ(value("1 <= 1 and 2 > 1"), 1);
  EXPECT_DOUBLE_EQ(value("1 > 2 or 3 > 2 and 1 > 2"), 0);
  EXPECT_DOUBLE_EQ(value("(1 > 2 or 3 > 2) and 2 > 1"), 1);
}

TEST(Expression, MissingValuesPropagate) {
  for (const char* expression : {"level(random, 40)", "1 + level(random, 40)", "level(random, 40) > 3",
                                 "max(1, level(random, 40))", "level(random, 40) != level(random, 40)", "9e307 * 10.0",
                                 "mean(9e307, 9e307)", "2 > 1 and level(random, 4) > 0"}) {
    const Result<std::optional<double>> result = evaluate(expression, levels());
    ASSERT_TRUE(result.has_value()) << expression << ": " << result.error().message;
    EXPECT_FALSE(result->has_value()) << expression;
  }
}

TEST(Expression, ErrorsNameTheProblemAndItsPlace) {
  const auto message = [](const std::string& expression) { return evaluate(expression, levels()).error().message; };
  EXPECT_THAT(message("1 +"), HasSubstr("\"{{ 1 + }}\": line 1, column 8"));
  EXPECT_THAT(message("(1"), HasSubstr("line 1, column 7"));
  EXPECT_THAT(message("1 2"), HasSubstr("line 1, column 6"));
  EXPECT_THAT(message("speed(kv, 40)"), HasSubstr("unknown function 'speed'"));
  EXPECT_THAT(message("level(slow, 40)"), HasSubstr("undefined ('slow')"));
  EXPECT_THAT(message("'text'"), HasSubstr("is no number"));
  EXPECT_THAT(message("level()"), HasSubstr("level takes a mode"));
  EXPECT_THAT(message("abs(kv)"), HasSubstr("expected a number, got a text"));
  EXPECT_THAT(message("1 / 0"), HasSubstr("division by zero"));
  EXPECT_THAT(message("level"), HasSubstr("a function has no text"));
  EXPECT_THAT(message(std::string(5'000, '1')), HasSubstr("4096"));
  EXPECT_THAT(message(std::string(200, '(') + "1" + std::string(200, ')')), HasSubstr("line 1"));
}

TEST(FillIn, ReplacesFiguresInTheirFormat) {
  const auto filled = [](const std::string& text) { return fill_in(text, levels()).value(); };
  EXPECT_EQ(filled("no figure"), "no figure");
  EXPECT_EQ(filled("{{fixed(level(kv, 40), 1)}} and {{ms(level(kv, 240))}}, {{ pct(level(kv, 12)) }}"),
            "40.0 and 240ms, 12.0%");
  EXPECT_EQ(filled("{{s(level(kv, 12000))}} {{times(1.256)}} {{points(3)}} {{fixed(2.5, 0)}} {{ms(level(random, 1))}}"),
            "12.0s 1.26 times 3.0 points 2 -");
  EXPECT_EQ(filled("{{'holds' if 2 > 1 else 'does not hold'}}"), "holds");
  EXPECT_THAT(fill_in("{{1", levels()).error().message, HasSubstr("without }}"));
  EXPECT_THAT(fill_in("{{euros(1)}}", levels()).error().message, HasSubstr("unknown function 'euros'"));
}

}  // namespace
}  // namespace kvist::laboratory::expression_test
