#include "kvist/cli/loadgen_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "kvist/base/yaml.h"
#include "kvist/cli/duration_argument.h"
#include "kvist/cli/loadgen_conflicts.h"
#include "kvist/cli/loadgen_content.h"
#include "kvist/results/load_input.h"
#include "kvist/spec/files.h"
#include "kvist/workload/chat_file.h"
#include "kvist/workload/trace_file.h"

namespace kvist::cli {
namespace {

using spec::ArrivalKind;

constexpr std::uint32_t kMaxTurns = 1'000;
/// Below the number of connections that the range of client ports allows.
constexpr std::uint32_t kUsualMaxInFlight = 20'000;

constexpr std::array kLaws = {std::pair{std::string_view("poisson"), ArrivalKind::kPoisson},
                              std::pair{std::string_view("constant"), ArrivalKind::kConstant},
                              std::pair{std::string_view("gamma"), ArrivalKind::kBursty},
                              std::pair{std::string_view("bursts"), ArrivalKind::kBursts}};

std::unexpected<Error> wrong(const std::string& option, const std::string& what) {
  return fail(ErrorCode::kInvalidArgument, option + ": " + what);
}

Result<ArrivalKind> parse_law(const std::string& text) {
  for (const auto& [name, kind] : kLaws) {
    if (name == text) return kind;
  }
  return wrong("--arrivals", fmt::format("\"{}\"; there are poisson, constant, gamma, bursts", text));
}

Result<void> read_open_loop(const LoadgenArguments& a, LoadOrder& order) {
  spec::ArrivalSpec& arrivals = order.workload.arrivals;
  if (!arrivals.is_open()) {  // a workload file may say how conversations start; then the rate alone is ours
    arrivals.kind = ArrivalKind::kPoisson;
    arrivals.max_conversations = kUsualMaxInFlight;
    arrivals.when_full = spec::WhenFull::kWait;
  }
  if (!a.arrivals.empty()) {
    KVIST_TRY(arrivals.kind, parse_law(a.arrivals));
  }
  if (a.variation && arrivals.kind != ArrivalKind::kBursty) return wrong("--variation", "is for --arrivals gamma");
  if (a.burst_size && arrivals.kind != ArrivalKind::kBursts) return wrong("--burst-size", "is for --arrivals bursts");
  arrivals.rate_per_s = *a.rate;
  arrivals.variation = a.variation.value_or(arrivals.variation);
  arrivals.burst_size = a.burst_size.value_or(arrivals.burst_size);
  arrivals.max_conversations = a.max_in_flight.value_or(arrivals.max_conversations);
  if (!a.profile.empty()) {
    KVIST_TRY(arrivals.profile, parse_rate_profile(a.profile));
  }
  order.level = static_cast<std::uint32_t>(std::clamp(std::round(*a.rate * 60), 1.0, 1e9));
  return {};
}

Result<void> read_load(const LoadgenArguments& a, LoadOrder& order) {
  if (a.rate) {
    KVIST_TRY_VOID(read_open_loop(a, order));
  } else if (a.concurrency) {
    order.level = a.concurrency;
    if (a.workload_file.empty()) order.workload.target_rps = 0;
    if (a.max_start_rate) order.workload.target_rps = *a.max_start_rate;
  }
  if (a.seed) order.workload.seed = *a.seed;
  if (a.requests && *a.requests == 0) return wrong("--requests", "0; want at least 1");
  if (!a.duration.empty()) {
    KVIST_TRY(order.duration, parse_duration(a.duration, "--duration"));
    if (*order.duration <= Duration(0)) return wrong("--duration", "must be above 0");
  }
  if (!a.warmup.empty()) {
    KVIST_TRY(order.warmup, parse_duration(a.warmup, "--warmup"));
    if (order.duration && order.warmup >= *order.duration) {
      return fail(ErrorCode::kInvalidArgument, "--warmup must be below --duration");
    }
  }
  if (!a.timeout.empty()) {
    KVIST_TRY(order.workload.request_timeout, parse_duration(a.timeout, "--timeout"));
  }
  KVIST_TRY(order.progress, parse_duration(a.progress, "--progress"));
  return {};
}

/// Whether the places of a closed loop are of requests.
Result<bool> parse_concurrency_of(const LoadgenArguments& a) {
  const std::string& text = a.concurrency_of;
  if (text == "requests") return true;
  if (text == "conversations") return false;
  return wrong("--concurrency-of", fmt::format("\"{}\"; there are conversations, requests", text));
}

/// Lengths are given in the target's tokens and sent as text of so many characters.
Result<spec::BoundedCount> text_lengths(const std::string& text, const std::string& option,
                                        double characters_per_token) {
  KVIST_TRY(spec::BoundedCount count, parse_count(text, option));
  return characters_per_token > 0 ? spec::scaled(std::move(count), characters_per_token) : count;
}

Result<void> read_prefix_groups(const LoadgenArguments& a, spec::WorkloadSpec& w) {
  if (!a.prefix_groups) return {};
  const double characters_per_token = a.characters_per_token.value_or(0);
  KVIST_TRY(const spec::BoundedCount length, text_lengths(a.prefix_tokens, "--prefix-tokens", characters_per_token));
  if (length.low != length.high) return wrong("--prefix-tokens", "want one length: it is that of all groups");
  w.prefix_groups = *a.prefix_groups;
  w.prefix_tokens = length.low;
  w.prefix_skew = a.prefix_skew.value_or(0);
  return {};
}

Result<void> read_lengths(const LoadgenArguments& a, spec::WorkloadSpec& w) {
  const double characters_per_token = a.characters_per_token.value_or(0);
  if (!a.input_tokens.empty()) {
    KVIST_TRY(spec::BoundedCount count, text_lengths(a.input_tokens, "--input-tokens", characters_per_token));
    w.starter_tokens_min = count.low;
    w.starter_tokens_max = count.high;
    w.starter_law = std::move(count.law);
    if (a.workload_file.empty()) {
      // As other load generators: single requests that share nothing, unless it is asked for.
      w.starters = 0;
      w.turns_min = w.turns_max = 1;
    }
  }
  if (!a.follow_up_tokens.empty()) {
    KVIST_TRY(spec::BoundedCount count, text_lengths(a.follow_up_tokens, "--follow-up-tokens", characters_per_token));
    w.follow_up_tokens_min = count.low;
    w.follow_up_tokens_max = count.high;
    w.follow_up_law = std::move(count.law);
    w.follow_ups.clear();
  }
  if (!a.output_tokens.empty()) {
    KVIST_TRY(spec::BoundedCount count, parse_count(a.output_tokens, "--output-tokens"));
    w.max_tokens_min = count.low == count.high ? 0 : count.low;
    w.max_tokens = count.high;
    w.answer_law = std::move(count.law);
  }
  if (!a.turns.empty()) {
    KVIST_TRY(spec::BoundedCount count, parse_count(a.turns, "--turns", kMaxTurns));
    w.turns_min = count.low;
    w.turns_max = count.high;
    w.turns_law = std::move(count.law);
  }
  return {};
}

Result<void> read_texts(const LoadgenArguments& a, spec::WorkloadSpec& w) {
  KVIST_TRY_VOID(read_lengths(a, w));
  if (a.prefixes) w.starters = *a.prefixes;
  KVIST_TRY_VOID(read_prefix_groups(a, w));
  w.ignore_eos = w.ignore_eos || a.ignore_eos;
  if (!a.follow_ups.empty()) {
    KVIST_TRY(w.follow_ups, read_follow_ups(a.follow_ups));
  }
  if (a.replies.empty()) return {};
  if (a.replies != "live" && a.replies != "recorded") {
    return wrong("--replies", fmt::format("\"{}\"; there are live, recorded", a.replies));
  }
  w.replies = a.replies == "live" ? spec::Replies::kLive : spec::Replies::kRecorded;
  return {};
}

LoadContent content_of(const spec::TraceSpec& trace) {
  if (trace.file.empty()) return LoadContent::kDrawn;
  return trace.loop == spec::TraceLoop::kOpen ? LoadContent::kTimedTrace : LoadContent::kClosedTrace;
}

/// What the load says. A trace of `--dataset` becomes the workload's.
Result<LoadContent> read_content(const LoadgenArguments& a, spec::WorkloadSpec& workload) {
  spec::TraceSpec& trace = workload.trace;
  if (!a.mix.empty() && !trace.file.empty()) {
    return wrong("--mix", fmt::format("the workload of {} replays {}: give one of both", a.workload_file, trace.file));
  }
  if (!a.mix.empty()) return LoadContent::kMix;
  if (a.dataset.empty()) return content_of(trace);
  if (!trace.file.empty()) {
    return wrong("--dataset",
                 fmt::format("the workload of {} replays {}: give one of both", a.workload_file, trace.file));
  }
  KVIST_TRY(const std::string beginning, workload::beginning_of(a.dataset));
  KVIST_TRY(const workload::DatasetKind kind, workload::dataset_kind(beginning, a.dataset));
  if (kind != workload::DatasetKind::kTrace) return LoadContent::kChats;
  if (workload.arrivals.is_open()) {
    return wrong("--dataset", "a trace has instants of its own: leave `arrivals` out of " + a.workload_file);
  }
  trace.file = a.dataset;
  trace.loop = a.concurrency ? spec::TraceLoop::kClosed : spec::TraceLoop::kOpen;
  return content_of(trace);
}

/// Counts tokens by the tokenizer that was given; null: none was.
std::function<std::uint32_t(std::string_view)> counter_of(const LoadOrder& order) {
  if (!order.input.tokens) return nullptr;
  return [tokens = order.input.tokens](std::string_view text) { return tokens->count(text); };
}

/// Prompts as ids: of a range, or by the tokenizer.
Result<void> read_prompt_ids(const LoadgenArguments& a, LoadOrder& order) {
  if (a.prompt_ids.empty()) return {};
  const bool has_chats =
      order.input.mix &&
      std::ranges::any_of(*order.input.mix, [](const workload::WorkloadPart& part) { return part.scripts != nullptr; });
  if (a.prompt_ids == "encoded") {
    if (!order.input.tokens) return wrong("--prompt-ids", "encoded needs --tokenizer");
    order.prompt_ids.emplace([tokens = order.input.tokens](std::string_view text) { return tokens->encode(text); });
    return {};
  }
  if (order.input.tokens) return wrong("--prompt-ids", "with --tokenizer say encoded, or leave one of both out");
  if (has_chats) return wrong("--prompt-ids", "is for drawn conversations and traces: a data set of chats is text");
  Result<workload::TokenIdRange> range = workload::parse_token_ids(a.prompt_ids);
  if (!range) return std::unexpected(std::move(range).error().in("--prompt-ids"));
  order.prompt_ids.emplace(*range,
                           order.input.trace ? workload::PromptFrame::kChatTemplate : workload::PromptFrame::kNone);
  return {};
}

Result<void> load_content(const LoadgenArguments& a, LoadContent content, LoadOrder& order) {
  if (!a.dataset.empty()) {
    order.dataset = std::filesystem::path(a.dataset).filename().string();
    KVIST_TRY(order.dataset_sha256, digest_of(a.dataset));
  }
  if (content == LoadContent::kChats) {
    KVIST_TRY(auto scripts,
              workload::load_chats(a.dataset, {.characters_per_token = a.characters_per_token.value_or(0),
                                               .count_tokens = counter_of(order),
                                               .replies = order.workload.replies == spec::Replies::kRecorded}));
    order.input.scripts = std::make_shared<const std::vector<workload::ChatScript>>(std::move(scripts));
    return {};
  }
  if (content == LoadContent::kDrawn) return {};
  if (content == LoadContent::kMix) {
    KVIST_TRY(order.input.mix, read_mix(a.mix));
    order.dataset = fmt::format("mix of {}", fmt::join(a.mix, ", "));
    return {};
  }
  spec::TraceSpec& trace = order.workload.trace;
  trace.speed = a.speed.value_or(trace.speed);
  if (a.dataset.empty()) {
    KVIST_TRY(order.input, results::load_input(trace));
    KVIST_TRY(order.dataset_sha256, digest_of(trace.file));
    if (order.input.recorded && a.seed) {
      return wrong("--seed", fmt::format("{} is a recorded run, which has its own", trace.file));
    }
  } else {  // known by its content, whatever its name ends with
    KVIST_TRY(workload::Trace loaded, workload::load_trace(a.dataset, {}, {.rows = trace.rows}));
    KVIST_TRY_VOID(workload::check_instants(loaded, trace, a.dataset));
    order.input.trace = std::make_shared<const workload::Trace>(std::move(loaded));
  }
  if (content == LoadContent::kTimedTrace) order.level = 1;  // limited by nothing
  return {};
}

/// Without a load the control API is waited for, which must be what was meant.
Result<void> check_has_load(const LoadgenArguments& a, LoadContent content, const LoadOrder& order) {
  if (order.level) return {};
  if (a.within_calibration) {
    return wrong("--within-calibration", "needs a load: give --concurrency, --rate or a trace");
  }
  if ((content == LoadContent::kChats || content == LoadContent::kMix) && !a.port) {
    return wrong(content == LoadContent::kMix ? "--mix" : "--dataset",
                 "needs --concurrency or --rate, or --port for a start by the control API");
  }
  if (a.requests || order.duration || order.warmup > Duration(0) || !a.output.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no load to measure: give --concurrency, --rate or a trace");
  }
  return {};
}

/// Requests of the service's own headers would be sent twice.
Result<net::Headers> read_headers(const std::vector<std::string>& texts) {
  constexpr std::string_view kOwn[] = {"content-type",   "accept", "x-request-id",     "x-session-id",
                                       "content-length", "host",   "transfer-encoding"};
  net::Headers headers;
  for (const std::string& text : texts) {
    const std::size_t colon = text.find(':');
    const std::string name = text.substr(0, colon);
    const bool is_token = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
      return c > 32 && c < 127 &&
             std::string_view("()<>@,;:\\\"/[]?={}").find(static_cast<char>(c)) == std::string_view::npos;
    });
    if (colon == std::string::npos || !is_token)
      return wrong("--header", fmt::format("\"{}\"; want \"Name: value\"", name));
    const std::size_t begin = text.find_first_not_of(" \t", colon + 1);
    std::string value = begin == std::string::npos ? std::string() : text.substr(begin);
    if (std::ranges::any_of(value, [](unsigned char c) { return c < 32 || c == 127; })) {
      return wrong("--header", fmt::format("the value of {} has a control character", name));
    }
    for (const std::string_view own : kOwn) {
      if (net::equals_no_case(name, own))
        return wrong("--header", fmt::format("{} is set by the load generator", name));
    }
    headers.add(name, std::move(value));
  }
  return headers;
}

