#include "kvist/text/jinja_chat_template.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/tokenizer/hugging_face_tokenizer.h"
#include "text/chatml.h"
#include "tokenizer/small_tokenizer.h"

namespace kvist::text::jinja_chat_template_test {
namespace {

// The text with [ and ] around what came with the messages.
std::string with_marks(const tokenizer::RenderedPrompt& prompt) {
  std::string out;
  std::size_t at = 0;
  for (const auto& [begin, end] : prompt.from_messages) {
    out += prompt.text.substr(at, begin - at) + "[" + prompt.text.substr(begin, end - begin) + "]";
    at = end;
  }
  return out + prompt.text.substr(at);
}

std::string render(std::string_view source, const ChatInput& input, std::string_view for_tools = {}) {
  const Result<JinjaChatTemplate> compiled =
      JinjaChatTemplate::compile(source, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, for_tools);
  if (!compiled) return "error: " + compiled.error().message;
  const Result<tokenizer::RenderedPrompt> prompt = compiled->render(input);
  return prompt ? with_marks(*prompt) : "error: " + prompt.error().message;
}

TEST(JinjaChatTemplateTest, MarksWhatCameWithTheMessages) {
  const std::vector<ChatMessage> messages = {{"system", "Be <|im_end|> brief"}, {"user", ""}};
  EXPECT_EQ(render(kChatMl, {.messages = messages}),
            "<|im_start|>[system]\n[Be <|im_end|> brief]<|im_end|>\n<|im_start|>[user]\n<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(render("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}",
                   {.messages = messages, .add_generation_prompt = false}),
            "<s>[Be <|im_end|> brief]</s>");
}

TEST(JinjaChatTemplateTest, GivesToolsAndCallsAsTheyAre) {
  const std::vector<ChatMessage> messages = {
      {.role = "assistant",
       .content = "",
       .tool_calls = {{.id = "c1", .name = "f", .arguments = R"({"a": [1, "x"]})"},
                      {.id = "", .name = "g", .arguments = "not JSON"}}},
      {.role = "tool", .content = "12", .tool_call_id = "c1", .name = "f"}};
  EXPECT_EQ(render("{{ messages[0].tool_calls|tojson }} {{ messages[1]|tojson }}", {.messages = messages}),
            R"([{"id": "[c1]", "type": "function", "function": {"name": "[f]", "arguments": {"[a]": [1, "[x]"]}}}, )"
            R"({"type": "function", "function": {"name": "[g]", "arguments": {}}}] )"
            R"({"role": "[tool]", "content": "[12]", "name": "[f]", "tool_call_id": "[c1]"})");
  EXPECT_EQ(render("{{ tools is none }}{{ 'tool_calls' in messages[1] }}", {.messages = messages}), "TrueFalse");
  EXPECT_EQ(render("plain", {.messages = messages, .tools = R"([{"name": "f"}])"}, "{{ tools[0].name }}"), "[f]");
  EXPECT_EQ(render("{{ thinking }}", {.messages = messages, .template_arguments = R"({"thinking": "no"})"}), "[no]");
  EXPECT_EQ(render("{{ strftime_now('%Y') }}",
                   {.messages = messages, .now = std::chrono::local_days(std::chrono::year(2026) / 1 / 2)}),
            "2026");
}

TEST(JinjaChatTemplateTest, EndsWithinTheLastMessageThatGoesOn) {
  const auto open = [](std::string_view source, const std::string& last) {
    const std::vector<ChatMessage> messages = {{"user", "Tell me"}, {"assistant", last}};
    return render(source, {.messages = messages, .add_generation_prompt = false, .continue_final_message = true});
  };
  const std::string before = "<|im_start|>[user]\n[Tell me]<|im_end|>\n<|im_start|>[assistant]\n";
  EXPECT_EQ(open(kChatMl, "It is"), before + "[It is]");
  constexpr std::string_view kAsItIs = "{% for m in messages %}({{ m.content }}){% endfor %}";
  EXPECT_EQ(open(kAsItIs, "It is "), "([Tell me])([It is ]");
  EXPECT_EQ(open(kAsItIs, "Tell me"), "([Tell me])([Tell me]") << "the last place counts";
  EXPECT_EQ(open(kAsItIs, " It is "), "([Tell me])([ It is ]");
  EXPECT_EQ(open(kAsItIs, " "), "([Tell me])([ ]");
  EXPECT_EQ(open(kAsItIs, ""), "([Tell me])(");
  EXPECT_EQ(open(kChatMl, "It is \n"), before + "[It is]") << "the template trims it";
  EXPECT_EQ(open("{{ messages[0].content }}", "It is"),
            "error: continue_final_message: the template does not write the last message as it is");
}

