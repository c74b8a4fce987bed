#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/report/sections.h"

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

/// What decides when conversations start, and in an open loop the meaning of the levels.
render::Text arrivals_item(const spec::WorkloadSpec& workload) {
  const spec::ArrivalSpec& arrivals = workload.arrivals;
  if (!arrivals.is_open())
    return item("Arrivals:", workload.target_rps == 0 ? "closed; the next conversation starts when one ends"
                                                      : fmt::format("closed; at most {} conversation starts per second",
                                                                    render::format_plain(workload.target_rps)));
  return item("Arrivals:",
              fmt::format("open, {}; levels are conversation starts per minute, not conversations at once (at most {})",
                          law_text(arrivals), arrivals.max_conversations));
}

/// "3-5", or "5" where both ends are the same.
std::string range(std::uint32_t low, std::uint32_t high) {
  return low == high ? fmt::format("{}", low) : fmt::format("{}-{}", low, high);
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

std::string workload_detail(const spec::WorkloadSpec& w) {
  return fmt::format(
      "{} first messages of {}-{} tokens, later ones of {}-{} tokens, answers of at most {} tokens; replies "
      "stay "
      "in the history; seed {} (the same conversations in every mode, different ones at every level)",
      groups_text(w) + (w.starters == 0 ? std::string("unshared") : fmt::format("{} shared", w.starters)),
      w.starter_tokens_min, w.starter_tokens_max, w.follow_up_tokens_min, w.follow_up_tokens_max, w.max_tokens, w.seed);
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
      item("Workload:", fmt::format("Multi-turn chat ({} turns per conversation)",
                                    range(sweep.workload.turns_min, sweep.workload.turns_max))),
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
    return fmt::format(
        "{} + {} per prefill token + {} per sequence + {}ns per KV token read",
        render::format_duration(w.step_time.fixed), render::format_duration(w.step_time.per_prefill_token),
        render::format_duration(w.step_time.per_sequence), render::format_plain(w.step_time.per_kv_token_ns));
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
