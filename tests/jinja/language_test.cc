// The template language. Expected results are recorded from Jinja 3.1.2 under the settings of transformers;
// tests/text_peers/chat_template_peer.mjs compares complete published templates with it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "jinja/rendering.h"

namespace kvist::jinja::language_test {
namespace {

TEST(JinjaLanguageTest, ControlsWhiteSpaceAsJinjaDoes) {
  EXPECT_EQ(render("a\n{% if true %}\nb\n{% endif %}\nc\n"), "a\nb\nc");  // trim_blocks, one line end at the end
  EXPECT_EQ(render("a\n  \t{% if true %}b{% endif %}"), "a\nb");          // lstrip_blocks
  EXPECT_EQ(render("a  {% if true %}b{% endif %}"), "a  b");              // not in the middle of a line
  EXPECT_EQ(render("  {{ 1 }}\nx"), "  1\nx");                            // nor for expressions
  EXPECT_EQ(render("a \n {%- if true -%} \n b \n {%- endif %} c"), "ab c");
  EXPECT_EQ(render("a \n {{- 1 -}} \n b"), "a1b");
  EXPECT_EQ(render("  {%+ if true +%}\nb{% endif %}"), "  \nb");
  EXPECT_EQ(render("a\n  {# note #}\nb {#- x -#} c"),
            "a\nb"
            "c");
  EXPECT_EQ(render("a\r\nb\rc"), "a\nb\nc");
  EXPECT_EQ(render("{ {a} %} }} #}"), "{ {a} %} }} #}");
}

TEST(JinjaLanguageTest, BindsOperatorsAsJinjaDoes) {
  EXPECT_EQ(render("{{ 1 + 2 * 3 - 4 // 3 }}"), "6");
  EXPECT_EQ(render("{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}"),
            "-4 2 -2 3.5 1024 0.5");
  EXPECT_EQ(render("{{ 'a' ~ 1 + 1 }}"), "error: line 1, column 12: a text + an integer cannot be computed");
  EXPECT_EQ(render("{{ 'a' + ' b '|trim }}"), "ab");
  EXPECT_EQ(render("{{ -1|abs }} {{ not 1 == 2 }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }}"), "1 True True False");
  EXPECT_EQ(render("{{ 'x' if false }}|{{ 'x' if false else 'y' if false else 'z' }}"), "|z");
  EXPECT_EQ(render("{{ 'a' in 'cat' and 1 not in [2, 3] or nothing }}"), "True");
  EXPECT_EQ(render("{{ 0 or 'b' }}{{ '' and 'c' }}{{ 'd' and 'e' }}"), "be");
  EXPECT_EQ(render("{{ 'a' 'b' * 2 }} {{ [1] * 2 + [2] }}"), "abab [1, 1, 2]");
  EXPECT_EQ(render("{{ 'na\\u00efve\\n\\x41\\'\\d' }}"), "naïve\nA'\\d");
}

TEST(JinjaLanguageTest, PrintsAsPythonDoes) {
  EXPECT_EQ(render("{{ true }} {{ none }} {{ 1.0 }} {{ 1e20 }} {{ 0.1 }} {{ missing }}|"), "True None 1.0 1e+20 0.1 |");
  EXPECT_EQ(render("{{ ['a', \"it's\", 'both\\'\"', 1.5, none, (1,), {'k': 'v\\n'}] }}"),
            R"(['a', "it's", 'both\'"', 1.5, None, (1,), {'k': 'v\n'}])");
  EXPECT_EQ(render("{{ 1, 2 }}"), "(1, 2)");
  EXPECT_EQ(render("{{ [t] }}", "{\"t\": \"a\u00a0b\u3000c\u200dé日👩\U000e0001\\u0001\u007f\"}"),
            R"(['a\xa0b\u3000c\u200dé日👩\U000e0001\x01\x7f'])")
      << "what is not printable is escaped";
}

TEST(JinjaLanguageTest, SlicesAndIndexesInCharacters) {
  const std::string_view text = R"({"t": "añ日👩e", "l": [0, 1, 2, 3, 4]})";
  EXPECT_EQ(render("{{ t[1] }}{{ t[-2] }}{{ t[9] }} {{ t[1:3] }} {{ t[::-1] }} {{ t[:-1] }} {{ t|length }}", text),
            "ñ👩 ñ日 e👩日ña añ日👩 5");
  EXPECT_EQ(render("{{ l[1:4:2] }} {{ l[::-2] }} {{ l[-2:] }} {{ l[10:] }} {{ l[3:1] }} {{ l[3:1:-1] }}", text),
            "[1, 3] [4, 2, 0] [3, 4] [] [] [3, 2]");
}

TEST(JinjaLanguageTest, WhatHasNoItemsHasNoneToMapOrSelect) {
  for (const std::string_view nothing : {"none", "false", "0", "''", "missing", "{}"}) {
    SCOPED_TRACE(nothing);
    for (const std::string_view filter :
         {"map('upper')", "map(attribute='x')", "select('odd')", "reject('odd')", "selectattr('x')", "rejectattr('x')"})
      EXPECT_EQ(render(fmt::format("{{{{ {}|{}|list }}}}", nothing, filter)), "[]");
  }
  EXPECT_EQ(render("{{ 5|select('odd')|list }}"), "error: line 1, column 6: an integer has no items to go through");
  EXPECT_EQ(render("{{ none[1:] }}{{ {}[1:] is defined }}{{ 5[:2] is undefined }}{{ true[::0] }}|"), "FalseTrue|");
  EXPECT_EQ(render("{{ missing[1:] }}"), "error: line 1, column 11: undefined ('missing') has no slices");
}

TEST(JinjaLanguageTest, DictionariesMayHaveIntegersAsKeys) {
  EXPECT_EQ(render("{% set d = {0: 0, 512: 128, 'a': true, true: 7} %}{{ d }} {{ d[0] }} {{ d[512.0] }} {{ d[true] }} "
                   "{{ d[1] }} {{ d.get(512) }} {{ 0 in d }} {{ '0' in d }} {{ d|tojson }} {{ d|list }} "
                   "{{ d['0'] is defined }} {{ d[0.5] is defined }}"),
            "{0: 0, 512: 128, 'a': True, True: 7} 0 128 7 7 128 True False "
            R"({"0": 0, "512": 128, "a": true, "true": 7} [0, 512, 'a', True] False False)");
  EXPECT_EQ(render("{{ {512: 1, 0: 2, -3: 1}|dictsort }} {{ {512: 1, 0: 2, -3: 4}|tojson(sort_keys=true) }} "
                   "{{ {1: 2} == {true: 2} }} {{ {1: 2} == {'1': 2} }} {{ {1: 1, true: 2} }}"),
            R"([(-3, 1), (0, 2), (512, 1)] {"-3": 4, "0": 2, "512": 1} True False {1: 2})");
  EXPECT_EQ(render("{{ dict({1: 2}, a=3) }} {{ [{1: 'x'}]|map(attribute='1')|list }} "
                   "{% for k, v in {3: 'c', 1: 'a'}.items() %}{{ k + 1 }}{{ v }}{% endfor %}"),
            "{1: 2, 'a': 3} ['x'] 4c2a");
  EXPECT_EQ(render("{{ {1: 2, 'a': 1}|tojson(sort_keys=true) }}"),
            "error: line 1, column 19: an integer and a text have no order");
  EXPECT_EQ(render("{{ {1: 2, 'a': 1}|dictsort }}"), "error: line 1, column 19: a text and an integer have no order");
  EXPECT_EQ(render("{{ {[]: 2} }}"),
            "error: line 1, column 4: a dictionary's key must be a text or an integer, not a list");
  // As ByteDance's Seed-OSS chooses a budget.
  EXPECT_EQ(render("{% set n = namespace(r=none) %}{% for k, v in {0: 0, 512: 128, 1024: 256, 2048: 512}|dictsort %}"
                   "{% if n.r is none and 1000 <= k %}{% set n.r = v %}{% endif %}{% endfor %}{{ n.r }}"),
            "256");
}

TEST(JinjaLanguageTest, LeastGreatestSumAndRounding) {
  const std::string_view data = R"({"l": [{"n": 2}, {"n": 5}]})";
  EXPECT_EQ(render("{{ [3, 1, 2]|min }} {{ ['b', 'A']|min }} {{ ['b', 'A', 'B']|max }} "
                   "{{ ['b', 'A']|max(case_sensitive=true) }} {{ []|max is defined }} {{ l|max(attribute='n') }}",
                   data),
            "1 A b b False {'n': 5}");
  EXPECT_EQ(render("{{ [1, 2.5]|sum }} {{ [[1], [2]]|sum(start=[]) }} {{ l|sum(attribute='n') }} {{ []|sum }}", data),
            "3.5 [1, 2] 7 0");
  EXPECT_EQ(render("{{ 3.7|round }} {{ 42|round }} {{ 2.5|round }} {{ 42.55|round(1) }} {{ 42.55|round(1, 'floor') }} "
                   "{{ 42.55|round(1, 'ceil') }} {{ 2.675|round(2) }} {{ true|round }} {{ 5|round(0, 'floor') }} "
                   "{{ -2.5|round }}"),
            "4.0 42 2.0 42.5 42.5 42.6 2.67 1 5.0 -2.0");
  EXPECT_EQ(render("{{ 1234|round(-2) }} {{ 1250|round(-2) }} {{ 1350|round(-2) }} {{ -1251|round(-2) }} "
                   "{{ 1234.5|round(-2) }} {{ 1e300|round(2) }} {{ 0.5|round(400) }} {{ 7|round(-99) }}"),
            "1200 1200 1400 -1300 1200.0 1e+300 0.5 0");
  EXPECT_EQ(render("{{ ['a']|sum }}"), "error: line 1, column 10: an integer + a text cannot be computed");
  EXPECT_EQ(render("{{ 'a'|round }}"), "error: line 1, column 8: round: expected a number, got a text");
}

TEST(JinjaLanguageTest, FormatsTextsAsPythonDoes) {
  EXPECT_EQ(render("{{ '{} {} {{}} {{{}}}'.format(1, 'ä', none) }} {{ '{1}{0}{1}'.format('a', 2.5) }} "
                   "{{ '{name}: {}'.format([1, 'x'], name=true) }}|{{ '{}'.format(missing) }}|"),
            "1 ä {} {None} 2.5a2.5 True: [1, 'x']||");
  EXPECT_EQ(
      render("{{ '{:5}|{:<5}|{:>5}|{:^5}|{:*^6}|{:.2}|{:4.1}|{:ä>3}'.format(1, 2, 'a', 'b', 'c', 'äöü', 'xy', 7) }}"),
      "    1|2    |    a|  b  |**c***|äö|x   |ää7");
  EXPECT_EQ(render("{{ '{:d}|{:05d}|{:+}|{: d}|{:+06}|{:,}|{:x}|{:X}|{:o}|{:b}|{:5}'"
                   ".format(42, -42, 7, 7, 7, 1234567, 255, 255, 8, 5, true) }}"),
            "42|-0042|+7| 7|+00007|1,234,567|ff|FF|10|101|    1");
  EXPECT_EQ(render("{{ '{:.2f}|{:8.1f}|{:08.3f}|{:f}|{:e}|{:.1%}|{:,.2f}|{:6}|{:.0f}|{:.1f}|{:+.1f}'"
                   ".format(3.14159, -2.25, -2.5, 2, 12345.678, 0.256, 1234567.891, 1.5, 2.5, 0.25, 1) }}"),
            "3.14|    -2.2|-002.500|2.000000|1.234568e+04|25.6%|1,234,567.89|   1.5|2|0.2|+1.0");
  EXPECT_EQ(render("{% set f = '{}-{x}' %}{{ f.format(1, x=2) }}"), "1-2");
  EXPECT_EQ(render("{% set f = '{}' %}{{ f.format() }}"), "error: line 1, column 24: format: there is no argument 0");
  for (const std::string_view wrong :
       {"'{'.format(1)", "'}'.format(1)", "'{}'.format()", "'{a}'.format(b=1)", "'{0}{}'.format(1, 2)",
        "'{0.real}'.format(1)", "'{0[0]}'.format([1])", "'{!r}'.format(1)", "'{:{}}'.format(1, 5)", "'{:=5}'.format(1)",
        "'{:_}'.format(1)", "'{:g}'.format(1.5)", "'{:99999}'.format(1)", "'{:.}'.format(1)"}) {
    EXPECT_FALSE(Template::compile(fmt::format("{{{{ {} }}}}", wrong)).has_value()) << wrong;
  }
  for (const std::string_view wrong : {"'{:d}'.format('a')", "'{:s}'.format(1)", "'{:d}'.format(1.5)",
                                       "'{:5}'.format(none)", "'{:.1}'.format(1)", "(1).format(1)"}) {
    EXPECT_TRUE(render(fmt::format("{{{{ {} }}}}", wrong)).starts_with("error")) << wrong;
  }
}

TEST(JinjaLanguageTest, SplitsFromTheEnd) {
  EXPECT_EQ(render("{{ ' a b  c '.rsplit() }} {{ ' a b  c '.rsplit(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} "
                   "{{ 'a,b,c'.rsplit(',') }} {{ 'a'.rsplit(',') }} {{ ' '.rsplit() }} {{ ' a '.rsplit(none, 0) }} "
                   "{{ 'aaa'.rsplit('aa') }} {{ 'a,b'.rsplit(maxsplit=1, sep=',') }}"),
            "['a', 'b', 'c'] [' a b', 'c'] ['a,b', 'c'] ['a', 'b', 'c'] ['a'] [] [' a'] ['a', ''] ['a', 'b']");
  EXPECT_EQ(render("{{ 'ä日,日b'.rsplit(',')[1] }}{{ '日\u3000ä'.rsplit() }}"), "日b['日', 'ä']");
}

TEST(JinjaLanguageTest, LoopsHaveScopesAndNumbers) {
  EXPECT_EQ(render("{% for i in [5, 6, 7] %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}"
                   "{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}"),
            "12TrueFalse6 21FalseFalse57 30FalseTrue6 ");
  EXPECT_EQ(render("{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 9 %}{{ x }}{% endfor %}{{ x }}"), "19191");
  EXPECT_EQ(render("{% if true %}{% set x = 2 %}{% endif %}{{ x }}"), "2");
  EXPECT_EQ(render("{% set n = namespace(x=0) %}{% for i in [1, 2] %}{% set n.x = n.x + i %}{% endfor %}{{ n.x }}"),
            "3");
  EXPECT_EQ(
      render("{% for k, v in {'a': 1, 'b': 2}.items() if v > 1 %}{{ k }}{{ loop.length }}{% else %}-{% endfor %}"),
      "b1");
  EXPECT_EQ(render("{% for x in [] %}{% else %}none{% endfor %}{% for x in missing %}{% endfor %}"), "none");
  EXPECT_EQ(render("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i > 3 %}{% break %}{% endif %}"
                   "{{ i }}{% endfor %}"),
            "023");
  EXPECT_EQ(render("{% for a in [1, 2] %}{% for b in [3] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}"),
            "1112");
}

TEST(JinjaLanguageTest, MacrosBlocksAndFilters) {
  EXPECT_EQ(render("{% macro m(a, b='x', c=a) %}{{ a }}{{ b }}{{ c }}{{ d }}{% endmacro %}{% set d = 4 %}"
                   "{{ m(1) }} {{ m(1, c=3) }} {{ m(1, 2, 3)|length }}"),
            "1x14 1x34 4");
  EXPECT_EQ(render("{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}"), "3210");
  EXPECT_EQ(render("{% for i in [1] %}{% set hidden = 1 %}{% endfor %}{% macro m() %}{{ i }}{{ hidden }}{% endmacro %}"
                   "{% for i in [7] %}{{ m() }}|{% endfor %}"),
            "|");  // a macro sees the top level, not its caller
  EXPECT_EQ(render("{% set x %}a{{ 1 }}b{% endset %}{{ x }}{% set y | upper | trim %} q {% endset %}{{ y }}"), "a1bQ");
  EXPECT_EQ(render("{% filter upper | replace('B', 'x') %}ab{% endfilter %}"), "Ax");
  EXPECT_EQ(render("{% generation %}a{% endgeneration %}"), "a");
}

TEST(JinjaLanguageTest, FiltersTestsAndMethods) {
  const std::string_view data =
      R"({"m": [{"role": "user", "n": 2}, {"role": "tool", "n": 1}, {"role": "User"}], "d": {"b": 1, "A": 2}})";
  EXPECT_EQ(
      render("{{ m|map(attribute='role')|join(',') }} {{ m|selectattr('n', 'defined')|list|length }} "
             "{{ (m|rejectattr('role', 'equalto', 'user')|first).role }} {{ m|map(attribute='n', default=0)|list }}",
             data),
      "user,tool,User 2 tool [2, 1, 0]");
  EXPECT_EQ(
      render("{{ d|dictsort }} {{ d|items|list }} {{ d.keys()|list }} {{ d.get('x', 'y') }} {{ d.get('x') }}", data),
      "[('A', 2), ('b', 1)] [('b', 1), ('A', 2)] ['b', 'A'] y None");
  EXPECT_EQ(render("{{ m|map(attribute='role')|unique|join(',') }} {{ [3, 1, 2]|sort(reverse=true) }}", data),
            "user,tool [3, 2, 1]");
  EXPECT_EQ(
      render(
          "{{ ' a b '.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b c'.split(none, 1) }}"),
      "['a', 'b'] ['a', 'b', '', 'c'] ['a', 'b,c'] ['a', 'b c']");
  EXPECT_EQ(render("{{ 'xxabxx'.strip('x') }} {{ '\\n a '.lstrip() }}| {{ ' a \\n'.rstrip() }}| {{ ' a '|trim }}|"),
            "ab a |  a| a|");
  EXPECT_EQ(
      render("{{ 'they\\'re ÉTÉ-ii'.title() }} {{ 'they\\'re ÉTÉ-ii'|title }} {{ 'éA'|capitalize }} {{ 'éß'|upper }}"),
      "They'Re Été-Ii They're Été-Ii Éa Éß");  // Python has SS
  EXPECT_EQ(render("{{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'|replace('', '-') }} {{ 'ab'.startswith(('x', 'a')) }}"),
            "bba -a-b- True");
  EXPECT_EQ(render("{{ 'a\\nb\\n\\nc'|indent(2) }}|{{ 'a\\nb'|indent(1, true) }}"), "a\n  b\n\n  c| a\n b");
  EXPECT_EQ(render("{{ ' 42 '|int }} {{ '4x'|int(7) }} {{ 3.9|int }} {{ '1.5'|float }} {{ missing|default('d') }} "
                   "{{ ''|default('e', true) }}"),
            "42 7 3 1.5 d e");
  EXPECT_EQ(
      render(
          "{{ 1 is odd }}{{ 'a' is string }}{{ {} is mapping }}{{ [] is sequence }}{{ true is number }}"
          "{{ true is integer }}{{ none is none }}{{ x is defined }}{{ x is not undefined }}{{ 6 is divisibleby 3 }}"),
      "TrueTrueTrueTrueTrueFalseTrueFalseFalseTrue");
  EXPECT_EQ(render("{{ x is sequence }}{{ x is iterable }}{{ x is string }}{{ none is sequence }}{{ 1 is iterable }}"),
            "TrueTrueFalseFalseFalse");
}

TEST(JinjaLanguageTest, WritesJsonAsTransformersDoes) {
  const std::string_view data = R"({"v": {"name": "é\"\\\n\u0001/<", "l": [1, 2.0, true, null], "e": {}, "f": []}})";
  EXPECT_EQ(render("{{ v|tojson }}", data),
            R"({"name": "é\"\\\n\u0001/<", "l": [1, 2.0, true, null], "e": {}, "f": []})");
  EXPECT_EQ(render("{{ v|tojson(indent=2) }}", data),
            "{\n  \"name\": \"é\\\"\\\\\\n\\u0001/<\",\n  \"l\": [\n    1,\n    2.0,\n    true,\n    null\n  ],\n"
            "  \"e\": {},\n  \"f\": []\n}");
  EXPECT_EQ(render("{{ {'b': 'é👩', 'a': 1}|tojson(ensure_ascii=true, sort_keys=true, separators=(',', ':')) }}"),
            R"({"a":1,"b":"\u00e9\ud83d\udc69"})");
  EXPECT_EQ(render("{{ ['é']|tojson(true) }} {{ ['é']|tojson(false, 1) }} {{ {'b': 1, 'a': 2}|tojson(0, none, (',', "
                   "'='), 1) }}"),
            R"(["\u00e9"] )"
            "[\n \"é\"\n] "
            R"({"a"=2,"b"=1})")
      << "the order of the arguments is not that of Jinja's own filter";
}