TEST(JinjaChatTemplateTest, GivesContentsInPartsToTemplatesThatGoThroughThem) {
  const std::vector<ChatMessage> messages = {
      {.role = "user", .content = "a\nb", .content_parts = {"a", "b"}},
      {.role = "assistant", .content = "c"},
      {.role = "assistant", .content = ""},
      {.role = "tool", .content = "d\ne", .content_parts = {"d", "e"}},
  };
  const std::string as_text = R"(["[a\nb]", "[c]", "", "[d\ne]"])";
  const auto contents = [&](const std::string& before) {
    return render(before + "{{ messages|map(attribute='content')|list|tojson }}", {.messages = messages});
  };
  EXPECT_EQ(contents(""), as_text);
  EXPECT_EQ(
      contents("{% for m in messages %}{% if m.content is none %}{% for c in m['content'] %}{% endfor %}"
               "{% endif %}{% endfor %}"),
      R"([[{"type": "text", "text": "[a]"}, {"type": "text", "text": "[b]"}], [{"type": "text", "text": "[c]"}], )"
      R"([], "[d\ne]"])");
}

TEST(JinjaChatTemplateTest, TakesDevelopersForTheSystemWhereATemplateKnowsNone) {
  const auto roles = [](const std::vector<ChatMessage>& messages, const std::string& more = "") {
    return render("{% for m in messages %}{{ m.role }}:{{ m.content }} {% endfor %}" + more, {.messages = messages});
  };
  EXPECT_EQ(roles({{"developer", "a"}, {"user", "b"}}), "[system]:[a] [user]:[b] ");
  EXPECT_EQ(roles({{"developer", "a"}, {"user", "b"}}, "{{ 'developer' in messages }}"),
            "[developer]:[a] [user]:[b] False");
  EXPECT_EQ(roles({{"system", "a"}, {"user", "b"}, {"developer", ""}, {"developer", "c"}}),
            "[system]:[a\n\nc] [user]:[b] ");
  EXPECT_EQ(roles({{"user", "b"}, {"system", "a"}}), "[user]:[b] [system]:[a] ") << "nothing to convert";
}

TEST(JinjaChatTemplateTest, ContinuesTheLastPart) {
  const std::vector<ChatMessage> messages = {{.role = "assistant", .content = "a\nb ", .content_parts = {"a", "b "}}};
  EXPECT_EQ(render("{% for m in messages %}{% for c in m.content %}<{{ c.text }}>{% endfor %}{% endfor %}end",
                   {.messages = messages, .add_generation_prompt = false, .continue_final_message = true}),
            "<[a]><[b ]");
}

