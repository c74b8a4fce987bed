// A capacity plan in the layout of the published plan: what to run, what to expect, what to change and what not.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kvist/analysis/mode_names.h"
#include "kvist/planning/capacity_report.h"
#include "kvist/planning/capacity_tables.h"
#include "kvist/planning/memory_report.h"
#include "kvist/render/document.h"
#include "kvist/render/figures.h"

namespace kvist::planning {
namespace {

using render::Bullets;
using render::Document;
using render::Heading;
using render::Paragraph;

void add_paragraph(Document& document, std::string text) {
  document.push_back(Paragraph{{{std::move(text)}}});
}

std::string modes_text(const CapacityPlan& plan, std::string_view between) {
  std::vector<std::string_view> names;
  for (const Capacity& capacity : plan.capacities) names.push_back(analysis::title_name(capacity.mode));
  std::ranges::reverse(names);  // as published, the baseline last
  return fmt::format("{}", fmt::join(names, between));
}

/// "40-60", or "40".
std::string range(std::uint32_t low, std::uint32_t high) {
  return low == high ? fmt::format("{}", low) : fmt::format("{}-{}", low, high);
}

void add_objective(Document& document, const CapacityPlan& plan) {
  document.push_back(Heading{2, "Objective"});
  std::string text = fmt::format("How many users the deployment \"{}\" serves within {}, with {}.", plan.sweep.name,
                                 slo_text(plan.slo), modes_text(plan, " and "));
  if (!plan.needed.empty()) text += fmt::format(" How many workers {} users need.", plan.needed.front().users);
  if (!plan.knobs.empty()) text += " What each setting is worth, changed alone.";
  add_paragraph(document, text + " " + method_text(plan));
}

/// Only if the plan says with how many workers.
void add_architecture(Document& document, const CapacityPlan& plan) {
  Bullets bullets;
  const std::size_t present = plan.sweep.deployment.workers.size();
  for (const WorkersNeeded& needed : plan.needed) {
    if (needed.unknown || needed.workers == 0) continue;
    bullets.items.push_back(
        {{fmt::format("{}: from {} workers to {} ({} GPUs) for {} users", analysis::long_name(needed.mode), present,
                      needed.workers, gpus_of(with_workers(plan.sweep, needed.workers).deployment), needed.users)}});
  }
  if (bullets.items.empty()) return;
  document.push_back(Heading{2, "Architecture Change"});
  document.push_back(std::move(bullets));
}

void add_measures(Document& document, const CapacityPlan& plan) {
  document.push_back(Heading{2, "What We're Measuring"});
  Bullets bullets;
  for (const Objective& objective : plan.slo) bullets.items.push_back({render::strong(to_string(objective))});
  document.push_back(std::move(bullets));
  if (std::ranges::any_of(plan.capacities, &Capacity::lacks_interval) ||
      std::ranges::any_of(plan.needed, &WorkersNeeded::lacks_interval))
    return;
  add_paragraph(document, fmt::format("Every decision with {:.0f} % confidence.", 100 * plan.confidence));
}

void add_levels(Document& document, const CapacityPlan& plan) {
  document.push_back(Heading{2, "Concurrency Levels"});
  const auto workers = static_cast<double>(std::max<std::size_t>(plan.sweep.deployment.workers.size(), 1));
  Bullets bullets;
  for (const std::uint32_t level : plan.sweep.levels) {
    std::string within;
    std::string beyond;
    for (const Capacity& capacity : plan.capacities) {
      if (capacity.unknown || level <= capacity.too_few) continue;
      std::string& list = level <= capacity.users ? within : beyond;
      list += fmt::format("{}{}", list.empty() ? "" : ", ", analysis::long_name(capacity.mode));
    }
    std::string text =
        fmt::format("{} ({} per worker)", level, render::format_plain(std::round(10 * level / workers) / 10));
    if (!within.empty()) text += ": within the limits with " + within;
    if (!beyond.empty()) text += (within.empty() ? ": beyond them with " : "; beyond them with ") + beyond;
    bullets.items.push_back({{std::move(text)}});
  }
  document.push_back(std::move(bullets));
}

std::vector<std::string> worker_facts(const spec::WorkerSpec& worker) {
  std::vector<std::string> facts;
  if (worker.profile) {
    facts.push_back(fmt::format("{}x {} per worker, TP={}", worker.profile->tensor_parallel, worker.profile->gpu,
                                worker.profile->tensor_parallel));
    facts.push_back(fmt::format("{} on {}", worker.profile->model, worker.profile->engine));
  }
  facts.push_back(fmt::format("max_batch_size: {}", worker.max_batch_size));
  facts.push_back(fmt::format("max_num_tokens: {}", worker.max_num_tokens));
  facts.push_back(fmt::format("max sequence length: {} tokens", render::format_count(worker.max_model_len)));
  facts.push_back(worker.speculation.enabled ? fmt::format("speculation: {}, {} tokens", worker.speculation.drafter,
                                                           worker.speculation.draft_tokens)
                                             : std::string("speculation: off"));
  return facts;
}

void add_deployment(Document& document, const CapacityPlan& plan) {
  document.push_back(Heading{2, "Deployment Details"});
  const spec::SweepSpec& sweep = plan.sweep;
  if (sweep.target.is_given()) {
    document.push_back(Bullets{{{{"a running target, model " + sweep.target.model}}}});
    return;
  }
  Bullets bullets;
  std::vector<std::vector<std::string>> kinds;  // of workers, each once
  for (const spec::WorkerSpec& worker : sweep.deployment.workers) {
    std::vector<std::string> facts = worker_facts(worker);
    if (std::ranges::find(kinds, facts) == kinds.end()) kinds.push_back(std::move(facts));
  }
  bullets.items.push_back({{fmt::format("{} workers, {} GPUs, {} batch slots", sweep.deployment.workers.size(),
                                        gpus_of(sweep.deployment), batch_slots_of(sweep.deployment))}});
  for (const std::vector<std::string>& facts : kinds) {
    for (const std::string& fact : facts) bullets.items.push_back({{fact}});
  }
  const spec::WorkloadSpec& w = sweep.workload;
  if (w.trace.file.empty()) {
    bullets.items.push_back({{fmt::format("chats of {} turns, prompts from {} tokens, answers of at most {} tokens",
                                          range(w.turns_min, w.turns_max),
                                          range(w.starter_tokens_min, w.starter_tokens_max), w.max_tokens)}});
  }
  document.push_back(std::move(bullets));
}

/// Of each kind of GPU, as the profile has it; nothing without profiles.
void add_memory(Document& document, const CapacityPlan& plan) {
  std::vector<std::string> told;
  for (const spec::WorkerSpec& worker : plan.sweep.deployment.workers) {
    if (!worker.profile) continue;
    const auto report = make_memory_report(worker);
    if (!report) continue;
    std::string text = report->title + "\n";
    for (std::size_t i = 0; i < report->profiled.size(); ++i) {
      const BudgetLine& line = report->profiled[i];
      constexpr int kLabel = 44;
      if (i + 1 == report->profiled.size()) text += std::string(kLabel + 11, '-') + "\n";
      text += fmt::format("{:<{}} {:>7.1f} GB\n", line.label + ":", kLabel, line.bytes / kGb);
    }
    if (std::ranges::find(told, text) == told.end()) told.push_back(std::move(text));
  }
  if (told.empty()) return;
  document.push_back(Heading{3, "Memory Budget Per GPU (for reference)"});
  for (std::string& text : told) document.push_back(render::CodeBlock{"", std::move(text)});
}

void add_changes(Document& document, const CapacityPlan& plan) {
  document.push_back(Heading{2, "What Needs to Change"});
  Bullets bullets;
  if (plan.capacities.size() > 1) {
    const auto best = std::ranges::max_element(
        plan.capacities, {}, [](const Capacity& capacity) { return capacity.unknown ? 0 : capacity.users; });
    if (!best->unknown) {
      bullets.items.push_back({render::strong("Routing:"),
                               {fmt::format(" {}, with the most users within the limits ({})",
                                            analysis::long_name(best->mode), best->users)}});
    }
  }
  for (const WorkersNeeded& needed : plan.needed) {
    if (needed.unknown || needed.workers == plan.sweep.deployment.workers.size()) continue;
    bullets.items.push_back(
        {render::strong(fmt::format("Workers with {}:", analysis::long_name(needed.mode))),
         {needed.workers == 0 ? std::string(" no number is enough") : fmt::format(" {}", needed.workers)}});
  }
  for (const KnobTable& knobs : plan.knobs) {
    for (const KnobGain& gain : knobs.gains) {
      // Only what is a gain by its whole interval.
      if (!gain.capacity || gain.users_low <= 0 || lacks_interval(knobs, gain)) continue;
      bullets.items.push_back({render::strong(fmt::format("{}:", gain.knob)),
                               {fmt::format(" {} in place of {}: {:+.0f} users (interval: {})", gain.to, gain.from,
                                            gain.users, gain_interval_text(knobs, gain))}});
    }
  }
  if (bullets.items.empty()) {
    add_paragraph(document, plan.knobs.empty() && plan.needed.empty()
                                ? "Nothing was asked: --users gives the workers for a number of users, --knobs what "
                                  "each setting is worth."
                                : "Nothing that is a gain by its whole interval.");
    return;
  }
  document.push_back(std::move(bullets));
}

void add_constants(Document& document, const CapacityPlan& plan) {
  document.push_back(Heading{2, "What NOT to Change"});
  Bullets bullets;
  const spec::WorkloadSpec& w = plan.sweep.workload;
  bullets.items.push_back(
      {{w.trace.file.empty()
            ? fmt::format("Prompts from {} tokens, {} turns, answers of at most {} tokens: the figures hold for these",
                          range(w.starter_tokens_min, w.starter_tokens_max), range(w.turns_min, w.turns_max),
                          w.max_tokens)
            : std::string("The trace: the figures hold for its requests")}});
  bullets.items.push_back(
      {{plan.knobs.empty() ? "Every setting of the deployment: no change of one was tried"
                           : "Every other setting of the deployment: each change was tried alone"}});
  document.push_back(std::move(bullets));
}

void add_monitoring(Document& document, const CapacityPlan& plan) {
  document.push_back(Heading{2, "Things to Monitor"});
  Bullets bullets;
  for (const Capacity& capacity : plan.capacities) {
    if (!capacity.limited_by) continue;
    bullets.items.push_back({render::strong(std::string(analysis::headline(capacity.limited_by->figure).title)),
                             {fmt::format(": with {} it is the first to reach its limit, above {} users",
                                          analysis::long_name(capacity.mode), capacity.users)}});
  }
  for (std::string& remark : remarks_of(plan)) bullets.items.push_back({{std::move(remark)}});
  bullets.items.push_back({render::strong("Errors"), {": a level with failed requests is not within the limits"}});
  document.push_back(std::move(bullets));
}

/// The figures of the levels that were looked at, mode by mode.
render::Table outcome_table(const Capacity& capacity) {
  constexpr std::array kShown = {Headline::kTtftP50, Headline::kTtftP95,    Headline::kTpotP50,
                                 Headline::kTpotP95, Headline::kThroughput, Headline::kHitRatePct};
  render::Table table{.columns = {{"Users"}}, .rows = {}};
  for (const Headline which : kShown) table.columns.push_back({title_with_unit(which)});
  for (const Judgement& level : capacity.levels) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(fmt::format("{}", level.users));
    for (const Headline which : kShown) {
      const std::optional<double> mean = level.mean(which);
      row.push_back(mean ? render::format_fixed(*mean * analysis::headline(which).factor, *mean < 100 ? 1 : 0)
                         : std::string(render::kMissing));
    }
  }
  return table;
}

void add_outcome(Document& document, const CapacityPlan& plan) {
  document.push_back(Heading{2, "Expected Outcome"});
  document.push_back(capacity_table(plan));
  if (!plan.needed.empty()) {
    document.push_back(workers_table(plan));
    for (std::string& remark : worker_remarks_of(plan)) add_paragraph(document, std::move(remark));
  }
  for (const Capacity& capacity : plan.capacities) {
    document.push_back(Heading{3, std::string(analysis::long_name(capacity.mode))});
    document.push_back(outcome_table(capacity));
  }
  for (const KnobTable& knobs : plan.knobs) {
    document.push_back(Heading{3, knobs_title(knobs)});
    document.push_back(knob_table(knobs));
  }
}

}  // namespace

std::string plan_markdown(const CapacityPlan& plan) {
  Document document;
  document.push_back(Heading{1, "Benchmark Sweep: " + modes_text(plan, " vs ")});
  add_objective(document, plan);
  add_architecture(document, plan);
  add_measures(document, plan);
  add_levels(document, plan);
  add_deployment(document, plan);
  add_memory(document, plan);
  add_changes(document, plan);
  add_constants(document, plan);
  add_monitoring(document, plan);
  add_outcome(document, plan);
  return render::markdown_of(document);
}

}  // namespace kvist::planning
