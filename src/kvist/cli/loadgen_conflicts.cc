#include "kvist/cli/loadgen_conflicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "kvist/net/http_types.h"
#include "kvist/spec/arrival_spec.h"
#include "kvist/spec/workload.h"

namespace kvist::cli {
namespace {

constexpr double kMaxRate = 1e6;
constexpr double kMaxSpeed = 1e6;
constexpr double kMaxCharactersPerToken = 100;
/// Of a workload file with open arrivals the number is that of starts per minute.
constexpr std::uint32_t kMaxConcurrency = 1'000'000;
constexpr std::uint32_t kMaxInFlight = 100'000;

/// An option that was given, and why it means nothing here.
struct Ignored {
  bool given = false;
  std::string_view option;
};

Result<void> refuse(std::initializer_list<Ignored> options, std::string_view why) {
  const auto given = std::ranges::find(options, true, &Ignored::given);
  if (given == options.end()) return {};
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", given->option, why));
}

/// `above` is outside of the bounds, `most` within.
Result<void> check_number(const std::optional<double>& value, std::string_view option, double above, double most) {
  if (!value || (std::isfinite(*value) && *value > above && *value <= most)) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: {}; want a number above {} and at most {}", option, *value, above, most));
}

Result<void> check_count(const std::optional<std::uint32_t>& value, std::string_view option, std::uint32_t least,
                         std::uint32_t most) {
  if (!value || (*value >= least && *value <= most)) return {};
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}; want {} to {}", option, *value, least, most));
}

Result<void> refuse_beside_trace(const LoadgenArguments& a, LoadContent content) {
  KVIST_TRY_VOID(refuse({{!a.input_tokens.empty(), "--input-tokens"},
                         {!a.output_tokens.empty(), "--output-tokens"},
                         {!a.turns.empty(), "--turns"},
                         {!a.follow_up_tokens.empty(), "--follow-up-tokens"},
                         {!a.follow_ups.empty(), "--follow-ups"},
                         {!a.replies.empty(), "--replies"},
                         {!a.tokenizer.empty(), "--tokenizer"},
                         {!a.think_time.empty(), "--think-time"},
                         {a.prefixes.has_value(), "--prefixes"},
                         {a.prefix_groups.has_value(), "--prefix-groups"},
                         {a.ignore_eos, "--ignore-eos"},
                         {a.characters_per_token.has_value(), "--characters-per-token"}},
                        "a trace has the lengths of its prompts and answers itself"));
  KVIST_TRY_VOID(refuse({{a.rate.has_value(), "--rate"}},
                        "a trace has instants of its own: use --speed, or --concurrency for a closed loop"));
  KVIST_TRY_VOID(refuse({{a.max_start_rate.has_value(), "--max-start-rate"}},
                        "the requests of a trace begin as soon as a place is free"));
  if (content == LoadContent::kTimedTrace) {
    return refuse({{a.concurrency.has_value() && a.dataset.empty(), "--concurrency"}},
                  "the trace of -f goes out at its own instants; for a closed loop say `loop: closed` in the file");
  }
  return refuse({{a.speed.has_value(), "--speed"}},
                "is for a trace at its own instants; in a closed loop a request begins as soon as a place is free");
}

Result<void> refuse_beside_chats(const LoadgenArguments& a) {
  KVIST_TRY_VOID(refuse({{!a.prompt_ids.empty() && a.prompt_ids != "encoded", "--prompt-ids"}},
                        "is for drawn conversations and traces: a data set of chats is text (or encoded)"));
  return refuse({{!a.input_tokens.empty(), "--input-tokens"},
                 {!a.turns.empty(), "--turns"},
                 {!a.follow_up_tokens.empty(), "--follow-up-tokens"},
                 {!a.follow_ups.empty(), "--follow-ups"},
                 {a.prefixes.has_value(), "--prefixes"},
                 {a.prefix_groups.has_value(), "--prefix-groups"}},
                "the data set has the messages itself");
}

Result<void> refuse_beside_drawn(const LoadgenArguments& a) {
  const bool one_turn =
      a.turns.empty() ? !a.input_tokens.empty() && a.workload_file.empty() : a.turns == "1" || a.turns == "1-1";
  KVIST_TRY_VOID(refuse({{!a.follow_up_tokens.empty() && !a.follow_ups.empty(), "--follow-up-tokens"}},
                        "the messages of --follow-ups have their own lengths"));
  KVIST_TRY_VOID(refuse({{!a.follow_up_tokens.empty() && one_turn, "--follow-up-tokens"},
                         {!a.follow_ups.empty() && one_turn, "--follow-ups"},
                         {!a.replies.empty() && one_turn, "--replies"},
                         {!a.think_time.empty() && one_turn, "--think-time"}},
                        "conversations of one turn have no later message: say --turns, like 3-5"));
  KVIST_TRY_VOID(refuse({{a.characters_per_token.has_value() && !a.prompt_ids.empty(), "--characters-per-token"}},
                        "is for prompts of text: with --prompt-ids lengths are in tokens"));
  return refuse({{a.characters_per_token.has_value() && a.input_tokens.empty() && a.follow_up_tokens.empty() &&
                      a.prefix_tokens.empty(),
                  "--characters-per-token"}},
                "is for --input-tokens, --follow-up-tokens and a data set of chats");
}

Result<void> refuse_beside_mix(const LoadgenArguments& a) {
  return refuse({{!a.dataset.empty(), "--dataset"},
                 {!a.input_tokens.empty(), "--input-tokens"},
                 {!a.output_tokens.empty(), "--output-tokens"},
                 {!a.turns.empty(), "--turns"},
                 {!a.follow_up_tokens.empty(), "--follow-up-tokens"},
                 {!a.follow_ups.empty(), "--follow-ups"},
                 {a.prefixes.has_value(), "--prefixes"},
                 {a.prefix_groups.has_value(), "--prefix-groups"},
                 {!a.replies.empty(), "--replies"},
                 {a.ignore_eos, "--ignore-eos"},
                 {a.characters_per_token.has_value(), "--characters-per-token"}},
                "the files of --mix say what is sent");
}

/// Options about the connection.
Result<void> refuse_about_target(const LoadgenArguments& a) {
  const bool gateway_only = !a.target.starts_with("https://") && a.gateway.starts_with("https://");
  KVIST_TRY_VOID(check_tls(a.tls, gateway_only ? "--gateway" : "--target", gateway_only ? a.gateway : a.target));
  const bool authorization = std::ranges::any_of(a.headers, [](const std::string& header) {
    return net::equals_no_case(std::string_view(header).substr(0, header.find(':')), "authorization");
  });
  KVIST_TRY_VOID(refuse({{authorization && !a.api_key_file.empty(), "--header"}},
                        "Authorization is that of --api-key-file: give one of both"));
  // A body with messages would be sent to it, each request of which it refuses.
  const std::string_view path = std::string_view(a.path).substr(0, a.path.find('?'));
  return refuse({{path.ends_with("/v1/completions") && a.prompt_ids.empty(), "--path"}},
                "/v1/completions takes prompts of token ids: say --prompt-ids, like 1000-30000; chats go to "
                "/v1/chat/completions");
}

/// Agents have their own ways to the target, and threads.
Result<void> refuse_beside_agents(const LoadgenArguments& a, bool trace) {
  if (a.agents.empty()) {
    return refuse({{!a.agents_key_file.empty(), "--agents-key-file"}, {!a.agents_ca.empty(), "--agents-ca"}},
                  "is for --agents");
  }
  if (trace) {
    return fail(ErrorCode::kInvalidArgument, "--agents: a trace is driven by one process: agents divide conversations");
  }
  if (!a.concurrency && !a.rate) {
    return fail(ErrorCode::kInvalidArgument, "--agents: needs a load: give --concurrency or --rate");
  }
  const TlsArguments& tls = a.tls;
  const bool has_tls = !tls.ca.empty() || !tls.server_name.empty() || !tls.certificate.empty() || tls.insecure;
  KVIST_TRY_VOID(refuse({{!a.api_key_file.empty(), "--api-key-file"},
                         {has_tls, "--ca, --server-name, --certificate, --insecure"},
                         {!a.source_addresses.empty(), "--source-addresses"},
                         {a.threads > 1, "--threads"}},
                        "is each agent's own: say it to kvist loadgen agent"));
  return refuse({{!a.calibration.empty(), "--calibration"}, {a.within_calibration, "--within-calibration"}},
                "is for the machine that drives the load, which agents are");
}

}  // namespace

