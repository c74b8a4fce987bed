#include "kvist/report/load_output.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "kvist/base/json_writer.h"
#include "kvist/base/output_file.h"
#include "kvist/report/arrival_text.h"
#include "kvist/report/client_json.h"
#include "kvist/report/load_agents.h"
#include "kvist/report/load_exports.h"

namespace kvist::report {
namespace {

using workload::TurnOutcome;
using workload::TurnSample;

constexpr std::array kFormats = {std::pair{std::string_view("vllm"), ExportFormat::kVllm},
                                 std::pair{std::string_view("aiperf"), ExportFormat::kAiperf},
                                 std::pair{std::string_view("guidellm"), ExportFormat::kGuidellm},
                                 std::pair{std::string_view("inference-perf"), ExportFormat::kInferencePerf}};

template <class T>
void number_or_null(JsonWriter& json, std::string_view key, bool known, T value) {
  json.key(key);
  if (known) {
    json.value(value);
  } else {
    json.null();
  }
}

std::string_view outcome_text(TurnOutcome outcome) {
  return outcome == TurnOutcome::kSucceeded ? "succeeded" : outcome == TurnOutcome::kFailed ? "failed" : "abandoned";
}

void totals(JsonWriter& json, const LoadTotals& t, const char* without_usage) {
  json.key("requests").begin_object().field("sent", t.sent).field("succeeded", t.succeeded).field("failed", t.failed);
  json.field("abandoned", t.abandoned).field("without_usage", t.without_usage).end_object();
  const bool usage = t.without_usage == 0;
  json.key("tokens").begin_object();
  number_or_null(json, "prompt", usage, t.prompt_tokens);
  number_or_null(json, "cached", t.knows_cached(), t.cached_tokens);
  json.field("output", t.output_tokens).field("output_counted_by", usage ? "usage" : without_usage).end_object();
}

void headline(JsonWriter& json, const LoadFigures& figures) {
  json.key("figures").begin_object();
  for (const analysis::HeadlineFigure& figure : analysis::headline_figures()) {
    const analysis::Estimate estimate = analysis::estimate_of(figures.level, figure);
    json.key(figure.key).begin_object();
    json.rounded_field("value", estimate.value);
    json.rounded_field("low", estimate.interval ? std::optional(estimate.interval->low) : std::nullopt);
    json.rounded_field("high", estimate.interval ? std::optional(estimate.interval->high) : std::nullopt);
    json.end_object();
  }
  json.end_object();
}

void distribution(JsonWriter& json, std::string_view key, const Distribution& d) {
  json.key(key).begin_object().field("count", d.count);
  const std::pair<std::string_view, double Distribution::*> parts[] = {
      {"mean", &Distribution::mean}, {"standard_deviation", &Distribution::standard_deviation},
      {"min", &Distribution::min},   {"p50", &Distribution::p50},
      {"p90", &Distribution::p90},   {"p95", &Distribution::p95},
      {"p99", &Distribution::p99},   {"max", &Distribution::max}};
  for (const auto& [name, part] : parts) json.rounded_field(name, d.count > 0 ? std::optional(d.*part) : std::nullopt);
  json.end_object();
}

void arrivals(JsonWriter& json, const LoadFigures& figures) {
  if (!figures.arrivals) return;
  const analysis::ArrivalTest& test = *figures.arrivals;
  json.key("arrivals").begin_object().field("law", law_name(test.kind)).field("arrivals", test.arrivals);
  json.rounded_field("ordered_per_s", test.ordered_per_s);
  json.rounded_field("scheduled_per_s", test.scheduled_per_s);
  json.rounded_field("sent_per_s", test.sent_per_s);
  json.rounded_field("gap_variation", test.gap_variation);
  json.rounded_field("expected_gap_variation", test.expected_gap_variation);
  json.rounded_field("dispersion", test.dispersion);
  json.rounded_field("expected_dispersion", test.expected_dispersion);
  json.rounded_field("ks_distance", test.ks_distance);
  json.rounded_field("ks_probability", test.ks_probability);
  json.rounded_field("gap_tolerance_ms", test.gap_tolerance_ms);
  json.rounded_field("latest_ms", test.latest_ms);
  json.field("overdue", test.overdue).field("refused", test.refused);
  json.field("held_back", test.held_back.total()).field("never_sent", test.held_back.not_sent);
  json.rounded_field("share_in_time", test.share_in_time());
  json.field("as_ordered", test.as_ordered()).end_object();
}

void numbers(JsonWriter& json, std::string_view key, const std::vector<float>& values) {
  json.key(key).begin_array();
  for (const float value : values) json.value(std::round(static_cast<double>(value) * 1e4) / 1e4);
  json.end_array();
}

/// Of each chunk how long before its read it had come; the second list only where that is not sure.
void ages(JsonWriter& json, const TurnSample& turn) {
  if (turn.late_ms.empty()) return;
  numbers(json, "late_ms", turn.late_ms);
  if (!turn.unsure_ms.empty()) numbers(json, "unsure_ms", turn.unsure_ms);
}

/// What of the load is not in its workload.
void content(JsonWriter& json, const LoadRun& run) {
  if (!run.dataset_sha256.empty()) json.field("dataset_sha256", run.dataset_sha256);
  if (!run.tokenizer_sha256.empty()) json.field("tokenizer_sha256", run.tokenizer_sha256);
  if (!run.prompt_ids.empty()) json.field("prompt_ids", run.prompt_ids);
  if (!run.think_time.is_none()) {
    json.key("think_time_s").begin_object();
    json.rounded_field("least", to_seconds(run.think_time.least));
    json.rounded_field("most", to_seconds(run.think_time.most));
    if (run.think_time.frees_place) json.field("frees_place", true);
    json.end_object();
  }
  if (!run.mix) return;
  json.key("mix").begin_array();
  for (const workload::WorkloadPart& part : *run.mix) {
    json.begin_object().field("file", part.name).field("sha256", part.sha256).field("weight", part.weight);
    if (part.scripts) {
      json.field("conversations", part.scripts->size());
    } else {
      json.field("workload", spec::to_yaml(part.spec));
    }
    json.end_object();
  }
  json.end_array();
}

/// How each of several threads of the client kept up.
void loops(JsonWriter& json, const LoadRun& run) {
  if (run.loops.empty()) return;
  json.key("client_loops").begin_array();
  for (const LoadLoop& loop : run.loops) {
    json.begin_object();
    json.rounded_field("loop_delay_p99_ms", loop.delay_p99_ms);
    json.rounded_field("loop_delay_max_ms", loop.delay_max_ms);
    json.field("loop_stalls", loop.stalls);
    json.rounded_field("loop_stalled_ms", loop.stalled_ms);
    json.rounded_field("run_queue_share", loop.run_queue_share);
    json.end_object();
  }
  json.end_array();
}

/// What was changed while the load ran.
void changes(JsonWriter& json, const LoadRun& run) {
  if (run.changes.empty()) return;
  json.key("changes").begin_array();
  for (const workload::AppliedChange& applied : run.changes) {
    json.begin_object();
    json.rounded_field("at_s", to_seconds(applied.at - run.level.started));
    const workload::LoadChange& change = applied.change;
    if (change.concurrency) json.field("concurrency", *change.concurrency);
    if (change.max_start_rate) json.field("max_start_rate", *change.max_start_rate);
    if (change.rate) json.field("rate_per_s", *change.rate);
    if (change.max_in_flight) json.field("max_in_flight", *change.max_in_flight);
    json.end_object();
  }
  json.end_array();
}

/// A path that is no regular file (a pipe) is written in place, and stays.
void remove_earlier(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) std::filesystem::remove(path, error);
}

}  // namespace

