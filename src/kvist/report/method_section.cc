#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/report/sections.h"
#include "kvist/spec/count_law.h"

namespace kvist::report {
namespace {

render::Text item(std::string label, std::string text) {
  return {render::strong(std::move(label)), {" " + std::move(text)}};
}

render::Text modes_item(const analysis::RunAnalysis& analysis) {
  const std::vector<spec::Arm>& modes = analysis.modes();
  if (modes.empty()) return item("Routing modes:", std::string(render::kMissing));
  if (modes.size() == 1) return item("Routing mode:", std::string(analysis::single_mode_name(modes.front())));
  std::string text = fmt::format("{} (baseline)", analysis::long_name(modes.front()));
  for (std::size_t i = 1; i < modes.size(); ++i) {
    text += modes.size() == 2 ? " vs " : ", ";
    text += analysis::long_name(modes[i]);
  }
  return item("Routing modes:", std::move(text));
}

std::string levels_text(const analysis::RunAnalysis& analysis) {
  const std::vector<std::uint32_t>& measured = analysis.concurrencies();
  std::string text = fmt::format("{}", fmt::join(measured, ", "));
  std::vector<std::uint32_t> missing;
  for (const std::uint32_t level : analysis.sweep().levels) {
    if (!std::binary_search(measured.begin(), measured.end(), level)) missing.push_back(level);
  }
  if (!missing.empty()) text += fmt::format(" (planned but not measured: {})", fmt::join(missing, ", "));
  return text;
}

/// "2" or, where workers differ, "1, 2".
template <class Value>
std::string distinct(const std::vector<spec::WorkerSpec>& workers, Value value) {
  std::vector<std::string> texts;
  for (const spec::WorkerSpec& worker : workers) {
    std::string text = value(worker);
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
  }
  return texts.empty() ? std::string(render::kMissing) : fmt::format("{}", fmt::join(texts, ", "));
}

std::string time_scales(const analysis::RunAnalysis& analysis) {
  return distinct(analysis.sweep().deployment.workers,
                  [](const spec::WorkerSpec& worker) { return render::format_plain(worker.time_scale); });
}

Duration scaled(Duration duration, double scale) {
  return from_seconds(to_seconds(duration) * scale);
}

render::Text time_scale_item(const analysis::RunAnalysis& analysis) {
  const spec::MethodSpec& method = analysis.sweep().method;
  if (analysis.run().simulated) return item("Time:", "virtual; engines at the speed of their model");
  if (analysis.sweep().deployment.workers.empty()) {
    return item("Time:", "wall-clock as measured, the target's engines at their own speed");
  }
  const std::optional<double> scale = analysis.time_scale();
  if (!scale) {
    return item("Time scale:", time_scales(analysis) +
                                   ". The workers' engines ran at different speeds; all figures are wall-clock as "
                                   "measured.");
  }
  if (*scale == 1.0) return item("Time scale:", "1 (engines at the speed of their model); wall-clock as measured");
  return item(
      "Time scale:",
      fmt::format("{0}. The workers' engines ran {0} times faster than their model of time says; all figures are "
                  "wall-clock as measured, tables headed \"model time\" are measured times x {0}. Warm-up, snapshot "
                  "interval and window are {1}, {2} and {3} of model time. Network, gateway and client do not run "
                  "faster, so in model time they weigh {0} times as much as they do.",
                  render::format_plain(*scale), render::format_duration(scaled(method.warmup, *scale)),
                  render::format_duration(scaled(method.snapshot_interval, *scale)),
                  render::format_duration(scaled(method.window, *scale))));
}

std::string law_text(const spec::ArrivalSpec& arrivals) {
  std::string text;
  switch (arrivals.kind) {
    case spec::ArrivalKind::kConstant:
      text = "equal gaps";
      break;
    case spec::ArrivalKind::kBursty:
      text = fmt::format("gamma-distributed gaps with a coefficient of variation of {}",
                         render::format_plain(arrivals.variation));
      break;
    case spec::ArrivalKind::kBursts:
      text = fmt::format("bursts of {} at exponential gaps", arrivals.burst_size);
      break;
    case spec::ArrivalKind::kPoisson:
    case spec::ArrivalKind::kClosed:
      text = "Poisson";
      break;
  }
  for (const spec::ArrivalPoint& point : arrivals.profile) {
    text += fmt::format(", {} x at {}", render::format_plain(point.share), render::format_duration(point.at));
  }
  return text;
}

/// ", 2 times as fast"; empty at the recorded speed.
std::string speed_text(const spec::TraceSpec& trace) {
  return trace.speed == 1 ? std::string() : fmt::format(", {} times as fast", render::format_plain(trace.speed));
}

/// When the requests of a trace went out, and the meaning of the levels.
std::string replay_arrivals(const spec::TraceSpec& trace) {
  if (trace.loop == spec::TraceLoop::kOpen) {
    return fmt::format("open loop: requests at their recorded instants{}; a level's number means nothing",
                       speed_text(trace));
  }
  return "closed loop: requests in their recorded order, as many at once as the level says";
}

/// "480", or "470-480" where levels sent different numbers.
std::string requests_per_level(const analysis::RunAnalysis& analysis) {
  std::size_t least = 0;
  std::size_t most = 0;
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    for (const analysis::Measurement& repetition : level.repetitions) {
      const analysis::TurnCounts& turns = repetition.analysis.all_turns;
      const std::size_t sent = turns.succeeded + turns.failed + turns.abandoned;
      least = most == 0 ? sent : std::min(least, sent);
      most = std::max(most, sent);
    }
  }
  return least == most ? fmt::format("{}", most) : fmt::format("{}-{}", least, most);
}

std::string replay_text(const analysis::RunAnalysis& analysis) {
  const spec::TraceSpec& trace = analysis.sweep().workload.trace;
  const std::filesystem::path file(trace.file);
  std::string text = "Replay of " + file.filename().string();
  if (file.extension() == ".sqlite") {
    text += trace.run == 0 ? fmt::format(", its last run, level {}", trace.level)
                           : fmt::format(", run {}, level {}", trace.run, trace.level);
  }
  text += fmt::format(": {} requests sent per level", requests_per_level(analysis));
  return text + (trace.sessions == spec::TraceSessions::kFollow ? "; those that followed an answer wait for it again"
                                                                : "; those that followed an answer do not wait for it");
}

std::string replay_detail(const spec::WorkloadSpec& w) {
  if (std::filesystem::path(w.trace.file).extension() == ".sqlite") return "those of the recorded run, with its seed";
  const std::string tokens = w.trace.tokens_per_hash == 0 ? std::string("as the file says, else 512")
                                                          : fmt::format("{}", w.trace.tokens_per_hash);
  return fmt::format(
      "made up in the recorded lengths; prompts share what their hash ids share (tokens per id: {}); seed {}", tokens,
      w.seed);
}

/// What decides when conversations start, and in an open loop the meaning of the levels.
render::Text arrivals_item(const spec::WorkloadSpec& workload) {
  if (!workload.trace.file.empty()) return item("Arrivals:", replay_arrivals(workload.trace));
  const spec::ArrivalSpec& arrivals = workload.arrivals;
  if (!arrivals.is_open())
    return item("Arrivals:", workload.target_rps == 0 ? "closed; the next conversation starts when one ends"
                                                      : fmt::format("closed; at most {} conversation starts per second",
                                                                    render::format_plain(workload.target_rps)));
  return item("Arrivals:",
              fmt::format("open, {}; levels are conversation starts per minute, not conversations at once (at most {})",
                          law_text(arrivals), arrivals.max_conversations));
}

/// What conversations of a group have in common; empty without groups.
std::string groups_text(const spec::WorkloadSpec& w) {
  if (w.prefix_groups == 0) return {};
  return fmt::format("{} groups of conversations (skew {}) that begin with the same {} tokens, then ", w.prefix_groups,
                     render::format_plain(w.prefix_skew), w.prefix_tokens);
}

std::string comparison_text(const spec::ComparisonSpec& comparison) {
  std::string text;
  switch (comparison.order) {
    case spec::ArmOrder::kAsListed:
      text = "one after the other, each with all its levels and repetitions";
      break;
    case spec::ArmOrder::kAbba:
      text = "all level by level, every second repetition in the opposite order (ABBA)";
      break;
    case spec::ArmOrder::kRandom:
      text = "all level by level, in an order drawn for each";
      break;
  }
  switch (comparison.caches) {
    case spec::CacheProof::kRestart:
      text += "; caches empty: new processes";
      break;
    case spec::CacheProof::kReset:
      text += "; caches emptied before each measurement, the gateway's index found empty";
      break;
    case spec::CacheProof::kNonce:
      text += "; each measurement's conversations begin with a text of its own, so that nothing cached before fits";
      break;
    case spec::CacheProof::kNone:
      text += "; caches as they were: what they saved is held against what they could have had";
      break;
  }
  if (comparison.replies == spec::ArmReplies::kFrozen) text += "; histories have seeded texts in place of the answers";
  if (comparison.stop_when) {
    text += fmt::format("; repeated until the 95 % interval of the gain in {} is within +-{} {}",
                        comparison.stop_when->metric, render::format_plain(comparison.stop_when->half_width),
                        comparison.stop_when->metric == "kv_hit_rate_pct" ? "points" : "%");
  }
  return text;
}

/// "at most 1024", or the law of the limits.
std::string answers_text(const spec::WorkloadSpec& w) {
  const spec::BoundedCount limits = w.answer_tokens();
  return limits.low == limits.high ? fmt::format("answers of at most {} tokens", limits.high)
                                   : fmt::format("answers limited to {} tokens", spec::text_of(limits));
}

std::string workload_detail(const spec::WorkloadSpec& w) {
  if (!w.trace.file.empty()) return replay_detail(w);
  const std::string later = w.follow_ups.empty() ? fmt::format("of {} tokens", spec::text_of(w.follow_up_tokens()))
                                                 : fmt::format("drawn from {} given texts", w.follow_ups.size());
  return fmt::format(
      "{} first messages of {} tokens, later ones {}, {}; {}; seed {} (the same conversations in every "
      "mode, different ones at every level)",
      groups_text(w) + (w.starters == 0 ? std::string("unshared") : fmt::format("{} shared", w.starters)),
      spec::text_of(w.starter_tokens()), later, answers_text(w),
      w.replies == spec::Replies::kLive ? "replies stay in the history"
                                        : "seeded texts stand in the history in place of the replies",
      w.seed);
}

}  // namespace