/// What may be told of an option's value: of a header its name, of a path nothing behind a "?".
std::string told_of(std::string_view option, const std::string& value) {
  constexpr std::string_view kHidden = "...";
  const char* const end = option == "--header" ? ":" : option == "--path" ? "?" : nullptr;
  if (end == nullptr || value.empty()) return value;
  const std::size_t secret = value.find(*end);
  if (secret != std::string::npos) return value.substr(0, secret + 1) + (*end == ':' ? " " : "") + std::string(kHidden);
  return option == "--header" ? std::string(kHidden) : value;  // without a name all of it may be secret
}

}  // namespace

Result<spec::BoundedCount> parse_count(const std::string& text, const std::string& option, std::uint32_t most) {
  Result<spec::BoundedCount> count = spec::parse_count(text, 1, most);
  if (!count) return std::unexpected(std::move(count).error().in(option));
  return count;
}

Result<workload::ThinkTime> parse_think_time(const std::string& text) {
  const std::size_t dash = text.find('-', 1);
  workload::ThinkTime time;
  KVIST_TRY(time.least, parse_duration(text.substr(0, dash), "--think-time"));
  time.most = time.least;
  if (dash != std::string::npos) {
    KVIST_TRY(time.most, parse_duration(text.substr(dash + 1), "--think-time"));
  }
  if (time.least >= Duration::zero() && time.most > Duration::zero() && time.least <= time.most) return time;
  return wrong("--think-time", fmt::format("\"{}\"; want a pause above 0, or a range like 1s-5s", text));
}