Result<std::vector<ExportFormat>> parse_formats(const std::string& text) {
  std::vector<ExportFormat> formats;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const std::size_t before = formats.size();
    for (const auto& [name, format] : kFormats) {
      if (word == "all" || word == name) formats.push_back(format);
    }
    if (formats.size() == before) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("export format \"{}\"; there are vllm, aiperf, guidellm, inference-perf and all", word));
    }
  }
  return formats;
}

std::string load_summary_json(const LoadRun& run, const LoadFigures& figures) {
  JsonWriter json(2);
  json.begin_object().field("format", 2).field("kvist_version", run.kvist_version).field("started", run.started_utc);
  json.field("target", run.target).field("model", run.model).field("dataset", run.dataset);
  json.field("command", run.command).field("seed", run.level.seed);
  number_or_null(json, "concurrency", run.concurrency.has_value(), run.concurrency.value_or(0));
  json.rounded_field("rate_per_s", run.rate_per_s);
  json.key("workload").value(spec::to_yaml(run.workload));
  content(json, run);
  changes(json, run);
  json.rounded_field("warmup_s", to_seconds(run.level.measure_from - run.level.started), 1e3);
  json.rounded_field("window_s", figures.window_s, 1e3);
  totals(json, figures.totals, run.tokenizer_sha256.empty() ? "chunks" : "tokenizer");
  json.rounded_field("completed_per_s", figures.completed_per_s);
  json.rounded_field("prompt_tokens_per_s", figures.prompt_tokens_per_s);
  headline(json, figures);
  const analysis::ExactFigures& exact = figures.exact();
  json.key("distributions").begin_object();
  distribution(json, "ttft_ms", exact.ttft_ms);
  distribution(json, "tpot_ms", exact.tpot_ms);
  distribution(json, "itl_ms", exact.itl_ms);
  distribution(json, "request_mean_itl_ms", exact.itl_request_mean_ms);
  distribution(json, "latency_ms", exact.latency_ms);
  distribution(json, "ttft_from_schedule_ms", exact.ttft_from_schedule_ms);
  distribution(json, "latency_from_schedule_ms", exact.latency_from_schedule_ms);
  distribution(json, "send_delay_ms", figures.send_delay_ms);
  json.end_object();
  arrivals(json, figures);
  write_client(json, run.level.client, figures.level.analysis.client);
  loops(json, run);
  write_agents(json, run.level.agents, figures.exact());
  json.key("remarks").begin_array();
  for (const std::string& remark : run.level.remarks) json.value(remark);
  json.end_array().end_object();
  return json.take() + "\n";
}