void add_method(render::Document& document, const analysis::RunAnalysis& analysis) {
  const spec::SweepSpec& sweep = analysis.sweep();
  const spec::MethodSpec& method = sweep.method;
  const results::RunRecord& run = analysis.run();
  const Duration measured = method.snapshot_interval * method.snapshots;
  render::Bullets bullets;
  bullets.items = {
      modes_item(analysis),
      item("Concurrency levels:", levels_text(analysis)),
      arrivals_item(sweep.workload),
      item("Warmup:", fmt::format("{} per level", render::format_duration(method.warmup))),
      item("Measurement:",
           fmt::format("{} per level: every turn sent within it counts; {} snapshots @ {} for the published method",
                       render::format_duration(measured), method.snapshots,
                       render::format_duration(method.snapshot_interval))),
      item("Workload:", sweep.workload.trace.file.empty() ? fmt::format("Multi-turn chat ({} turns per conversation)",
                                                                        spec::text_of(sweep.workload.turns()))
                                                          : replay_text(analysis)),
      {render::strong("Metric source:"),
       {" "},
       render::code("loadgen_ttft_all_seconds"),
       {fmt::format(" Prometheus Summary ({} window, client-side TTFT) for the published method",
                    render::format_duration(method.window))}},
      time_scale_item(analysis),
      item("Texts:", workload_detail(sweep.workload)),
      item("Errors:", fmt::format("failed / (failed + succeeded) of the turns sent within the measuring window; a "
                                  "request is given up after {}; levels above {} are marked as excluded",
                                  render::format_duration(sweep.workload.request_timeout),
                                  render::format_pct(method.max_error_pct))),
      item("Comparison:", comparison_text(sweep.comparison)),
      item("KV hit rate:", "cached / prompt tokens over all successful turns of a level, warm-up and drain included"),
      item("Run:", fmt::format("{} with kvist {}, {}", run.name, run.kvist_version,
                               run.simulated ? "simulated in virtual time"
                                             : "live: processes, sockets and clocks are "
                                               "real")),
  };
  if (method.between_levels == spec::BetweenLevels::kContinue) {
    bullets.items.push_back(
        item("Between levels:",
             "the load goes on: after a level's last snapshot conversations are added to those that "
             "run; a turn belongs to the level in which it was sent, the workers' counters of a "
             "level reach from one last snapshot to the next"));
  }
  document.push_back(render::Heading{2, "Test Methodology"});
  document.push_back(std::move(bullets));
}

