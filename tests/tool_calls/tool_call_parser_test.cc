#include "kvist/tool_calls/tool_call_parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "kvist/base/random.h"
#include "kvist/tool_calls/json_scanner.h"

namespace kvist::tool_calls::tool_call_parser_test {
namespace {

using enum spec::ToolCallFormat;

// Content as it is, calls as [name arguments].
std::string shown(const std::vector<AnswerPart>& parts) {
  std::string all;
  for (const AnswerPart& part : parts)
    all += part.call ? fmt::format("[{} {}]", part.call->name, part.call->arguments) : part.content;
  return all;
}

std::string read(spec::ToolCallFormat format, std::string_view text, std::size_t piece = std::string_view::npos) {
  const auto parser = make_tool_call_parser(format);
  std::vector<AnswerPart> parts;
  for (std::size_t at = 0; at < text.size(); at += std::min(piece, text.size() - at))
    parser->push(text.substr(at, piece), parts);
  parser->finish(parts);
  return shown(parts);
}

std::string scanned(std::string_view text) {
  JsonScanner scanner;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (scanner.push(text[i])) {
      case JsonScanner::State::kGoesOn:
        break;
      case JsonScanner::State::kComplete:
        return fmt::format("complete {}", i + 1);
      case JsonScanner::State::kBroken:
        return fmt::format("broken {}", i);
    }
  }
  return "goes on";
}

TEST(JsonScannerTest, FindsTheEndOfAValue) {
  EXPECT_EQ(scanned(R"({}x)"), "complete 2");
  EXPECT_EQ(scanned(R"([ ] )"), "complete 3");
  EXPECT_EQ(scanned(R"({"a" : [1,-0.5e+3,true,false,null,"}\"\\\u00Ff"], "":{}} tail)"), "complete 56");
  EXPECT_EQ(scanned(R"({"a":)"), "goes on");
  EXPECT_EQ(scanned(R"([0,1E5,10,0.0])"), "complete 14");
}

