#include "kvist/spec/workload.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "kvist/spec/fields.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {
namespace {

/// The tokens that the chat template adds to a message: role, separators.
constexpr std::uint64_t kTemplateTokensPerMessage = 16;

/// Reads both ends of a range and checks their order.
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

/// A number by one key that says its law, or by two keys with its bounds.
Result<void> read_count(const YamlNode& node, const std::string& name, std::uint32_t& low, std::uint32_t& high,
                        CountLaw& law, std::uint32_t least, std::uint32_t most) {
  const auto text_node = node.get(name);
  if (!text_node) return read_range(node, name, low, high, least, most);
  for (const std::string& bound : {name + "_min", name + "_max"}) {
    if (node.get(bound))
      return std::unexpected(text_node->error(fmt::format("stands beside {}: give one of both", bound)));
  }
  KVIST_TRY(const std::string text, text_node->as_string());
  Result<BoundedCount> count = parse_count(text, least, most);
  if (!count) return std::unexpected(text_node->error(count.error().message));
  low = count->low;
  high = count->high;
  law = count->law;
  return {};
}

Result<void> read_answers(const YamlNode& node, WorkloadSpec& w) {
  const auto text_node = node.get("answer_tokens");
  if (text_node) {
    for (const char* other : {"max_tokens", "max_tokens_min"}) {
      if (node.get(other)) {
        return std::unexpected(text_node->error(fmt::format("stands beside {}: give one of both", other)));
      }
    }
    KVIST_TRY_VOID(read_count(node, "answer_tokens", w.max_tokens_min, w.max_tokens, w.answer_law, 1, 1'000'000));
    if (w.max_tokens_min == w.max_tokens) w.max_tokens_min = 0;
  }
  KVIST_TRY_VOID(read_field(node, "max_tokens", w.max_tokens, 1, 1'000'000));
  return read_field(node, "max_tokens_min", w.max_tokens_min, 0, w.max_tokens);
}

constexpr std::array kReplyWords = {Word{"live", Replies::kLive}, Word{"recorded", Replies::kRecorded}};

Result<void> read_follow_ups(const YamlNode& workload, std::vector<std::string>& follow_ups) {
  const auto node = workload.get("follow_ups");
  if (!node) return {};
  KVIST_TRY(const std::vector<YamlNode> texts, node->elements());
  if (texts.size() > kMaxFollowUps) {
    return std::unexpected(node->error(fmt::format("{} texts; want at most {}", texts.size(), kMaxFollowUps)));
  }
  for (const YamlNode& text : texts) {
    KVIST_TRY(follow_ups.emplace_back(), text.as_string());
    if (follow_ups.back().empty() || follow_ups.back().size() > kMaxFollowUpBytes) {
      return std::unexpected(text.error(fmt::format("want a text of 1 to {} bytes", kMaxFollowUpBytes)));
    }
  }
  return {};
}

/// A law that is not uniform, in one key; otherwise the bounds in two.
void write_count(YamlWriter& out, const std::string& name, const BoundedCount& count) {
  if (count.law.kind != CountLawKind::kUniform) {
    out.field(name, text_of(count));
  } else {
    out.field(name + "_min", count.low).field(name + "_max", count.high);
  }
}

constexpr std::array kLoopWords = {Word{"open", TraceLoop::kOpen}, Word{"closed", TraceLoop::kClosed}};
constexpr std::array kSessionWords = {Word{"follow", TraceSessions::kFollow}, Word{"ignore", TraceSessions::kIgnore}};
constexpr std::array kRowWords = {Word{"whole", TraceRows::kWhole}, Word{"added", TraceRows::kAdded}};

Result<void> read_trace(const YamlNode& workload, const std::string& base_directory, TraceSpec& trace) {
  const auto node = workload.get("trace");
  if (!node) return {};
  KVIST_TRY_VOID(read_path(*node, "file", base_directory, trace.file));
  KVIST_TRY_VOID(read_field(*node, "run", trace.run, 0, std::numeric_limits<std::int64_t>::max()));
  KVIST_TRY_VOID(read_field(*node, "level", trace.level, 0, kMaxCount));
  KVIST_TRY_VOID(read_word(*node, "loop", kLoopWords, trace.loop));
  KVIST_TRY_VOID(read_field(*node, "speed", trace.speed, 0.001, 1'000.0));
  KVIST_TRY_VOID(read_word(*node, "sessions", kSessionWords, trace.sessions));
  KVIST_TRY_VOID(read_word(*node, "rows", kRowWords, trace.rows));
  KVIST_TRY_VOID(read_field(*node, "tokens_per_hash", trace.tokens_per_hash, 1, 65'536));
  KVIST_TRY_VOID(node->finish());
  if (trace.file.empty()) return std::unexpected(node->error("key \"file\" is missing: which trace is replayed?"));
  if (!trace.has_requests() && !trace.file.ends_with(".sqlite")) {
    return std::unexpected(node->get("file")->error(fmt::format(
        "\"{}\" ends neither in .jsonl or .jsonl.gz (a trace) nor in .sqlite (runs that kvist recorded)", trace.file)));
  }
  if (trace.has_requests() && (trace.run != 0 || trace.level != 0)) {
    return std::unexpected(
        node->get(trace.run != 0 ? "run" : "level")
            ->error(fmt::format("is for a .sqlite file, which holds several; \"{}\" is one trace", trace.file)));
  }
  return {};
}

constexpr std::array kArrivalWords = {Word{"closed", ArrivalKind::kClosed}, Word{"poisson", ArrivalKind::kPoisson},
                                      Word{"bursty", ArrivalKind::kBursty}, Word{"constant", ArrivalKind::kConstant},
                                      Word{"bursts", ArrivalKind::kBursts}};
constexpr std::array kWhenFullWords = {Word{"wait", WhenFull::kWait}, Word{"refuse", WhenFull::kRefuse}};

/// The times are those of the load, the shares multiples of the level's rate.
Result<void> read_profile(const YamlNode& workload, std::vector<ArrivalPoint>& profile) {
  const auto node = workload.get("arrival_profile");
  if (!node) return {};
  KVIST_TRY(const std::vector<YamlNode> points, node->elements());
  for (const YamlNode& point : points) {
    ArrivalPoint read;
    KVIST_TRY_VOID(read_field(point, "at", read.at, Duration(0)));
    KVIST_TRY_VOID(read_field(point, "share", read.share, 0.0, kMaxArrivalShare));
    KVIST_TRY_VOID(point.finish());
    if (!profile.empty() && read.at < profile.back().at) return std::unexpected(point.error("instants must ascend"));
    profile.push_back(read);
  }
  const bool ever = profile.empty() || std::ranges::any_of(profile, [](const ArrivalPoint& p) { return p.share > 0; });
  if (!ever) return std::unexpected(node->error("every share is 0: nothing would ever arrive"));
  return {};
}

/// A setting that the kind of arrivals does not use is an error, because it shows a misunderstanding.
Result<void> refuse_unused(const YamlNode& workload, std::string_view key, std::string_view why) {
  const auto node = workload.get(key);
  if (!node) return {};
  return std::unexpected(node->error(fmt::format("{} {}", key, why)));
}

/// 0 is no limit; a limit so low that nothing would start within a day is an error. `target_rps` is what it was called
/// before, and in published reports.
Result<void> read_max_start_rate(const YamlNode& node, double& rate) {
  const bool by_old_name = node.get("target_rps").has_value();
  if (by_old_name)
    KVIST_TRY_VOID(refuse_unused(node, "max_start_rate", "is target_rps by its new name: give one of both"));
  const char* const key = by_old_name ? "target_rps" : "max_start_rate";
  KVIST_TRY_VOID(read_field(node, key, rate, 0.0, 100'000.0));
  if (rate == 0 || rate >= 0.001) return {};
  return std::unexpected(node.get(key)->error("want 0 for no limit, or 0.001 to 100000"));
}

Result<void> read_arrivals(const YamlNode& node, WorkloadSpec& w) {
  ArrivalSpec& arrivals = w.arrivals;
  KVIST_TRY_VOID(read_word(node, "arrivals", kArrivalWords, arrivals.kind));
  if (arrivals.kind != ArrivalKind::kBursty) {
    KVIST_TRY_VOID(refuse_unused(node, "arrival_variation", "is for `arrivals: bursty` alone"));
  }
  if (arrivals.kind != ArrivalKind::kBursts) {
    KVIST_TRY_VOID(refuse_unused(node, "burst_size", "is for `arrivals: bursts` alone"));
  }
  if (!arrivals.is_open()) {
    for (const char* key : {"max_conversations", "when_full", "arrival_profile"}) {
      KVIST_TRY_VOID(refuse_unused(
          node, key, "is for open arrivals (poisson, bursty, ...): closed ones are limited by the level"));
    }
    return read_max_start_rate(node, w.target_rps);
  }
  for (const char* key : {"target_rps", "max_start_rate"}) {
    KVIST_TRY_VOID(
        refuse_unused(node, key, "is for `arrivals: closed`: the levels of open arrivals are starts per minute"));
  }
  KVIST_TRY_VOID(refuse_unused(node, "trace", "has instants of its own: leave `arrivals` out"));
  KVIST_TRY_VOID(read_field(node, "arrival_variation", arrivals.variation, kMinArrivalVariation, kMaxArrivalVariation));
  KVIST_TRY_VOID(read_field(node, "burst_size", arrivals.burst_size, 1, kMaxBurstSize));
  KVIST_TRY_VOID(read_word(node, "when_full", kWhenFullWords, arrivals.when_full));
  KVIST_TRY_VOID(read_profile(node, arrivals.profile));
  return read_field(node, "max_conversations", arrivals.max_conversations, 1, 100'000);
}

void write_arrivals(YamlWriter& out, const WorkloadSpec& w) {
  const ArrivalSpec& arrivals = w.arrivals;
  out.field("arrivals", word_of(kArrivalWords, arrivals.kind));
  if (!arrivals.is_open()) {
    out.field("target_rps", w.target_rps);
    return;
  }
  if (arrivals.kind == ArrivalKind::kBursty) out.field("arrival_variation", arrivals.variation);
  if (arrivals.kind == ArrivalKind::kBursts) out.field("burst_size", arrivals.burst_size);
  out.field("max_conversations", arrivals.max_conversations);
  out.field("when_full", word_of(kWhenFullWords, arrivals.when_full));
  if (arrivals.profile.empty()) return;
  out.begin_list("arrival_profile");
  for (const ArrivalPoint& point : arrivals.profile) {
    out.begin_item().field("at", point.at).field("share", point.share).end_map();
  }
  out.end_list();
}

void write_trace(YamlWriter& out, const TraceSpec& trace) {
  out.begin_map("trace").field("file", trace.file).field("run", trace.run).field("level", trace.level);
  out.field("loop", word_of(kLoopWords, trace.loop)).field("sessions", word_of(kSessionWords, trace.sessions));
  if (trace.rows != TraceRows::kWhole) out.field("rows", word_of(kRowWords, trace.rows));
  out.field("speed", trace.speed);
  if (trace.tokens_per_hash != 0) out.field("tokens_per_hash", trace.tokens_per_hash);
  out.end_map();
}

}  // namespace

Result<WorkloadSpec> read_workload(const YamlNode& node, const std::string& base_directory) {
  WorkloadSpec w;
  KVIST_TRY_VOID(read_field(node, "seed", w.seed, 0, std::numeric_limits<std::int64_t>::max()));
  KVIST_TRY_VOID(read_count(node, "turns", w.turns_min, w.turns_max, w.turns_law, 1, 1'000));
  KVIST_TRY_VOID(read_field(node, "starters", w.starters, 0, 100'000));
  KVIST_TRY_VOID(read_field(node, "prefix_groups", w.prefix_groups, 0, kMaxPrefixGroups));
  KVIST_TRY_VOID(read_field(node, "prefix_tokens", w.prefix_tokens, 0, 1'000'000));
  KVIST_TRY_VOID(read_field(node, "prefix_skew", w.prefix_skew, 0.0, kMaxPrefixSkew));
  KVIST_TRY_VOID(
      read_count(node, "starter_tokens", w.starter_tokens_min, w.starter_tokens_max, w.starter_law, 16, 1'000'000));
  KVIST_TRY_VOID(read_count(node, "follow_up_tokens", w.follow_up_tokens_min, w.follow_up_tokens_max, w.follow_up_law,
                            1, 1'000'000));
  KVIST_TRY_VOID(read_answers(node, w));
  KVIST_TRY_VOID(read_field(node, "ignore_eos", w.ignore_eos));
  KVIST_TRY_VOID(read_follow_ups(node, w.follow_ups));
  KVIST_TRY_VOID(read_word(node, "replies", kReplyWords, w.replies));
  KVIST_TRY_VOID(read_arrivals(node, w));
  KVIST_TRY_VOID(read_field(node, "request_timeout", w.request_timeout, std::chrono::milliseconds(1)));
  KVIST_TRY_VOID(read_trace(node, base_directory, w.trace));
  KVIST_TRY_VOID(node.finish());
  return w;
}

std::string to_yaml(const WorkloadSpec& w, int indent) {
  YamlWriter out(indent);
  out.field("seed", w.seed);
  write_count(out, "turns", w.turns());
  out.field("starters", w.starters);
  if (w.prefix_groups != 0) {
    out.field("prefix_groups", w.prefix_groups).field("prefix_tokens", w.prefix_tokens);
    out.field("prefix_skew", w.prefix_skew);
  }
  write_count(out, "starter_tokens", w.starter_tokens());
  write_count(out, "follow_up_tokens", w.follow_up_tokens());
  if (w.answer_law.kind != CountLawKind::kUniform) {
    out.field("answer_tokens", text_of(w.answer_tokens()));
  } else {
    out.field("max_tokens", w.max_tokens);
    if (w.max_tokens_min != 0) out.field("max_tokens_min", w.max_tokens_min);
  }
  if (w.ignore_eos) out.field("ignore_eos", true);
  if (!w.follow_ups.empty()) out.texts("follow_ups", w.follow_ups);
  if (w.replies != Replies::kLive) out.field("replies", word_of(kReplyWords, w.replies));
  write_arrivals(out, w);
  out.field("request_timeout", w.request_timeout);
  if (!w.trace.file.empty()) write_trace(out, w.trace);
  return out.take();
}

std::uint64_t longest_request_tokens(const WorkloadSpec& w) {
  const std::uint64_t later_turns = w.turns_max - 1;
  const std::uint64_t messages = 2 * later_turns + 2;  // question and answer of each turn
  std::uint64_t follow_up = w.follow_up_tokens_max;
  if (!w.follow_ups.empty()) {
    follow_up = std::ranges::max(w.follow_ups, {}, [](const std::string& text) { return text.size(); }).size();
  }
  return w.prefix_tokens + w.starter_tokens_max + later_turns * follow_up + w.turns_max * std::uint64_t{w.max_tokens} +
         messages * kTemplateTokensPerMessage;
}

}  // namespace kvist::spec