Result<void> check_numbers(const LoadgenArguments& a) {
  KVIST_TRY_VOID(check_number(a.rate, "--rate", 0, kMaxRate));
  KVIST_TRY_VOID(check_number(a.max_start_rate, "--max-start-rate", 0, kMaxRate));
  KVIST_TRY_VOID(check_number(a.speed, "--speed", 0, kMaxSpeed));
  KVIST_TRY_VOID(check_number(a.characters_per_token, "--characters-per-token", 0, kMaxCharactersPerToken));
  if (a.variation && !(*a.variation >= spec::kMinArrivalVariation && *a.variation <= spec::kMaxArrivalVariation)) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("--variation: {}; want {} to {}", *a.variation,
                                                         spec::kMinArrivalVariation, spec::kMaxArrivalVariation));
  }
  if (a.prefix_skew && !(*a.prefix_skew >= 0 && *a.prefix_skew <= spec::kMaxPrefixSkew)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--prefix-skew: {}; want 0 to {}", *a.prefix_skew, spec::kMaxPrefixSkew));
  }
  KVIST_TRY_VOID(check_count(a.prefix_groups, "--prefix-groups", 1, spec::kMaxPrefixGroups));
  KVIST_TRY_VOID(check_count(a.burst_size, "--burst-size", 1, spec::kMaxBurstSize));
  KVIST_TRY_VOID(check_count(a.concurrency, "--concurrency", 1, kMaxConcurrency));
  return check_count(a.max_in_flight, "--max-in-flight", 1, kMaxInFlight);
}