TEST(JsonScannerTest, SeesWhatIsNoJsonAtItsFirstByte) {
  EXPECT_EQ(scanned("1"), "broken 0");
  EXPECT_EQ(scanned("{a"), "broken 1");
  EXPECT_EQ(scanned("{\"a\"}"), "broken 4");
  EXPECT_EQ(scanned("{\"a\":}"), "broken 5");
  EXPECT_EQ(scanned("{\"a\":1,}"), "broken 7");
  EXPECT_EQ(scanned("[1,]"), "broken 3");
  EXPECT_EQ(scanned("[1}"), "broken 2");
  EXPECT_EQ(scanned("[01"), "broken 2");
  EXPECT_EQ(scanned("[-]"), "broken 2");
  EXPECT_EQ(scanned("[1.]"), "broken 3");
  EXPECT_EQ(scanned("[1e]"), "broken 3");
  EXPECT_EQ(scanned("[1e+]"), "broken 4");
  EXPECT_EQ(scanned("[1.5.2"), "broken 4");
  EXPECT_EQ(scanned("[trux"), "broken 4");
  EXPECT_EQ(scanned("[\"\n"), "broken 2");
  EXPECT_EQ(scanned(R"(["\x)"), "broken 3");
  EXPECT_EQ(scanned(R"(["\u12g)"), "broken 6");
  EXPECT_EQ(scanned(std::string(JsonScanner::kMostDepth + 1, '[')), "broken 64");
}

TEST(HermesCalls, AreTakenOutOfTheText) {
  EXPECT_EQ(read(kHermes, "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}\n</tool_call>"),
            "Let me see.[f {\"a\": \"x\"}]");
  EXPECT_EQ(read(kHermes,
                 "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"arguments\":{\"b\":[1, "
                 "{}]},\"id\":7,\"name\":\"g\"}</tool_call>\n\nDone."),
            "[f {}][g {\"b\":[1, {}]}]Done.");
  EXPECT_EQ(read(kHermes, R"(<tool_call>{"name":"f","arguments":{"a":"</tool_call> é\n"}})"),
            R"([f {"a":"</tool_call> é\n"}])")
      << "an end mark in a text is none, and the last one may be missing";
  EXPECT_EQ(read(kHermes, R"(<tool_call>{"name":"f","arguments":{}}</tool_)"), "[f {}]");
  EXPECT_EQ(read(kHermes, R"(<tool_call>{"name":"\u0066\"","arguments":{}})"), "[f\" {}]");
}

TEST(HermesCalls, TextThatIsNoCallIsContent) {
  for (const std::string text :
       {" no call\n", "<", "<tool_cal", "a <tool_ b", "<tool_call>", "<tool_call> ", "<tool_call>{\"name\":\"f\"",
        "<tool_call>{name: f}</tool_call>", "<tool_call>[]</tool_call>", "<tool_call>{\"name\":\"f\"}</tool_call>",
        R"(<tool_call>{"name":"","arguments":{}}</tool_call>)", R"(<tool_call>{"name":1,"arguments":{}}</tool_call>)",
        R"(<tool_call>{"name":"f","arguments":"{}"}</tool_call>)",
        R"(<tool_call>{"name":"f","arguments":[]}</tool_call>)",
        R"(<tool_call>{"name":"\ud800","arguments":{}}</tool_call>)",
        R"(<tool_call>{"name":"f","name":"g","arguments":{}}</tool_call>)",
        R"(<tool_call>{"name":"f","arguments":{}} and</tool_call>)", "</tool_call>"}) {
    EXPECT_EQ(read(kHermes, text), text);
  }
  EXPECT_EQ(read(kHermes, R"(<tool_call>{"name":<tool_call>{"name":"f","arguments":{}}</tool_call>)"),
            R"(<tool_call>{"name":[f {}])")
      << "a call may begin where another one broke off";
  EXPECT_EQ(
      read(kHermes, R"(<tool_call>{"name":"f","arguments":{}}<tool_call>{"name":"g","arguments":{}}</tool_call>)"),
      R"(<tool_call>{"name":"f","arguments":{}}[g {}])");
}

TEST(Llama3Calls, BeginTheAnswer) {
  EXPECT_EQ(read(kLlama3Json, R"({"name": "f", "parameters": {"a": 1.50}})"), R"([f {"a": 1.50}])");
  EXPECT_EQ(read(kLlama3Json, "\n<|python_tag|>{\"type\":\"function\",\"name\":\"f\",\"arguments\":{}}"), "[f {}]");
  EXPECT_EQ(read(kLlama3Json, R"({"name":"f","parameters":{}}; {"name":"g","parameters":{}};)"), "[f {}][g {}]");
  EXPECT_EQ(read(kLlama3Json, R"({"name":"f","parameters":{}} and more)"), "[f {}]and more");
}

TEST(Llama3Calls, TextThatIsNoCallIsContent) {
  for (const std::string text :
       {"", " ", "Hello {\"name\":\"f\",\"parameters\":{}}", R"({"name":"Ada","age":36})", R"({"a":1} {"b":2})", "{",
        "{'name': 'f'}", "<|python", "<|python_tag|>", "<|python_tag|>brave.call(q=1)", "<|pythox", "[1]"}) {
    EXPECT_EQ(read(kLlama3Json, text), text);
  }
  EXPECT_EQ(read(kLlama3Json, R"({"name":"f","parameters":{}};{"name":"g")"), R"([f {}];{"name":"g")");
}

TEST(MistralCalls, AreAnArrayBehindTheMark) {
  EXPECT_EQ(read(kMistral, R"([TOOL_CALLS][{"name":"f","arguments":{"a":1}}, {"name": "g", "arguments": {}}])"),
            R"([f {"a":1}][g {}])");
  EXPECT_EQ(read(kMistral, R"(Well. [TOOL_CALLS] [{"name":"f","arguments":{}}] )"), "Well.[f {}]");
}

TEST(MistralCalls, AreNamesWithTheirArguments) {
  EXPECT_EQ(read(kMistral, R"([TOOL_CALLS]get_weather{"city": "Ulm"})"), R"([get_weather {"city": "Ulm"}])");
  EXPECT_EQ(read(kMistral, R"(Well. [TOOL_CALLS]f[ARGS]{"a":{"b":"}"}}[TOOL_CALLS]mcp.g-2[ARGS]{})"),
            R"(Well.[f {"a":{"b":"}"}}][mcp.g-2 {}])");
  EXPECT_EQ(read(kMistral, R"([TOOL_CALLS]f[CALL_ID]a1B2c3D4e[ARGS]{"a":1}[TOOL_CALLS]g[CALL_ID]x[ARGS]{})"),
            R"([f {"a":1}][g {}])");
  EXPECT_EQ(read(kMistral, R"([TOOL_CALLS]f[TOOL_CALLS]g{"a":1})"), R"([TOOL_CALLS]f[g {"a":1}])");
  EXPECT_EQ(read(kMistral, R"([TOOL_CALLS]f[CALL_[TOOL_CALLS]g{"a":1})"), R"([TOOL_CALLS]f[CALL_[g {"a":1}])");
  EXPECT_EQ(read(kMistral, R"([TOOL_CALLS]f[CALL_ID]ab[TOOL_CALLS][{"name":"g","arguments":{}}])"),
            R"([TOOL_CALLS]f[CALL_ID]ab[g {}])");
}