std::string request_line(const LoadRun& run, const TurnSample& turn, bool reports_cached) {
  JsonWriter json;
  const auto instant = [&](std::string_view key, TimePoint at) {
    json.rounded_field(key, at == TimePoint{} ? std::nullopt : std::optional(to_seconds(at - run.level.started)), 1e9);
  };
  json.begin_object().field("conversation", turn.conversation.value()).field("turn", turn.turn);
  if (turn.session) json.field("session", turn.session->value());
  json.field("outcome", outcome_text(turn.outcome));
  if (!turn.error.empty()) json.field("error", turn.error);
  if (!turn.worker.empty()) json.field("worker", turn.worker);
  const bool measured = analysis::counts_for_percentiles(run.level, turn);
  json.field("measured", measured);
  instant("intended_s", turn.intended);
  instant("sent_s", turn.sent);
  instant("first_token_s", turn.first_token);
  instant("last_token_s", turn.last_token);
  instant("ended_s", turn.ended);
  number_or_null(json, "prompt_tokens", turn.has_usage(), turn.prompt_tokens);
  number_or_null(json, "cached_tokens", reports_cached && turn.has_usage(), turn.cached_tokens);
  number_or_null(json, "completion_tokens", turn.has_usage(), turn.completion_tokens);
  json.field("chunks", turn.chunks);
  numbers(json, "gaps_ms", turn.gaps_ms);
  ages(json, turn);
  json.end_object();
  return json.take() + "\n";
}

Result<std::vector<std::string>> write_load_files(const LoadRun& run, const LoadFigures& figures,
                                                  const std::filesystem::path& folder,
                                                  const std::vector<ExportFormat>& formats) {
  std::vector<std::string> paths;
  // Those of an earlier run would look like this one's. The summary comes last: where it is, the others are.
  for (const std::string& name : exported_names()) remove_earlier(folder / name);
  remove_earlier(folder / "summary.json");
  OutputFile requests(folder / "requests.jsonl");
  const bool cached = reports_cached(run.level);
  for (const TurnSample& turn : run.level.turns) requests.append(request_line(run, turn, cached));
  KVIST_TRY(paths.emplace_back(), requests.finish());
  for (const ExportFormat format : formats) {
    for (const auto& [name, text] : exported_files(format, run, figures)) {
      KVIST_TRY(paths.emplace_back(), write_file(folder / name, text));
    }
  }
  KVIST_TRY(const std::string summary, write_file(folder / "summary.json", load_summary_json(run, figures)));
  paths.insert(paths.begin(), summary);
  return paths;
}

}  // namespace kvist::report
