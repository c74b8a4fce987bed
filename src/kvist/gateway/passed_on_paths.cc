#include "kvist/gateway/passed_on_paths.h"

#include <algorithm>
#include <array>

namespace kvist::gateway {
namespace {

constexpr auto kPaths = std::to_array<std::string_view>(
    {"/tokenize", "/detokenize", "/version", "/ping", "/score", "/rerank", "/pooling", "/classify", "/invocations"});
constexpr auto kPrefixes = std::to_array<std::string_view>({"/v1/", "/v2/"});
constexpr auto kComputing = std::to_array<std::string_view>(
    {"/tokenize", "/detokenize", "/score", "/rerank", "/pooling", "/classify", "/v1/embeddings", "/v1/score",
     "/v1/rerank", "/v1/pooling", "/v1/classify", "/v2/rerank", "/v2/embed", "/v1/messages",
     "/v1/messages/count_tokens", "/v1/audio/transcriptions", "/v1/audio/translations"});
/// Paths below one of the prefixes that are not for clients: vLLM's /v1/load_lora_adapter and /v1/unload_lora_adapter.
constexpr auto kSteering = std::to_array<std::string_view>({"lora_adapter"});

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '_' ||
         c == '-' || c == '.' || c == ':';
}

}  // namespace

bool is_passed_on(std::string_view path) {
  if (!std::ranges::all_of(path, is_plain) || path.contains("..") || path.contains("//") || path.contains("/./"))
    return false;
  if (std::ranges::find(kPaths, path) != kPaths.end()) return true;
  const auto begins = [&](std::string_view prefix) { return path.starts_with(prefix) && path.size() > prefix.size(); };
  const auto steers = [&](std::string_view word) { return path.contains(word); };
  return std::ranges::any_of(kPrefixes, begins) && std::ranges::none_of(kSteering, steers);
}

bool only_computes(std::string_view path) {
  return std::ranges::find(kComputing, path) != kComputing.end();
}

}  // namespace kvist::gateway
