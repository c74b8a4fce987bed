#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "kvist/report/load_exports.h"
#include "kvist/report/load_samples.h"
#include "kvist/report/part_rates.h"

namespace kvist::report {
namespace {

using analysis::Headline;
using workload::TurnOutcome;
using workload::TurnSample;
using Turns = std::vector<const TurnSample*>;

constexpr std::array<std::pair<std::string_view, double>, 11> kPercentiles = {{{"p001", 0.001},
                                                                               {"p01", 0.01},
                                                                               {"p05", 0.05},
                                                                               {"p10", 0.10},
                                                                               {"p25", 0.25},
                                                                               {"p50", 0.50},
                                                                               {"p75", 0.75},
                                                                               {"p90", 0.90},
                                                                               {"p95", 0.95},
                                                                               {"p99", 0.99},
                                                                               {"p999", 0.999}}};

/// Intervals of single percentiles, by their names above, in the unit of the measure.
using Intervals = std::vector<std::pair<std::string_view, std::optional<Interval>>>;

void intervals_field(JsonWriter& json, const Intervals& intervals) {
  json.key("percentile_cis");
  if (intervals.empty()) {
    json.null();
    return;
  }
  json.begin_object();
  for (const auto& [name, q] : kPercentiles) {
    std::optional<Interval> interval;
    for (const auto& [known, value] : intervals) {
      if (known == name) interval = value;
    }
    json.key(name);
    if (interval) {
      json.begin_object().field("lower", interval->low).field("upper", interval->high).end_object();
    } else {
      json.null();
    }
  }
  json.end_object();
}

/// A distribution. What has no samples is one of a single 0 that counts 0, as GuideLLM writes it and wants to read it.
void distribution(JsonWriter& json, const SampleList& kept, const Intervals& intervals = {}) {
  const SampleList nothing({0.0});
  const SampleList& samples = kept.empty() ? nothing : kept;
  json.begin_object().field("mean", samples.mean()).field("median", samples.quantile(0.5));
  json.field("mode", samples.mode()).field("variance", samples.variance());
  json.field("std_dev", samples.standard_deviation()).field("min", samples.min()).field("max", samples.max());
  json.field("count", kept.count()).field("total_sum", samples.sum()).key("percentiles").begin_object();
  for (const auto& [name, q] : kPercentiles) json.field(name, samples.quantile(q));
  json.end_object().key("pdf").null().key("mean_ci").null();
  intervals_field(json, intervals);
  json.end_object();
}

/// The distribution by status. Figures of requests that failed are not kept, so that those of all are the successful
/// ones'.
void measure(JsonWriter& json, std::string_view key, const SampleList& successful, const Intervals& intervals = {}) {
  const SampleList none({});
  json.key(key).begin_object().key("successful");
  distribution(json, successful, intervals);
  json.key("errored");
  distribution(json, none);
  json.key("incomplete");
  distribution(json, none);
  json.key("total");
  distribution(json, successful, intervals);
  json.end_object();
}

/// GuideLLM's time per output token includes the first: latency / tokens.
std::optional<double> time_per_output_token_ms(const TurnSample& turn) {
  if (turn.output_tokens() == 0 || !analysis::has_first_token(turn)) return std::nullopt;
  return to_milliseconds(turn.last_token - turn.sent) / turn.output_tokens();
}
std::optional<double> total_tokens(const TurnSample& turn) {
  return turn.has_usage() ? std::optional<double>(turn.prompt_tokens + turn.output_tokens()) : std::nullopt;
}

Intervals intervals_of(const LoadFigures& figures, std::initializer_list<std::pair<std::string_view, Headline>> all,
                       double factor = 1) {
  Intervals intervals;
  for (const auto& [name, which] : all) {
    std::optional<Interval> interval = figures.estimate(which).interval;
    if (interval) *interval = {.low = interval->low * factor, .high = interval->high * factor};
    intervals.emplace_back(name, interval);
  }
  return intervals;
}

void totals(JsonWriter& json, const LoadTotals& t) {
  json.begin_object().field("successful", t.succeeded).field("errored", t.failed).field("incomplete", t.abandoned);
  json.field("total", t.sent).end_object();
}

/// The tokens of an answer, spread evenly over its content chunks.
void add_output(const TurnSample& turn, std::vector<CountedEvent>& events) {
  if (turn.outcome != TurnOutcome::kSucceeded || !analysis::has_first_token(turn)) return;
  const double tokens = turn.output_tokens() / static_cast<double>(turn.gaps_ms.size() + 1);
  double after_first_ms = 0;
  events.emplace_back(turn.first_token, tokens);
  for (const float gap : turn.gaps_ms) {
    after_first_ms += static_cast<double>(gap);
    events.emplace_back(turn.first_token + from_milliseconds(after_first_ms), tokens);
  }
}

/// What happened within the window at a rate.
struct RateEvents {
  std::vector<CountedEvent> requests, prompt_tokens, output_tokens, tokens;
};

RateEvents rate_events(const results::LevelRecord& level, const LoadFigures& figures) {
  RateEvents events;
  for (const TurnSample& turn : level.turns) {
    if (turn.outcome == TurnOutcome::kSucceeded) {
      events.requests.emplace_back(turn.ended, 1);
      events.prompt_tokens.emplace_back(turn.ended, turn.prompt_tokens);
    }
    add_output(turn, events.output_tokens);
  }
  if (!figures.prompt_tokens_per_s) events.prompt_tokens.clear();  // of some prompts it is not known
  if (!figures.output_tokens_per_s) events.output_tokens.clear();
  if (figures.prompt_tokens_per_s && figures.output_tokens_per_s) {
    events.tokens = events.output_tokens;
    events.tokens.insert(events.tokens.end(), events.prompt_tokens.begin(), events.prompt_tokens.end());
  }
  return events;
}

void rates(JsonWriter& json, const results::LevelRecord& level, const LoadFigures& figures) {
  const WindowParts parts(level);
  const RateEvents events = rate_events(level, figures);
  const auto rate = [&](std::string_view key, const std::vector<CountedEvent>& of) {
    measure(json, key, of.empty() ? SampleList({}) : parts.rates(of));
  };
  rate("requests_per_second", events.requests);
  measure(json, "request_concurrency", parts.concurrency(level.turns));
  rate("prompt_tokens_per_second", events.prompt_tokens);
  rate("output_tokens_per_second", events.output_tokens);
  rate("tokens_per_second", events.tokens);
}

/// The content of a kind of media by its units: kvist has none of it.
void no_media(JsonWriter& json, std::string_view kind, std::initializer_list<std::string_view> units) {
  json.key(kind).begin_object();
  for (const std::string_view unit : units) json.key(unit).null();
  json.end_object();
}

std::optional<double> chunks_of(const TurnSample& turn) {
  return turn.chunks;
}
std::optional<double> tokens_per_chunk(const TurnSample& turn) {
  if (turn.chunks == 0) return std::nullopt;
  return static_cast<double>(turn.output_tokens()) / turn.chunks;
}
/// After the first chunk.
std::optional<double> later_tokens_per_chunk(const TurnSample& turn) {
  if (turn.chunks < 2 || turn.output_tokens() < 1) return std::nullopt;
  return static_cast<double>(turn.output_tokens() - 1) / (turn.chunks - 1);
}

void metrics(JsonWriter& json, const results::LevelRecord& level, const LoadFigures& figures, const Turns& turns) {
  json.key("metrics").begin_object().key("request_totals");
  totals(json, figures.totals);
  rates(json, level, figures);
  measure(json, "request_latency", samples_of(turns, latency_ms, 1e-3),
          intervals_of(figures, {{"p50", Headline::kLatencyP50}, {"p95", Headline::kLatencyP95}}, 1e-3));
  measure(json, "request_streaming_iterations_count", samples_of(turns, chunks_of));
  measure(json, "prompt_token_count", samples_of(turns, prompt_tokens));
  measure(json, "output_token_count", samples_of(turns, output_tokens));
  measure(json, "total_token_count", samples_of(turns, total_tokens));
  const Intervals ttft =
      intervals_of(figures, {{"p50", Headline::kTtftP50}, {"p95", Headline::kTtftP95}, {"p99", Headline::kTtftP99}});
  measure(json, "time_to_first_token_ms", samples_of(turns, ttft_ms), ttft);
  measure(json, "time_to_first_output_token_ms", samples_of(turns, ttft_ms), ttft);
  measure(json, "time_per_output_token_ms", samples_of(turns, time_per_output_token_ms));
  measure(json, "inter_token_latency_ms", samples_of(turns, tpot_ms),
          intervals_of(figures, {{"p50", Headline::kTpotP50}, {"p95", Headline::kTpotP95}}));
  // Of requests that go back and forth, which kvist does not send.
  measure(json, "time_to_last_round_trip_ms", SampleList({}));
  measure(json, "avg_round_trip_time_ms", SampleList({}));
  measure(json, "output_tokens_per_iteration", samples_of(turns, tokens_per_chunk));
  measure(json, "iter_tokens_per_iteration", samples_of(turns, later_tokens_per_chunk));
  no_media(json, "text", {"tokens", "words", "characters"});
  no_media(json, "image", {"tokens", "images", "pixels", "bytes"});
  no_media(json, "video", {"tokens", "frames", "seconds", "bytes"});
  no_media(json, "audio", {"tokens", "samples", "seconds", "bytes"});
  no_media(json, "tool_call", {"tokens", "mixed_tokens", "count"});
  json.end_object();
}

class RequestWriter {
 public:
  RequestWriter(JsonWriter& json, const LoadRun& run)
      : json_(json), run_(run), cached_tokens_(cached_tokens_of(run.level)) {}