TEST(MistralCalls, TextThatIsNoCallIsContent) {
  for (const std::string text :
       {"[TOOL_CALLS]f", "[TOOL_CALLS]f[", "[TOOL_CALLS]f[ARGS]", "[TOOL_CALLS]f[ARGS] {}", "[TOOL_CALLS]f[ARGS]x{}",
        "[TOOL_CALLS]f[CALL_ID]a{}", "[TOOL_CALLS]f{\"a\":", "[TOOL_CALLS]f{a}", "[TOOL_CALLS]are marks {}",
        "[TOOL_CALLS]\"f\"{}", "[TOOL_CALLS]", "[TOOL_CALLS][]", "[[TOOL_", "[1, 2]",
        R"([TOOL_CALLS][{"name":"f","arguments":{}})", R"([TOOL_CALLS][{"name":"f","arguments":{}},{"name":"g"}])",
        R"([TOOL_CALLS]{"name":"f","arguments":{}})"}) {
    EXPECT_EQ(read(kMistral, text), text);
  }
}

TEST(ToolCallParserTest, HoldsBackNoMoreThanItMust) {
  const auto parser = make_tool_call_parser(kHermes);
  std::vector<AnswerPart> parts;
  parser->push("so < far <tool", parts);
  EXPECT_EQ(shown(parts), "so < far");
  parser->push("s", parts);
  EXPECT_EQ(shown(parts), "so < far <tools");
  parser->push("<tool_call>{x", parts);
  EXPECT_EQ(shown(parts), "so < far <tools<tool_call>{x") << "broken where it breaks, not at the end";
  parser->push("<tool_call>{\"name\":\"f\",\"arguments\":{}}", parts);
  EXPECT_FALSE(parts.back().call);
  parser->push("</tool_call>", parts);
  EXPECT_TRUE(parts.back().call);
}

TEST(ToolCallParserTest, BoundsWhatAModelMayWrite) {
  const std::string deep = R"(<tool_call>{"name":"f","arguments":{"a":)" + std::string(100'000, '[');
  EXPECT_EQ(read(kHermes, deep), deep);
  const std::string endless = R"(<tool_call>{"name":"f","arguments":{"a":")" + std::string(3UL << 20, 'x') + "\"}}";
  EXPECT_EQ(read(kHermes, endless), endless);
  EXPECT_EQ(read(kLlama3Json, endless.substr(11)), endless.substr(11));
  const std::string name = "[TOOL_CALLS]" + std::string(1'000, 'f') + "{}";
  EXPECT_EQ(read(kMistral, name), name);
  std::string names;
  while (names.size() < (2UL << 20)) names += "[TOOL_CALLS]f[CALL_ID]" + std::string(200, 'a');
  EXPECT_EQ(read(kMistral, names), names);
  std::string marks;
  while (marks.size() < (2UL << 20)) marks += "<tool_call>{";
  EXPECT_EQ(read(kHermes, marks), marks);
  const std::string spaces = "a" + std::string(1UL << 20, ' ') + "b";
  EXPECT_EQ(read(kHermes, spaces), spaces);

  const std::string call = R"(<tool_call>{"name":"f","arguments":{}}</tool_call>)";
  std::string many;
  for (std::size_t i = 0; i < ToolCallParser::kMostCalls; ++i) many += call;
  std::string expected;
  for (std::size_t i = 0; i < ToolCallParser::kMostCalls; ++i) expected += "[f {}]";
  EXPECT_EQ(read(kHermes, many + call), expected + call);
}

TEST(ToolCallParserTest, PiecesDoNotMatter) {
  constexpr std::string_view kBits[] = {"<tool_call>",
                                        "</tool_call>",
                                        "[TOOL_CALLS]",
                                        "[ARGS]",
                                        "[CALL_ID]",
                                        "<|python_tag|>",
                                        R"({"name":"f","arguments":{"a":"é"}})",
                                        "[",
                                        "]",
                                        "{",
                                        "\"",
                                        "\n",
                                        R"({"name":"g","parameters":{}})",
                                        "\\",
                                        " ",
                                        "text",
                                        ";",
                                        "<",
                                        R"([{"name":"h","arguments":{}}])",
                                        ","};
  const std::uint64_t seed = 11;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomStream random(seed);
  for (int round = 0; round < 3'000; ++round) {
    std::string text;
    const std::uint64_t bits = random.next() % 8;
    for (std::uint64_t i = 0; i <= bits; ++i) text += kBits[random.next() % std::size(kBits)];
    for (const spec::ToolCallFormat format : {kHermes, kLlama3Json, kMistral}) {
      const std::string whole = read(format, text);
      EXPECT_EQ(read(format, text, 1), whole) << text;
      EXPECT_EQ(read(format, text, 3), whole) << text;
    }
  }
}

}  // namespace
}  // namespace kvist::tool_calls::tool_call_parser_test