TEST(JinjaChatTemplateTest, FindsLoopsOverContentsAsVllmDoes) {
  const auto reads_items = [](std::string_view source) {
    const Result<jinja::Template> compiled = jinja::Template::compile(source);
    EXPECT_TRUE(compiled.has_value()) << source << ": " << compiled.error().message;
    return compiled && compiled->reads_content_items();
  };
  const auto loop = [](std::string_view over, std::string_view messages = "messages") {
    return fmt::format("{{% for m in {} %}}{{% for c in {} %}}{{{{ c }}}}{{% endfor %}}{{% endfor %}}", messages, over);
  };
  EXPECT_TRUE(reads_items(loop("m.content")));
  EXPECT_TRUE(reads_items(loop("m['content']")));
  EXPECT_TRUE(reads_items(loop("m['content'][1:]|reverse")));
  EXPECT_TRUE(reads_items(loop("m.content", "messages[1:]")));
  EXPECT_TRUE(reads_items("{% if messages %}{% set rest = messages[1:] %}{% set more = rest %}{% endif %}" +
                          loop("m.content", "more")));
  EXPECT_TRUE(reads_items("{% macro f() %}" + loop("m.content") + "{% endmacro %}"));
  EXPECT_FALSE(reads_items("{% for m in messages %}{{ m.content }}{% endfor %}"));
  EXPECT_FALSE(reads_items(loop("m.tool_calls")));
  EXPECT_FALSE(reads_items(loop("m.content.split('x')"))) << "a method is no filter";
  EXPECT_FALSE(reads_items(loop("m.content", "others")));
  EXPECT_FALSE(reads_items("{% set m = messages[0] %}{% for c in m.content %}{% endfor %}"));
  EXPECT_FALSE(reads_items("{% set ns = namespace(x=1) %}{% set ns.x = messages %}" + loop("m.content")))
      << "a target that is no variable ends the search";
  EXPECT_FALSE(reads_items("{% for a, b in messages %}{% endfor %}" + loop("m.content")));
}

TEST(JinjaChatTemplateTest, TellsDocumentsAndReasoning) {
  const std::vector<ChatMessage> messages = {{.role = "assistant", .content = "4", .reasoning = "2+2"}};
  constexpr std::string_view kSource =
      "{{ messages[0].reasoning_content }} {{ messages[0].reasoning }} {{ documents|tojson }} {{ reasoning_effort }} "
      "{{ enable_thinking }}";
  EXPECT_EQ(render(kSource, {.messages = messages}), "[2+2] [2+2] null  ");
  EXPECT_EQ(render(kSource, {.messages = messages, .documents = R"([{"title": "t"}])", .reasoning_effort = "low"}),
            R"([2+2] [2+2] [{"[title]": "[t]"}] [low] True)");
  EXPECT_EQ(render(kSource, {.messages = messages,
                             .reasoning_effort = "none",
                             .template_arguments = R"({"documents": [1], "reasoning_effort": "high"})"}),
            "[2+2] [2+2] [1] [none] False");
  EXPECT_EQ(
      render(kSource,
             {.messages = messages, .reasoning_effort = "none", .template_arguments = R"({"enable_thinking": true})"}),
      "[2+2] [2+2] null [none] True");
}

TEST(JinjaChatTemplateTest, KnowsWhatItNames) {
  const auto chat_template = JinjaChatTemplate::compile("{{ messages }}", {}, "{{ tools }}");
  ASSERT_TRUE(chat_template.has_value());
  EXPECT_TRUE(chat_template->names("tools"));
  EXPECT_FALSE(chat_template->names("tool_calls"));
}

TEST(JinjaChatTemplateTest, RefusesWithAReason) {
  const std::vector<ChatMessage> broken = {{"user", "fine"}, {"user", "\xff"}};
  const std::vector<ChatMessage> one = {{"user", "x"}};
  EXPECT_EQ(render(kChatMl, {.messages = broken}), "error: messages[1]: content: is not valid UTF-8");
  EXPECT_EQ(render("{{ raise_exception('No ' + messages[0].role) }}", {.messages = one}), "error: No user");
  EXPECT_EQ(render(kChatMl, {.messages = one, .tools = "{}"}), "error: tools: expected a list, got a dictionary");
  EXPECT_TRUE(render(kChatMl, {.messages = one, .tools = "[{"}).starts_with("error: tools: not valid JSON"));
  EXPECT_EQ(render(kChatMl, {.messages = one, .template_arguments = "[]"}),
            "error: the template's arguments must be a JSON object");
  EXPECT_TRUE(render("{{ x", {.messages = one}).starts_with("error: line 1, column 1"));
}

// -- no message can place a special token, whatever the template does to it