  void write(std::string_view key, const Turns& turns) {
    json_.key(key).begin_array();
    for (const TurnSample* turn : turns) request(*turn);
    json_.end_array();
  }

 private:
  [[nodiscard]] std::optional<double> unix_s(TimePoint at) const {
    if (at == TimePoint{}) return std::nullopt;
    return run_.started_unix_s + to_seconds(at - run_.level.started);
  }
  [[nodiscard]] std::string id_of(const TurnSample& turn) const {
    return fmt::format("{}-{}-{}", run_.request_prefix, turn.conversation.value(), turn.turn);
  }

  void info(const TurnSample& turn) {
    const bool done = turn.outcome == TurnOutcome::kSucceeded;
    json_.key("info").begin_object().field("request_id", id_of(turn));
    json_.field("conversation_id", fmt::format("{}-{}", run_.level.seed, turn.conversation.value()));
    json_.field("turn_index", turn.turn);
    json_.field("status", done ? "completed" : turn.outcome == TurnOutcome::kFailed ? "errored" : "cancelled");
    json_.key("timings").begin_object();
    number_field(json_, "targeted_start", unix_s(turn.intended));
    number_field(json_, "resolve_start", unix_s(turn.handed == TimePoint{} ? turn.sent : turn.handed));
    number_field(json_, "request_start", unix_s(turn.sent));
    number_field(json_, "first_token_iteration", unix_s(turn.first_token));
    number_field(json_, "last_token_iteration", unix_s(turn.last_token));
    json_.field("token_iterations", turn.chunks);
    number_field(json_, "request_end", unix_s(turn.ended));
    number_field(json_, "resolve_end", unix_s(turn.ended));
    json_.end_object().key("error");
    if (turn.error.empty()) {
      json_.null();
    } else {
      json_.value(turn.error);
    }
    json_.end_object();
  }