void add_deployment(render::Document& document, const analysis::RunAnalysis& analysis) {
  if (analysis.sweep().target.is_given()) return add_target(document, analysis);
  const spec::DeploymentSpec& deployment = analysis.sweep().deployment;
  const std::vector<spec::WorkerSpec>& workers = deployment.workers;
  render::Table table;
  table.columns = {{"Parameter", render::Align::kLeft}, {"Value", render::Align::kLeft}};
  const auto per_worker = [&](const char* name, auto value) { table.rows.push_back({name, distinct(workers, value)}); };
  using spec::WorkerSpec;
  per_worker("Model", [](const WorkerSpec& w) { return w.model; });
  per_worker("GPU", [](const WorkerSpec& w) {
    return w.profile ? fmt::format("none: modelled as {}x {}", w.profile->tensor_parallel, w.profile->gpu)
                     : std::string("none: step times from a model of a GPU");
  });
  per_worker("Modelled model and engine", [](const WorkerSpec& w) {
    return w.profile ? fmt::format("{} on {}", w.profile->model, w.profile->engine) : std::string(render::kMissing);
  });
  table.rows.push_back({"Workers", fmt::format("{}x TP={}", workers.size(), distinct(workers, [](const WorkerSpec& w) {
                                                 return fmt::format("{}", w.profile ? w.profile->tensor_parallel : 1);
                                               }))});
  table.rows.push_back({"Backend", "kvist worker, timed engine"});
  table.rows.push_back({"Frontend", "kvist gateway"});
  per_worker("Max batch size", [](const WorkerSpec& w) { return fmt::format("{}", w.max_batch_size); });
  per_worker("Max tokens per step", [](const WorkerSpec& w) { return fmt::format("{}", w.max_num_tokens); });
  per_worker("Max sequence length", [](const WorkerSpec& w) { return fmt::format("{}", w.max_model_len); });
  per_worker("KV cache per worker",
             [](const WorkerSpec& w) { return fmt::format("{} blocks of {} tokens", w.kv_blocks, w.block_size); });
  table.rows.push_back({"Chunked prefill", "Enabled"});
  per_worker("Step time", [](const WorkerSpec& w) {
    if (w.profile) return std::string("GPU profile");
    std::string terms = fmt::format(
        "{} + {} per prefill token + {} per sequence + {}ns per KV token read",
        render::format_duration(w.step_time.fixed), render::format_duration(w.step_time.per_prefill_token),
        render::format_duration(w.step_time.per_sequence), render::format_plain(w.step_time.per_kv_token_ns));
    if (w.step_time.per_prefill_pair_ns > 0)
      terms += fmt::format(" + {}ns per prefill pair", render::format_plain(w.step_time.per_prefill_pair_ns));
    return terms;
  });
  per_worker("Speculative decoding", [](const WorkerSpec& w) {
    if (!w.speculation.enabled) return std::string("off");
    std::vector<std::string> acceptance;
    for (const double p : w.speculation.acceptance) acceptance.push_back(render::format_plain(p));
    return fmt::format("{}, {}{} tokens, acceptance {}", w.speculation.drafter,
                       w.speculation.draft_length == spec::DraftLength::kAdaptive ? "up to " : "",
                       w.speculation.draft_tokens, fmt::join(acceptance, ", "));
  });
  per_worker("Answer length", [](const WorkerSpec& w) {
    return fmt::format("mean {} tokens, standard deviation {}", render::format_plain(w.output_length.mean_tokens),
                       render::format_plain(w.output_length.standard_deviation_tokens));
  });
  table.rows.push_back({"Time scale", time_scales(analysis)});
  for (const auto& [key, value] : analysis.run().machine) table.rows.push_back({"Machine: " + key, value});
  document.push_back(render::Heading{2, "Deployment Details"});
  document.push_back(std::move(table));
}

}  // namespace kvist::report
