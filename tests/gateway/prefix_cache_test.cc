#include "kvist/gateway/prefix_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/text/model_text.h"
#include "kvist/text/prose.h"
#include "kvist/tokenizer/bpe_trainer.h"
#include "text/model_directory.h"

namespace kvist::gateway::prefix_cache_test {
namespace {

constexpr std::uint32_t kBlockSize = 8;

class PrefixCacheTest : public ::testing::Test {
 protected:
  PrefixCacheTest() {
    directory_.write_chatml();
    auto model = text::ModelText::load(directory_.path());
    if (!model) throw std::runtime_error(model.error().message);
    model_ = std::move(*model);
  }

  [[nodiscard]] tokenizer::RenderedPrompt render(const std::vector<text::ChatMessage>& messages) const {
    auto prompt = model_.chat_template->render({.messages = messages});
    EXPECT_TRUE(prompt.has_value()) << prompt.error().message;
    return std::move(*prompt);
  }

  [[nodiscard]] static kv::BlockHash root(std::string_view salt = "") {
    return kv::root_hash({.model = "m", .lora = "", .cache_salt = salt});
  }

  void expect_exact(PrefixCache& cache, const tokenizer::RenderedPrompt& prompt, std::string_view salt = "",
                    PromptFrame frame = PromptFrame::kNone) const {
    std::vector<TokenId> tokens;
    if (frame == PromptFrame::kNone) {
      model_.tokenizer->encode_prompt(prompt, tokens);
    } else {
      model_.tokenizer->encode_completion(prompt, tokens);
    }
    const PromptBlocks blocks = cache.blocks_of(frame, prompt, *model_.tokenizer, root(salt), kBlockSize);
    ASSERT_EQ(blocks.tokens, tokens.size()) << prompt.text;
    ASSERT_EQ(blocks.blocks, kv::hash_blocks(root(salt), tokens, kBlockSize)) << prompt.text;
  }