  void request(const TurnSample& turn) {
    json_.begin_object().field("type_", "generative_request_stats").field("request_id", id_of(turn));
    info(turn);
    json_.key("input_metrics").begin_object();
    number_field(json_, "text_tokens", prompt_tokens(turn));
    number_field(json_, "cached_tokens", cached_tokens_(turn));
    json_.end_object().key("output_metrics").begin_object();
    number_field(json_, "text_tokens", output_tokens(turn));
    json_.end_object();
    number_field(json_, "request_start_time", unix_s(turn.sent));
    number_field(json_, "request_end_time", unix_s(turn.ended));
    const bool done = turn.outcome == TurnOutcome::kSucceeded;
    const auto if_done = [done](std::optional<double> value) { return done ? value : std::nullopt; };
    number_field(json_, "request_latency", if_done(turn.latency_ms() * 1e-3));
    number_field(json_, "prompt_tokens", prompt_tokens(turn));
    number_field(json_, "cached_tokens", cached_tokens_(turn));
    number_field(json_, "output_tokens", output_tokens(turn));
    number_field(json_, "total_tokens", total_tokens(turn));
    number_field(json_, "time_to_first_token_ms", if_done(ttft_ms(turn)));
    number_field(json_, "time_per_output_token_ms", if_done(time_per_output_token_ms(turn)));
    number_field(json_, "inter_token_latency_ms", if_done(tpot_ms(turn)));
    json_.end_object();
  }