TEST(JinjaLanguageTest, KeepsLargeIntegersOfJsonExact) {
  const std::string_view data = R"({"x": 18446744073709551615, "y": 9223372036854775808, "z": 9223372036854775807})";
  EXPECT_EQ(render("{{ x }} {{ [x]|tojson }} {{ x is integer }} {{ x is number }} {{ x|int }} {{ x|abs }} {{ x ~ '' }}",
                   data),
            "18446744073709551615 [18446744073709551615] True True 18446744073709551615 18446744073709551615 "
            "18446744073709551615");
  EXPECT_EQ(
      render("{{ x > y }} {{ y > z }} {{ y == z }} {{ x == x }} {{ [x, z, y]|sort }} {{ z }} {{ y|float }}", data),
      "True True False True [9223372036854775807, 9223372036854775808, 18446744073709551615] 9223372036854775807 "
      "9.223372036854776e+18");
  EXPECT_EQ(render("{{ -y }} {{ -x }} {{ -1.5 }} {{ -true }}", data),
            "-9223372036854775808 -1.8446744073709552e+19 -1.5 -1");
  EXPECT_EQ(render("{{ 'y' if x }}{{ {x: 1} }}", data),
            "error: line 1, column 18: a dictionary's key must be a text or an integer, not a large integer");
}