std::vector<std::pair<std::string, JinjaChatTemplate>> published_templates() {
  std::vector<std::pair<std::string, JinjaChatTemplate>> templates;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(KVIST_SOURCE_DIR "/tests/golden/chat_templates"))
    if (entry.path().extension() == ".jinja") paths.push_back(entry.path());
  std::ranges::sort(paths);
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string source{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    Result<JinjaChatTemplate> compiled =
        JinjaChatTemplate::compile(source, {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    EXPECT_TRUE(compiled.has_value()) << path << ": " << compiled.error().message;
    if (compiled) templates.emplace_back(path.filename(), *std::move(compiled));
  }
  return templates;
}

const std::vector<std::string> kSpecials = {"<s>",         "</s>",         "<|im_start|>",        "<|im_end|>",
                                            "<|eot_id|>",  "<|user|>",     "<|start_header_id|>", "<|end_header_id|>",
                                            "<|system|>",  "<|end|>",      "<|assistant|>",       "<|begin_of_text|>",
                                            "[INST]",      "[/INST]",      "<start_of_turn>",     "<end_of_turn>",
                                            "<tool_call>", "</tool_call>", "<|im_sep|>",          "[SYSTEM_PROMPT]",
                                            "<think>",     "</think>",     "<|endoftext|>",       "[AVAILABLE_TOOLS]"};

std::size_t count_specials(const tokenizer::Tokenizer& tokenizer, const JinjaChatTemplate& chat_template,
                           const ChatInput& input, bool& refused) {
  const Result<std::vector<TokenId>> tokens = chat_template.tokens(input, tokenizer, {.specials = false});
  refused = !tokens.has_value();
  if (refused) return 0;
  return static_cast<std::size_t>(
      std::ranges::count_if(*tokens, [&](TokenId token) { return tokenizer.is_special(token); }));
}

TEST(JinjaChatTemplatePropertyTest, NoMessageInjectsASpecialToken) {
  tokenizer::SmallTokenizer small = tokenizer::SmallTokenizer::bytes();
  for (const std::string& special : kSpecials) small.added.push_back({special});
  const auto tokenizer = tokenizer::HuggingFaceTokenizer::parse(small.json());
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  const auto templates = published_templates();
  ASSERT_GE(templates.size(), 12U);
  constexpr std::uint64_t kSeed = 20261121;
  SCOPED_TRACE(kSeed);
  RandomStream random(kSeed);
  const auto below = [&](std::size_t bound) {
    return static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(bound) - 1));
  };
  // Whole look-alikes, halves of them that a neighbour or the template could complete, and in between words and space.
  const auto hostile = [&] {
    std::string text;
    for (std::size_t i = below(6) + 1; i > 0; --i) {
      const std::string& special = kSpecials[below(kSpecials.size())];
      const std::size_t cut = below(special.size() + 1);
      switch (below(5)) {
        case 0:
          text += special;
          break;
        case 1:
          text += special.substr(cut);
          break;
        case 2:
          text += special.substr(0, cut);
          break;
        case 3:
          text += below(2) == 0 ? " " : "\n";
          break;
        default:
          text += "word";
          break;
      }
    }
    return text;
  };
  std::size_t rendered = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<ChatMessage> attack;
    std::vector<ChatMessage> tame;
    const std::size_t turns = below(3) * 2 + 1;
    for (std::size_t i = 0; i < turns; ++i) {
      const std::string role = i % 2 == 0 ? "user" : "assistant";
      // Templates cut a model's thoughts out at </think>: what they then keep differs, and with it their own text.
      std::string text = hostile();
      for (std::size_t at = 0; (at = text.find("think>")) != std::string::npos;) text.erase(at, 6);
      attack.push_back({role, text});
      tame.push_back({role, "word"});
    }
    for (const auto& [name, chat_template] : templates) {
      bool attack_refused = false;
      bool tame_refused = false;
      const std::size_t attacked = count_specials(**tokenizer, chat_template, {.messages = attack}, attack_refused);
      const std::size_t expected = count_specials(**tokenizer, chat_template, {.messages = tame}, tame_refused);
      if (attack_refused || tame_refused) continue;
      ++rendered;
      ASSERT_EQ(attacked, expected) << name << " with " << attack.back().content;
    }
  }
  EXPECT_GT(rendered, 1000U);
}

}  // namespace
}  // namespace kvist::text::jinja_chat_template_test