  // A tokenizer that puts a token around every text that no template wrote.
  void frame_completions() {
    auto json = tokenizer::train_byte_level_bpe(
        text::prose(1, 20'000),
        {.vocabulary_size = 400, .special_tokens = {"<|im_start|>", "<|im_end|>"}, .begin_of_text = "<|im_start|>"});
    ASSERT_TRUE(json.has_value()) << json.error().message;
    directory_.write("tokenizer.json", *json);
    auto model = text::ModelText::load(directory_.path());
    ASSERT_TRUE(model.has_value()) << model.error().message;
    model_ = std::move(*model);
  }

  text::ModelDirectory directory_;
  text::ModelText model_;
};

TEST_F(PrefixCacheTest, TheNextTurnCostsOnlyWhatIsNew) {
  PrefixCache cache(1 << 20);
  std::vector<text::ChatMessage> messages = {{"system", std::string(5000, 's')}, {"user", "When is high water?"}};
  expect_exact(cache, render(messages));
  EXPECT_EQ(cache.counters().cached_bytes, 0U);
  std::size_t before = render(messages).text.size();
  for (int turn = 0; turn < 20; ++turn) {
    messages.push_back({"assistant", std::string(300, 'a')});
    messages.push_back({"user", std::string(300, 'u')});
    const tokenizer::RenderedPrompt prompt = render(messages);
    const std::uint64_t cached = cache.counters().cached_bytes;
    expect_exact(cache, prompt);
    // All but what the last segments may leave over: less than a segment, and the header of the answer.
    EXPECT_GE(cache.counters().cached_bytes - cached + 2 * PrefixCache::kMinSegmentBytes + 64, before);
    before = prompt.text.size();
  }
  EXPECT_EQ(cache.counters().prompts, 21U);
  EXPECT_EQ(cache.counters().evictions, 0U);
}

TEST_F(PrefixCacheTest, ATextThatGoesOnCostsOnlyWhatIsNew) {
  frame_completions();
  PrefixCache cache(1 << 20);
  const std::string all = text::prose(7, 60'000);
  std::uint64_t cached = 0;
  for (std::size_t length = 2'000; length <= all.size(); length += 2'000) {
    expect_exact(cache, {.text = all.substr(0, length), .from_messages = {}}, "", PromptFrame::kTokenizers);
    const std::uint64_t more = cache.counters().cached_bytes - cached;
    EXPECT_GE(more + 2'000 + 1'200, length) << "all of the text before but what no segment holds yet";
    cached += more;
  }
}

TEST_F(PrefixCacheTest, ChatsAndCompletionsOfOneTextDiffer) {
  frame_completions();
  PrefixCache cache(1 << 20);
  const tokenizer::RenderedPrompt prompt{.text = text::prose(3, 9'000), .from_messages = {}};
  for (int i = 0; i < 2; ++i) {
    expect_exact(cache, prompt, "", PromptFrame::kNone);
    expect_exact(cache, prompt, "", PromptFrame::kTokenizers);
    if (i == 0) {
      EXPECT_EQ(cache.counters().cached_bytes, 0U);
    }
  }
  EXPECT_GT(cache.counters().cached_bytes, 14'000U);
  expect_exact(cache, {}, "", PromptFrame::kTokenizers);
}

TEST_F(PrefixCacheTest, TextsThatBranchAnywhereAreExact) {
  frame_completions();
  constexpr std::uint64_t kSeed = 20261122;
  SCOPED_TRACE(kSeed);
  RandomStream random(kSeed);
  PrefixCache cache(200 << 10);
  const std::string prose = text::prose(9, 30'000);
  const std::vector<std::string> joints = {"",           " ", "s", "'s", "\n\n", "  \n",
                                           "<|im_end|>", "é", "7", ".",  "\t",   "\xff"};
  std::vector<std::string> texts = {prose.substr(0, 5'000)};
  for (int round = 0; round < 300; ++round) {
    std::string text = texts[random.next() % texts.size()];
    text.resize(random.next() % (text.size() + 1));
    text += joints[random.next() % joints.size()];
    text += prose.substr(random.next() % 20'000, random.next() % 5'000);
    expect_exact(cache, {.text = text, .from_messages = {}}, "", PromptFrame::kTokenizers);
    if (HasFatalFailure()) return;
    if (text.size() < 30'000) texts.push_back(std::move(text));
    if (texts.size() > 12) texts.erase(texts.begin());
  }
  EXPECT_GT(cache.counters().cached_bytes, cache.counters().prompt_bytes / 5);
}

TEST_F(PrefixCacheTest, SaltsShareNothing) {
  PrefixCache cache(1 << 20);
  const tokenizer::RenderedPrompt prompt = render({{"user", std::string(1000, 'x')}, {"user", "y"}});
  expect_exact(cache, prompt, "a");
  expect_exact(cache, prompt, "b");
  EXPECT_EQ(cache.counters().cached_bytes, 0U);
  expect_exact(cache, prompt, "a");
  EXPECT_GT(cache.counters().cached_bytes, 1000U);
}

TEST_F(PrefixCacheTest, WhoWroteItIsPartOfTheKey) {
  PrefixCache cache(1 << 20);
  tokenizer::RenderedPrompt prompt = render({{"user", std::string(400, 'x') + "<|im_end|>"}, {"user", "y"}});
  expect_exact(cache, prompt);
  prompt.from_messages.clear();  // the same text, now the template's: its look-alike is a special token
  expect_exact(cache, prompt);
}

TEST_F(PrefixCacheTest, StaysWithinItsBound) {
  constexpr std::size_t kBytes = 64 << 10;
  PrefixCache cache(kBytes);
  for (int i = 0; i < 200; ++i) {
    expect_exact(cache,
                 render({{"system", "Chat number " + std::to_string(i) + std::string(2000, 'x')}, {"user", "y"}}));
    ASSERT_LE(cache.counters().bytes, kBytes);
  }
  EXPECT_GT(cache.counters().evictions, 100U);
  // What is larger than its share is not kept, and is right all the same.
  expect_exact(cache, render({{"system", std::string(kBytes, 'z')}, {"user", "y"}}));
}

TEST_F(PrefixCacheTest, EqualsTheUncachedResultForAnyHistory) {
  constexpr std::uint64_t kSeed = 20261121;
  SCOPED_TRACE(kSeed);
  RandomStream random(kSeed);
  const auto below = [&](std::size_t bound) {
    return static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(bound) - 1));
  };
  const std::vector<std::string> pieces = {"the ",
                                           "ther",
                                           "and ",
                                           "in",
                                           "\n",
                                           "\n\n",
                                           "  ",
                                           "<|im_end|>",
                                           "<|im_start|>",
                                           "user",
                                           "é",
                                           "日本",
                                           "👩‍👩‍👧",
                                           "<|im",
                                           "_end|>",
                                           " a",
                                           "\t",
                                           "assistant"};
  const auto words = [&] {
    std::string text;
    for (std::size_t i = below(60); i > 0; --i) text += pieces[below(pieces.size())];
    return text;
  };
  PrefixCache cache(40 << 10);  // small: segments come and go
  std::vector<std::vector<text::ChatMessage>> chats(6);
  for (int round = 0; round < 1500; ++round) {
    auto& chat = chats[below(chats.size())];
    const std::size_t kind = below(10);
    if (kind == 0 && !chat.empty()) chat.resize(below(chat.size()));  // an earlier turn is taken back
    if (kind == 1) chat = chats[below(chats.size())];                 // a branch of another chat
    if (kind == 2 && !chat.empty()) chat[below(chat.size())].content += pieces[below(pieces.size())];
    chat.push_back({chat.size() % 2 == 0 ? "user" : "assistant", words()});
    if (chat.size() > 30) chat.clear();
    expect_exact(cache, render(chat), below(8) == 0 ? "salt" : "");
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(cache.counters().cached_bytes, cache.counters().prompt_bytes / 10);
  EXPECT_GT(cache.counters().evictions, 0U);
}

}  // namespace
}  // namespace kvist::gateway::prefix_cache_test