  JsonWriter& json_;
  const LoadRun& run_;
  TurnValue cached_tokens_;
};

/// How GuideLLM calls the load; nothing where it has no such one (gamma, bursts, ramps).
std::optional<std::string_view> strategy(const LoadRun& run) {
  if (run.concurrency) return "concurrent";
  if (!run.rate_per_s) return "trace";
  if (!run.workload.arrivals.profile.empty()) return std::nullopt;
  if (run.workload.arrivals.kind == spec::ArrivalKind::kConstant) return "constant";
  if (run.workload.arrivals.kind == spec::ArrivalKind::kPoisson) return "poisson";
  return std::nullopt;
}

/// How GuideLLM would have been told to make the load; null where it has no such one.
void profile(JsonWriter& json, const LoadRun& run) {
  json.key("profile");
  const std::optional<std::string_view> kind = strategy(run);
  if (!kind) {
    json.null();
  } else if (run.concurrency) {
    json.begin_object()
        .field("kind", *kind)
        .key("streams")
        .begin_array()
        .value(*run.concurrency)
        .end_array()
        .end_object();
  } else if (run.rate_per_s) {
    json.begin_object().field("kind", *kind).key("rate").begin_array().value(*run.rate_per_s).end_array().end_object();
  } else {
    json.begin_object().field("kind", "throughput");
    json.field("max_concurrency", run.workload.arrivals.max_conversations).end_object();
  }
}

void backend(JsonWriter& json, const LoadRun& run) {
  json.key("backend").begin_object().field("kind", "openai_http").field("target", run.target);
  json.field("model", run.model);
  json.field("request_format", run.is_chat ? "/v1/chat/completions" : "/v1/completions");
  json.field("stream", true).end_object();
}

/// The whole command as GuideLLM would have had it: lengths are the means of what was sent.
void scenario(JsonWriter& json, const LoadRun& run, const Turns& turns) {
  const auto mean = [&](const TurnValue& value) {
    return std::max<std::int64_t>(1, std::llround(samples_of(turns, value).mean()));
  };
  json.key("config").begin_object().key("spec").begin_object();
  backend(json, run);
  profile(json, run);
  json.key("data").begin_array().begin_object().field("kind", "synthetic_text");
  json.field("prompt_tokens", mean(prompt_tokens)).field("output_tokens", mean(output_tokens));
  json.end_object().end_array().end_object().end_object();
}

void config(JsonWriter& json, const LoadRun& run) {
  json.key("config").begin_object().field("id_", run.request_prefix).field("run_id", run.request_prefix);
  json.field("run_index", 0).key("strategy").begin_object();
  json.key("type_");
  if (const std::optional<std::string_view> type = strategy(run)) {
    json.value(*type);
  } else {
    json.null();
  }
  if (run.concurrency) json.field("streams", *run.concurrency).field("max_concurrency", *run.concurrency);
  if (run.rate_per_s) json.field("rate", *run.rate_per_s);
  json.end_object().key("constraints").begin_object().end_object();
  profile(json, run);
  backend(json, run);
  json.key("requests").begin_object().end_object().key("environment").begin_object().end_object();
  json.end_object();
}

/// Seconds that GuideLLM's own processes take between a request's steps are 0: kvist has no such steps.
void scheduler(JsonWriter& json, const LoadRun& run, const LoadFigures& figures) {
  const results::LevelRecord& level = run.level;
  const auto unix_s = [&](TimePoint at) { return run.started_unix_s + to_seconds(at - level.started); };
  TimePoint first = level.measure_to;
  TimePoint last = level.measure_from;
  for (const TurnSample& turn : level.turns) {
    if (turn.sent != TimePoint{}) first = std::min(first, turn.sent);
    last = std::max(last, turn.ended);
  }
  json.key("scheduler_metrics").begin_object().field("start_time", run.started_unix_s);
  json.field("request_start_time", unix_s(first));
  json.field("measure_start_time", unix_s(level.measure_from)).field("measure_end_time", unix_s(level.measure_to));
  json.field("request_end_time", unix_s(last)).field("end_time", unix_s(last)).key("requests_made");
  totals(json, figures.totals);
  const double delay = figures.send_delay_ms.count > 0 ? figures.send_delay_ms.mean * 1e-3 : 0;
  const double took = samples_of(measured_turns(level), latency_ms, 1e-3).mean();
  json.field("queued_time_avg", delay).field("resolve_start_delay_avg", 0.0);
  json.field("resolve_targeted_start_delay_avg", delay).field("request_start_delay_avg", 0.0);
  json.field("request_targeted_start_delay_avg", delay).field("request_time_avg", took);
  json.field("resolve_end_delay_avg", 0.0).field("resolve_time_avg", took).field("finalized_delay_avg", 0.0);
  json.field("processed_delay_avg", 0.0).end_object();
  json.key("scheduler_state").begin_object().field("start_time", run.started_unix_s);
  json.field("end_time", unix_s(last)).end_object();
}

void benchmark(JsonWriter& json, const LoadRun& run, const LoadFigures& figures) {
  const results::LevelRecord& level = run.level;
  const double from = run.started_unix_s + to_seconds(level.measure_from - level.started);
  const double to = run.started_unix_s + to_seconds(level.measure_to - level.started);
  json.begin_object().field("type_", "generative_benchmark");
  config(json, run);
  scheduler(json, run, figures);
  metrics(json, level, figures, measured_turns(level));
  json.key("requests").begin_object();
  RequestWriter writer(json, run);
  writer.write("successful", turns_with(level, TurnOutcome::kSucceeded));
  writer.write("incomplete", turns_with(level, TurnOutcome::kAbandoned));
  writer.write("errored", turns_with(level, TurnOutcome::kFailed));
  json.key("total").null().end_object();
  json.field("start_time", from).field("end_time", to).field("duration", figures.window_s);
  json.field("warmup_duration", to_seconds(level.measure_from - level.started)).field("cooldown_duration", 0.0);
  json.end_object();
}

}  // namespace

std::string guidellm_json(const LoadRun& run, const LoadFigures& figures) {
  JsonWriter json;
  json.begin_object().key("metadata").begin_object().field("version", 2);
  json.field("guidellm_version", "kvist " + run.kvist_version)
      .field("python_version", "none")
      .field("platform", "none");
  json.end_object();
  scenario(json, run, measured_turns(run.level));
  json.key("benchmarks").begin_array();
  benchmark(json, run, figures);
  json.end_array().end_object();
  return json.take() + "\n";
}

}  // namespace kvist::report