Result<std::vector<spec::ArrivalPoint>> parse_rate_profile(const std::string& text) {
  std::vector<spec::ArrivalPoint> profile;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const std::size_t colon = item.find(':');
    spec::ArrivalPoint point;
    const std::string_view share = colon == std::string_view::npos ? std::string_view() : item.substr(colon + 1);
    const auto [end, error] = std::from_chars(share.data(), share.data() + share.size(), point.share);
    if (share.empty() || error != std::errc() || end != share.data() + share.size()) {
      return wrong("--rate-profile", fmt::format("\"{}\"; want instants and multiples, like 0s:0.1,60s:1", item));
    }
    KVIST_TRY(point.at, parse_duration(std::string(item.substr(0, colon)), "--rate-profile"));
    profile.push_back(point);
  }
  return profile;
}

Result<LoadOrder> read_load_order(const LoadgenArguments& arguments) {
  LoadOrder order;
  if (!arguments.workload_file.empty()) {
    KVIST_TRY(order.workload, spec::load_workload(arguments.workload_file));
  }
  KVIST_TRY_VOID(check_numbers(arguments));
  KVIST_TRY(const LoadContent content, read_content(arguments, order.workload));
  KVIST_TRY_VOID(refuse_ignored(arguments, content));
  KVIST_TRY_VOID(refuse_beside_file(arguments, content, order.workload));
  KVIST_TRY_VOID(read_load(arguments, order));
  KVIST_TRY_VOID(read_texts(arguments, order.workload));
  std::shared_ptr<const text::TokenProse> tokens;
  if (!arguments.tokenizer.empty()) {
    KVIST_TRY(TokenTexts texts, read_tokenizer(arguments.tokenizer));
    order.input.tokens = tokens = std::move(texts.prose);
    order.tokenizer_sha256 = std::move(texts.sha256);
  }
  KVIST_TRY_VOID(load_content(arguments, content, order));
  KVIST_TRY_VOID(check_has_load(arguments, content, order));
  if (!arguments.think_time.empty()) {
    KVIST_TRY(order.input.think_time, parse_think_time(arguments.think_time));
  }
  if (!arguments.concurrency_of.empty()) {
    KVIST_TRY(order.input.think_time.frees_place, parse_concurrency_of(arguments));
  }
  KVIST_TRY_VOID(read_prompt_ids(arguments, order));
  order.count_tokens = counter_of(order);
  KVIST_TRY(order.headers, read_headers(arguments.headers));
  KVIST_TRY(order.exports, report::parse_formats(arguments.exports));
  KVIST_TRY_VOID(workload::check_load(order.workload, order.input));
  return order;
}

std::string command_text(int argc, const char* const* argv) {
  std::string text = "kvist";
  std::string option;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument.starts_with("--")) {
      option = argument.substr(0, argument.find('='));
      const std::size_t value = std::min(argument.size(), option.size() + 1);
      argument = argument.substr(0, value) + told_of(option, argument.substr(value));
    } else if (argument.starts_with('-')) {
      option.clear();
    } else {
      argument = told_of(option, argument);
    }
    const bool plain = argument.find_first_of(" \t\n\"'\\$&|;<>()*?") == std::string::npos && !argument.empty();
    text += plain ? " " + argument : fmt::format(" '{}'", argument);
  }
  return text;
}

}  // namespace kvist::cli
