#include "kvist/perfmodel/profile.h"

#include <fmt/format.h>

#include "kvist/perfmodel/coefficient_table.h"
#include "kvist/perfmodel/gpu_combination.h"
#include "kvist/perfmodel/gpu_step_time.h"

namespace kvist::perfmodel {
namespace {

constexpr double kNsPerUs = 1e3;

void add_facts(std::string_view part, const std::vector<Fact>& facts, std::vector<Coefficient>& out) {
  for (const Fact& fact : facts) {
    out.push_back({.name = fmt::format("{}.{}", part, fact.name),
                   .value = fact.value,
                   .unit = fact.unit,
                   .meaning = fact.meaning,
                   .origin = fact.origin,
                   .low = fact.value,
                   .high = fact.value});
  }
}

std::vector<DerivedCost> costs_of(const GpuCombination& c) {
  const StepCosts costs = StepCosts::of(c);
  std::vector<DerivedCost> out = {
      {"weight read", costs.weight_read / kNsPerMs, "ms per step", "weights / GPUs / (bandwidth x efficiency)"},
      {"matrix products", costs.row / kNsPerUs, "us per row", "2 x parameters / GPUs / (FP8 peak x efficiency)"},
      {"KV read", costs.kv_token, "ns per token of context", "KV bytes per token / GPUs / (bandwidth x efficiency)"},
      {"attention of prefill", costs.pair, "ns per token and token of its context",
       "4 x layers x heads x head dimension / GPUs / (BF16 peak x efficiency)"},
      {"launch", costs.launch / kNsPerMs, "ms per step", "launch.fixed"}};
  if (c.tensor_parallel > 1) {
    out.push_back({"all-reduce", costs.all_reduce_step / kNsPerMs, "ms per step", "2 x layers x latency"});
    out.push_back({"all-reduce", costs.all_reduce_row / kNsPerUs, "us per row",
                   "2 x layers x 2 bytes x hidden size x 2 (GPUs - 1) / GPUs / (link x efficiency)"});
  }
  if (c.drafter != nullptr) {
    out.push_back({"draft pass", (costs.draft_pass + costs.draft_weight_read) / kNsPerMs, "ms per pass",
                   "drafting.pass_fixed + its launches + its weight read"});
  }
  return out;
}

Extrapolation extrapolation_of(const GpuCombination& c) {
  Extrapolation result;
  const FittedOn& where = c.engine.fitted_on();
  const auto add = [&](std::string text) { result.reasons.push_back(std::move(text)); };
  if (c.gpu->name != where.gpu) {
    add(fmt::format("{} was fitted on {}, not on {}", c.engine.name(), where.gpu, c.gpu->name));
  }
  if (c.model->name != where.model) {
    add(fmt::format("{} was fitted with {}, not with {}", c.engine.name(), where.model, c.model->name));
  }
  if (c.tensor_parallel != where.tensor_parallel) {
    add(fmt::format("{} was fitted with tensor parallel {}, not {}", c.engine.name(), where.tensor_parallel,
                    c.tensor_parallel));
  }
  for (const Coefficient& coefficient : c.engine.all()) {
    if (coefficient.origin.kind != OriginKind::kAssumed && coefficient.origin.kind != OriginKind::kExtrapolated)
      continue;
    const std::string_view name = coefficient.name;
    const bool is_used = (!name.starts_with("drafting.") || c.drafter != nullptr) &&
                         (!name.starts_with("all_reduce.") || c.tensor_parallel > 1) && !name.starts_with("memory.");
    if (is_used && coefficient.value != 0 && c.is_on(name.substr(0, name.find('.')))) {
      add(fmt::format("{} is {}: {}", name, to_string(coefficient.origin.kind), coefficient.origin.text));
    }
  }
  return result;
}

}  // namespace

std::vector<ProfilePart> list_profiles() {
  std::vector<ProfilePart> parts;
  for (const auto& [name, gpu] : library().gpus()) parts.push_back({"gpu", name, gpu.title});
  for (const auto& [name, model] : library().models()) parts.push_back({"model", name, model.title});
  for (const auto& [name, engine] : library().engines()) parts.push_back({"engine", name, engine.title()});
  return parts;
}

Result<ProfileDescription> describe(const spec::WorkerSpec& worker) {
  KVIST_TRY(const GpuCombination c, GpuCombination::of(worker));
  ProfileDescription d;
  d.title = c.tensor_parallel > 1
                ? fmt::format("{} on {} x {}, {}", c.model->title, c.tensor_parallel, c.gpu->title, c.engine.title())
                : fmt::format("{} on {}, {}", c.model->title, c.gpu->title, c.engine.title());
  d.costs = costs_of(c);
  add_facts("gpu", c.gpu->facts, d.coefficients);
  add_facts("model", c.model->facts, d.coefficients);
  if (c.drafter != nullptr) add_facts("drafter", c.drafter->facts, d.coefficients);
  d.coefficients.insert(d.coefficients.end(), c.engine.all().begin(), c.engine.all().end());
  d.extrapolation = extrapolation_of(c);
  return d;
}

Result<ProfileDescription> describe(const spec::ProfileSpec& profile) {
  spec::WorkerSpec worker;
  worker.profile = profile;
  return describe(worker);
}

Result<Extrapolation> extrapolation(const spec::WorkerSpec& worker) {
  if (!worker.profile) return Extrapolation{};
  KVIST_TRY(const GpuCombination c, GpuCombination::of(worker));
  return extrapolation_of(c);
}

}  // namespace kvist::perfmodel