TEST(JinjaLanguageTest, UsesTheGivenTime) {
  constexpr std::string_view kSource =
      "{{ strftime_now('%d %b %Y %-d %H:%M %A %j') if strftime_now is defined else '-' }}";
  const auto now = std::chrono::local_days(std::chrono::year(2026) / 3 / 5) + std::chrono::hours(14);
  EXPECT_EQ(render_marked(kSource, "{}", {}, now)->bytes(), "05 Mar 2026 5 14:00 Thursday 064");
  EXPECT_EQ(render(kSource), "-");
}

TEST(JinjaLanguageTest, RefusesTheUnknownWithItsPlace) {
  const auto starts = [](std::string_view source, std::string_view with) {
    const std::string text = render(source);
    EXPECT_TRUE(text.starts_with("error: " + std::string(with))) << source << " -> " << text;
  };
  starts("a\n b {{ x|frobnicate }}", "line 2, column 9: unknown filter 'frobnicate'; known are abs, ");
  starts("{{ x is frob }}", "line 1, column 9: unknown test 'frob'; known are ");
  starts("{{ x.frob() }}", "line 1, column 6: unknown method 'frob'; known are ");
  starts("{{ frob(1) }}", "line 1, column 4: unknown function 'frob'; known are ");
  starts("{{ m|map('frob') }}", "line 1, column 6: unknown filter 'frob'");
  starts("{% include 'x' %}", "line 1, column 4: unknown tag 'include'; known are if, for");
  starts("{% if x %}", "line 1, column 4: the block is never closed with endif");
  starts("{% for x in y recursive %}", "line 1, column 15: recursive loops are not supported");
  starts("{{ x|trim(bad=1) }}", "line 1, column 11: 'trim' has no argument 'bad'");
  starts("{{ x|replace('a') }}", "line 1, column 6: 'replace' needs the argument 'new'");
  starts("{{ f(*x) }}{% macro f() %}{% endmacro %}", "line 1, column 6: unpacking of arguments");
  starts("{{ 'a", "line 1, column 4: the string is never closed");
  starts("ä{{ ? }}", "line 1, column 5: \"?\" cannot stand in an expression");
  starts("{# a", "line 1, column 1: the comment is never closed");
  starts("{{ (1, 2] }}", "line 1, column 9: expected ')', got ']'");
  starts("{% break %}", "line 1, column 4: 'break' outside of a for");
  starts("{% endif %}", "line 1, column 4: unknown tag 'endif'");
  starts("{{ 99999999999999999999 }}", "line 1, column 4: the integer does not fit");
  starts("\xff", "the template is not valid UTF-8");
}

TEST(JinjaLanguageTest, NamesWhatItCannotCompute) {
  EXPECT_EQ(render("{{ raise_exception('Roles must alternate') }}"), "error: Roles must alternate");
  EXPECT_EQ(render("\n{{ x.y.z }}"), "error: line 2, column 6: undefined ('x') has no attributes or items");
  EXPECT_EQ(render("{{ 1 // 0 }}"), "error: line 1, column 6: division by zero");
  EXPECT_EQ(render("{{ 9223372036854775807 + 1 }}"), "error: line 1, column 24: the integer does not fit in 64 bits");
  EXPECT_EQ(render("{% for x in 5 %}{% endfor %}"), "error: line 1, column 4: an integer has no items to go through");
  EXPECT_EQ(render("{% for a, b in [[1]] %}{% endfor %}"),
            "error: line 1, column 4: a list of 1 items cannot be put into 2 names");
  EXPECT_EQ(render("{{ range|tojson }}"), "error: line 1, column 10: a function has no form in JSON");
}

}  // namespace
}  // namespace kvist::jinja::language_test
