// The origin of each byte: [ and ] enclose the text that came from variables.
#include <gtest/gtest.h>

#include <string>

#include "jinja/rendering.h"
#include "kvist/base/random.h"

namespace kvist::jinja::marks_test {
namespace {

constexpr std::string_view kData = R"({"u": " Ab\ncd ", "n": "x", "l": ["p", "q"], "d": {"k": "v\"w"}, "i": 7})";

TEST(JinjaMarksTest, SurviveEveryOperation) {
  const auto marks = [](std::string_view source) { return render_with_marks(source, kData); };
  EXPECT_EQ(marks("a{{ n }}b"), "a[x]b");
  EXPECT_EQ(marks("{{ 'a' + n ~ 'b' ~ n * 2 }}"), "a[x]b[xx]");
  EXPECT_EQ(marks("{{ u|trim }}{{ u.strip().upper() }}{{ u[1:3] }}{{ u[::-1][1] }}"), "[Ab\ncdAB\nCDAbd]");
  EXPECT_EQ(marks("{{ ('<' ~ u ~ '>')|replace('A', '-')|replace('<', n) }}"), "[x ]-[b\ncd ]>");
  EXPECT_EQ(marks("{{ (n ~ '|' ~ n).split('|') }}"), "['[x]', '[x]']");
  EXPECT_EQ(marks("{{ (n ~ '|' ~ n).rsplit('|', 1) }}"), "['[x]', '[x]']");
  EXPECT_EQ(marks("{{ '<{}|{:>3}|{:.1}|{}>'.format(n, n, u, l) }}"), "<[x]|  [x]|[ ]|['[p]', '[q]']>");
  EXPECT_EQ(marks("{{ l|join('-') }} {{ ['a', n]|join(n) }}"), "[p]-[q] a[xx]");
  EXPECT_EQ(marks("{{ d|tojson }}"), R"({"[k]": "[v\"w]"})");
  EXPECT_EQ(marks("{{ d|tojson(indent=1) }}"), "{\n \"[k]\": \"[v\\\"w]\"\n}");
  EXPECT_EQ(marks("{{ ('a' ~ u)|indent(2) }}"), "a[ Ab\n]  [cd ]");
  EXPECT_EQ(marks("{% set s %}a{{ n }}{% endset %}{{ s }}{% macro m(t) %}({{ t }}){% endmacro %}{{ m(n) }}"),
            "a[x]([x])");
  EXPECT_EQ(marks("{% filter upper %}a{{ n }}{% endfilter %}"), "A[X]");
  EXPECT_EQ(marks("{% for c in n ~ 'y' %}{{ c }}.{% endfor %}"), "[x].y.");
  EXPECT_EQ(marks("{{ n|title }}{{ n|capitalize }}{{ n|default('z') }}{{ missing|default(n) }}"), "[XXxx]");
  EXPECT_EQ(marks("{{ l|sort|first }}{{ l|map('upper')|last }}{{ d.items()|first|first }}"), "[pQk]");
  EXPECT_EQ(marks("{% if n == 'x' %}x{% endif %}{{ n|length }}{{ i }}"), "x17");  // numbers are the template's
}

// Checks the marks with two alphabets: variables use one, templates the other.
TEST(JinjaMarksTest, EqualTheirAlphabet) {
  constexpr std::uint64_t kSeed = 20261121;
  SCOPED_TRACE(kSeed);
  RandomStream random(kSeed);
  const auto pick = [&](std::initializer_list<std::string_view> choices) {
    const auto index = random.uniform_int(0, static_cast<std::int64_t>(choices.size()) - 1);
    return std::string(*(choices.begin() + index));
  };
  for (int round = 0; round < 2000; ++round) {
    std::string expression = pick({"u", "'abc'", "v"});
    const auto steps = random.uniform_int(1, 8);
    for (std::int64_t i = 0; i < steps; ++i) {
      expression = "(" + expression + ")";
      expression += pick({"|trim", "|upper", "[1:]", "[::-1]", "[:-1]", "|replace('b', u)", "|replace('X', 'd')",
                          ".split('a')|join(v)", " ~ u", " + 'efg'", "|tojson", "|indent(1, true)", " * 2", "|title",
                          ".strip('abXY')", ".split('Y', 1)|last", "|list|reverse|join", "|string", "|lower|upper"});
    }
    const Result<MarkedText> text =
        render_marked("{{ " + expression + " }}", R"({"u": "XÄY", "v": "\u4e16X "})", {.output_bytes = 1 << 20});
    if (!text) {
      EXPECT_EQ(text.error().code, ErrorCode::kTooLarge) << expression << ": " << text.error().message;
      continue;
    }
    for (std::size_t i = 0; i < text->size(); ++i) {
      const char c = text->bytes()[i];
      const bool users = c == 'X' || c == 'Y' || c == 'x' || c == 'y' || static_cast<signed char>(c) < 0;
      const bool templates = (c >= 'a' && c <= 'g') || (c >= 'A' && c <= 'G') || c == '"';
      if (!users && !templates) continue;
      ASSERT_EQ(text->is_marked(i), users) << expression << " at " << i;
    }
  }
}

}  // namespace
}  // namespace kvist::jinja::marks_test