Result<void> refuse_ignored(const LoadgenArguments& a, LoadContent content) {
  KVIST_TRY_VOID(refuse_about_target(a));
  KVIST_TRY_VOID(refuse({{a.characters_per_token.has_value() && !a.tokenizer.empty(), "--characters-per-token"}},
                        "with --tokenizer lengths are in its tokens"));
  KVIST_TRY_VOID(refuse({{a.concurrency_of == "requests" && a.think_time.empty(), "--concurrency-of"}},
                        "without --think-time each conversation has a request in flight: leave it out"));
  const bool trace = content == LoadContent::kTimedTrace || content == LoadContent::kClosedTrace;
  KVIST_TRY_VOID(refuse_beside_agents(a, trace));
  if (trace) return refuse_beside_trace(a, content);
  KVIST_TRY_VOID(refuse({{a.speed.has_value(), "--speed"}}, "is for a trace"));
  if (content == LoadContent::kMix) return refuse_beside_mix(a);
  return content == LoadContent::kChats ? refuse_beside_chats(a) : refuse_beside_drawn(a);
}

Result<void> refuse_beside_file(const LoadgenArguments& a, LoadContent content, const spec::WorkloadSpec& file) {
  if (a.workload_file.empty()) return {};
  KVIST_TRY_VOID(refuse({{a.max_start_rate.has_value() && file.arrivals.is_open(), "--max-start-rate"},
                         {!a.concurrency_of.empty() && file.arrivals.is_open(), "--concurrency-of"}},
                        fmt::format("is for a closed loop; {} has open arrivals", a.workload_file)));
  if (content != LoadContent::kMix && content != LoadContent::kChats) return {};
  // Of the file only what concerns the whole load counts.
  spec::WorkloadSpec texts;
  texts.seed = file.seed;
  texts.arrivals = file.arrivals;
  texts.target_rps = file.target_rps;
  texts.request_timeout = file.request_timeout;
  if (content == LoadContent::kChats) {  // limits of answers count, too
    texts.max_tokens = file.max_tokens;
    texts.max_tokens_min = file.max_tokens_min;
    texts.answer_law = file.answer_law;
    texts.ignore_eos = file.ignore_eos;
    texts.replies = file.replies;
  }
  return refuse({{texts != file, "-f"}},
                fmt::format("what is sent is said by {}: leave turns, lengths and prefixes out of {}",
                            content == LoadContent::kMix ? "the files of --mix" : "--dataset", a.workload_file));
}

}  // namespace kvist::cli
