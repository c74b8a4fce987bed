// Recorded tokens of requests from a real vLLM (tests/golden/vllm/*/tokens.json), which the gateway has to reproduce.
// Next to each recording is the model's directory with its tokenizer and template. A recording has a line per probe,
//   {"vllm": "0.32.0", "max_model_len": 512, "probes": [
//    {"what": "...", "path": "/v1/chat/completions", "body": {...}, "tokens": [1, 2, 3]}, Each body was sent with
//    "max_tokens": 1. Requests that vLLM refused have no tokens.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/gateway/prompt_reader.h"
#include "kvist/kv/block_hash.h"
#include "kvist/text/model_text.h"

namespace kvist::gateway::vllm_golden_test {
namespace {

std::vector<std::filesystem::path> recordings() {
  std::vector<std::filesystem::path> paths;
  const std::filesystem::path folder = KVIST_SOURCE_DIR "/tests/golden/vllm";
  if (!std::filesystem::exists(folder)) return paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (std::filesystem::exists(entry.path() / "tokens.json")) paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

std::string listed(std::span<const TokenId> tokens) {
  std::string text;
  for (const TokenId token : tokens) text += fmt::format(" {}", token.value());
  return text;
}

struct Probe {
  std::string what;
  Api api = Api::kChat;
  std::string body;
  std::vector<TokenId> tokens;
};

// What stands behind `before`, up to `behind`. Quotes within JSON strings are escaped, so that member names are not
// found in texts.
std::string between(const std::string& line, std::string_view before, std::string_view behind) {
  const std::size_t begin = line.find(before);
  if (begin == std::string::npos) return {};
  const std::size_t from = begin + before.size();
  return line.substr(from, line.rfind(behind) - from);
}

std::optional<Probe> probe_of(const std::string& line) {
  if (!line.contains(R"(, "tokens": [)")) return std::nullopt;  // the first line, the last, and what was refused
  Probe probe{.what = between(line, R"("what": ")", R"(", "path")"),
              .api = line.contains(R"("path": "/v1/chat/completions")") ? Api::kChat : Api::kCompletions,
              .body = between(line, R"("body": )", R"(, "tokens": [)"),
              .tokens = {}};
  probe.body.insert(probe.body.size() - 1, R"(,"max_tokens":1)");  // as it was sent
  std::istringstream ids(between(line, R"(, "tokens": [)", "]}"));
  for (std::string id; std::getline(ids, id, ',');)
    probe.tokens.emplace_back(static_cast<std::uint32_t>(std::stoul(id)));
  return probe;
}

// Blocks of one token each: equal names are equal tokens.
void expect_tokens(const PromptReader& reader, const FleetReadings& fleet, const Probe& probe) {
  const auto read = reader.read(probe.api, probe.body, fleet);
  ASSERT_TRUE(read.has_value()) << probe.body << "\n" << read.error().message;
  const auto root = kv::root_hash({.model = "m", .lora = "", .cache_salt = read->options.cache_salt});
  const auto expected = kv::hash_blocks(root, probe.tokens, 1);
  const auto [here, there] = std::ranges::mismatch(*read->profile.blocks, expected);
  EXPECT_TRUE(here == read->profile.blocks->end() && there == expected.end())
      << probe.body << "\nis different from token " << here - read->profile.blocks->begin()
      << " on: " << read->profile.prompt_tokens << " tokens here, there" << listed(probe.tokens);
}

TEST(VllmGoldenTest, PromptsBecomeTheSameTokens) {
  for (const std::filesystem::path& path : recordings()) {
    auto model = text::ModelText::load(path.string());
    ASSERT_TRUE(model.has_value()) << model.error().message;
    const PromptReader reader("m", 1, std::make_shared<const text::ModelText>(std::move(*model)));
    FleetReadings fleet;
    fleet.present.set(text::PromptReading().number());
    std::size_t probes = 0;
    std::ifstream file(path / "tokens.json");
    for (std::string line; std::getline(file, line);) {
      if (const std::string context = between(line, R"("max_model_len": )", ", \"probes"); !context.empty())
        fleet.max_model_len = static_cast<std::uint32_t>(std::stoul(context));
      const std::optional<Probe> probe = probe_of(line);
      if (!probe) continue;
      SCOPED_TRACE(fmt::format("{}: {}", path.filename().string(), probe->what));
      expect_tokens(reader, fleet, *probe);
      ++probes;
    }
    EXPECT_GT(fleet.max_model_len, 0U) << path;
    EXPECT_GT(probes, 10U) << path;
  }
}

}  // namespace
}  // namespace kvist::gateway::vllm_golden_test
