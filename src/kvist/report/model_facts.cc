#include "kvist/report/model_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvist::report {
namespace {

bool same_model(const spec::WorkerSpec& a, const spec::WorkerSpec& b) {
  return a.profile == b.profile && a.speculation == b.speculation && a.step_time == b.step_time;
}

perfmodel::ProfileDescription plain_formula(const spec::StepTimeSpec& step) {
  const auto ms = [](Duration d) { return to_milliseconds(d); };
  perfmodel::ProfileDescription formula{.title = "plain step-time formula of the deployment file (no GPU profile)",
                                        .costs = {{"fixed", ms(step.fixed), "ms", "every step"},
                                                  {"prefill", ms(step.per_prefill_token), "ms", "per prefill token"},
                                                  {"sequence", ms(step.per_sequence), "ms", "per running sequence"},
                                                  {"KV read", step.per_kv_token_ns * 1e-6, "ms", "per KV token read"}},
                                        .coefficients = {},
                                        .extrapolation = {}};
  if (step.per_prefill_pair_ns > 0)
    formula.costs.push_back(
        {"attention", step.per_prefill_pair_ns * 1e-6, "ms", "per pair of prefill token and context"});
  return formula;
}

perfmodel::ProfileDescription described(const spec::WorkerSpec& worker) {
  if (!worker.profile) return plain_formula(worker.step_time);
  Result<perfmodel::ProfileDescription> description = perfmodel::describe(worker);
  if (description) return *std::move(description);
  return {.title = "the profile cannot be read any more: " + description.error().message,
          .costs = {},
          .coefficients = {},
          .extrapolation = {}};
}

}  // namespace

std::vector<ModelFacts> model_facts(const spec::SweepSpec& sweep) {
  std::vector<ModelFacts> all;
  std::vector<const spec::WorkerSpec*> representatives;
  for (const spec::WorkerSpec& worker : sweep.deployment.workers) {
    const auto known = std::ranges::find_if(representatives,
                                            [&](const spec::WorkerSpec* other) { return same_model(*other, worker); });
    if (known == representatives.end()) {
      representatives.push_back(&worker);
      all.push_back({.workers = {worker.name}, .profile = described(worker)});
    } else {
      all[static_cast<std::size_t>(known - representatives.begin())].workers.push_back(worker.name);
    }
  }
  return all;
}

std::string origin_counts(const perfmodel::ProfileDescription& profile) {
  std::vector<std::pair<perfmodel::OriginKind, std::size_t>> counts;
  for (const perfmodel::Coefficient& coefficient : profile.coefficients) {
    const auto known =
        std::ranges::find(counts, coefficient.origin.kind, &std::pair<perfmodel::OriginKind, std::size_t>::first);
    if (known == counts.end()) {
      counts.emplace_back(coefficient.origin.kind, 1);
    } else {
      ++known->second;
    }
  }
  std::ranges::stable_sort(counts, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [kind, n] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, perfmodel::to_string(kind));
  }
  return text;
}

}  // namespace kvist::report
