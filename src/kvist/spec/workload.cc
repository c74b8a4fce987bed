#include "kvist/spec/workload.h"

#include <array>
#include <limits>

#include <fmt/format.h>

#include "kvist/spec/fields.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {
namespace {

/// What the chat template adds to one message: role, separators.
constexpr std::uint64_t kTemplateTokensPerMessage = 16;

/// Both ends of a range, which must not be the wrong way round.
Result<void> read_range(const YamlNode& node, const std::string& name, std::uint32_t& low, std::uint32_t& high,
                        std::int64_t least, std::int64_t most) {
  KVIST_TRY_VOID(read_field(node, name + "_min", low, least, most));
  KVIST_TRY_VOID(read_field(node, name + "_max", high, least, most));
  if (low > high) {
    const auto given = node.get(name + "_min") ? node.get(name + "_min") : node.get(name + "_max");
    return std::unexpected(given->error(fmt::format("{0}_min ({1}) is above {0}_max ({2})", name, low, high)));
  }
  return {};
}

constexpr std::array kLoopWords = {Word{"open", TraceLoop::kOpen}, Word{"closed", TraceLoop::kClosed}};

Result<void> read_trace(const YamlNode& workload, const std::string& base_directory, TraceSpec& trace) {
  const auto node = workload.get("trace");
  if (!node) return {};
  KVIST_TRY_VOID(read_path(*node, "file", base_directory, trace.file));
  KVIST_TRY_VOID(read_field(*node, "run", trace.run, 0, std::numeric_limits<std::int64_t>::max()));
  KVIST_TRY_VOID(read_field(*node, "level", trace.level, 0, kMaxCount));
  KVIST_TRY_VOID(read_word(*node, "loop", kLoopWords, trace.loop));
  KVIST_TRY_VOID(read_field(*node, "speed", trace.speed, 0.001, 1'000.0));
  KVIST_TRY_VOID(read_field(*node, "tokens_per_hash", trace.tokens_per_hash, 1, 65'536));
  KVIST_TRY_VOID(node->finish());
  if (trace.file.empty()) return std::unexpected(node->error("key \"file\" is missing: which trace is replayed?"));
  if (!trace.file.ends_with(".jsonl") && !trace.file.ends_with(".sqlite")) {
    return std::unexpected(node->get("file")->error(fmt::format(
        "\"{}\" ends neither in .jsonl (a Mooncake trace) nor in .sqlite (runs that kvist recorded)", trace.file)));
  }
  return {};
}

void write_trace(YamlWriter& out, const TraceSpec& trace) {
  out.begin_map("trace").field("file", trace.file).field("run", trace.run).field("level", trace.level);
  out.field("loop", word_of(kLoopWords, trace.loop)).field("speed", trace.speed);
  out.field("tokens_per_hash", trace.tokens_per_hash).end_map();
}

}  // namespace

Result<WorkloadSpec> read_workload(const YamlNode& node, const std::string& base_directory) {
  WorkloadSpec w;
  KVIST_TRY_VOID(read_field(node, "seed", w.seed, 0, std::numeric_limits<std::int64_t>::max()));
  KVIST_TRY_VOID(read_range(node, "turns", w.turns_min, w.turns_max, 1, 1'000));
  KVIST_TRY_VOID(read_field(node, "starters", w.starters, 1, 100'000));
  KVIST_TRY_VOID(read_range(node, "starter_tokens", w.starter_tokens_min, w.starter_tokens_max, 16, 1'000'000));
  KVIST_TRY_VOID(read_range(node, "follow_up_tokens", w.follow_up_tokens_min, w.follow_up_tokens_max, 1, 1'000'000));
  KVIST_TRY_VOID(read_field(node, "max_tokens", w.max_tokens, 1, 1'000'000));
  KVIST_TRY_VOID(read_field(node, "target_rps", w.target_rps, 0.001, 100'000.0));
  KVIST_TRY_VOID(read_field(node, "request_timeout", w.request_timeout, std::chrono::milliseconds(1)));
  KVIST_TRY_VOID(read_trace(node, base_directory, w.trace));
  KVIST_TRY_VOID(node.finish());
  return w;
}

std::string to_yaml(const WorkloadSpec& w, int indent) {
  YamlWriter out(indent);
  out.field("seed", w.seed);
  out.field("turns_min", w.turns_min).field("turns_max", w.turns_max);
  out.field("starters", w.starters);
  out.field("starter_tokens_min", w.starter_tokens_min).field("starter_tokens_max", w.starter_tokens_max);
  out.field("follow_up_tokens_min", w.follow_up_tokens_min).field("follow_up_tokens_max", w.follow_up_tokens_max);
  out.field("max_tokens", w.max_tokens);
  out.field("target_rps", w.target_rps);
  out.field("request_timeout", w.request_timeout);
  if (!w.trace.file.empty()) write_trace(out, w.trace);
  return out.take();
}

std::uint64_t longest_request_tokens(const WorkloadSpec& w) {
  const std::uint64_t later_turns = w.turns_max - 1;
  const std::uint64_t messages = 2 * later_turns + 2;  // question and answer of each turn
  return w.starter_tokens_max + later_turns * w.follow_up_tokens_max + w.turns_max * std::uint64_t{w.max_tokens} +
         messages * kTemplateTokensPerMessage;
}

}  // namespace kvist::spec
