#include "kvist/planning/memory_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kvist/perfmodel/profile.h"

namespace kvist::planning {
namespace {

/// Figures of a profile by their names in its description ("model.layers").
class Facts {
 public:
  explicit Facts(const std::vector<perfmodel::Coefficient>& all) : all_(&all) {}

  [[nodiscard]] double operator[](std::string_view name) const {
    const auto found = std::ranges::find(*all_, name, &perfmodel::Coefficient::name);
    return found == all_->end() ? 0 : found->value;
  }
  /// Keys and values of one token in all layers, all GPUs together.
  [[nodiscard]] double kv_bytes_per_token(const std::string& part, spec::KvDtype dtype) const {
    const double bytes = dtype == spec::KvDtype::kFp8 ? 1 : 2;
    return 2 * (*this)[part + ".layers"] * (*this)[part + ".kv_heads"] * (*this)[part + ".head_dimension"] * bytes;
  }

 private:
  const std::vector<perfmodel::Coefficient>* all_;
};

std::vector<BudgetLine> planned_budget(const spec::WorkerSpec& worker, const Facts& facts, const MemoryReport& report) {
  const double gpus = worker.profile->tensor_parallel;
  const double memory = facts["gpu.nominal_memory"];
  const double fraction = report.plan.fraction;
  std::vector<BudgetLine> lines = {
      {fmt::format("Usable HBM ({:.0f} GB x {:.2f})", memory / kGb, fraction), memory * fraction},
      {fmt::format("Weights ({:.0f} GB / {:.0f})", facts["model.nominal_weights"] / kGb, gpus),
       -facts["model.nominal_weights"] / gpus}};
  if (worker.speculation.enabled) {
    lines.push_back({fmt::format("Drafter weights ({:.0f} GB / {:.0f})", facts["drafter.nominal_weights"] / kGb, gpus),
                     -facts["drafter.nominal_weights"] / gpus});
  }
  lines.push_back({"CUDA context + activations", -report.question.context_and_activation_bytes});
  double left = 0;
  for (const BudgetLine& line : lines) left += line.bytes;
  lines.push_back({"Available for KV cache", left});
  return lines;
}

std::vector<BudgetLine> profiled_budget(const spec::WorkerSpec& worker, const perfmodel::MemoryPlan& p) {
  const bool of_total = p.meaning == spec::MemoryMeaning::kOfTotal;
  std::vector<BudgetLine> lines;
  if (of_total) {
    lines.push_back({fmt::format("Usable memory ({:.1f} GB x {:.2f})", p.total_bytes / kGb, p.fraction),
                     p.total_bytes * p.fraction});
  } else {
    lines.push_back({"GPU memory, as CUDA reports it", p.total_bytes});
  }
  lines.push_back({"Weights", -p.weight_bytes});
  if (p.drafter_weight_bytes > 0) lines.push_back({"Drafter weights", -p.drafter_weight_bytes});
  lines.push_back({"CUDA context, graphs, workspaces", -p.context_bytes});
  lines.push_back({fmt::format("Activations of a step of {} tokens", worker.max_num_tokens), -p.activation_bytes});
  if (!of_total)
    lines.push_back(
        {fmt::format("Left free ({:.2f} of the rest)", 1 - p.fraction), -p.kv_bytes / p.fraction * (1 - p.fraction)});
  lines.push_back({"Available for KV cache", p.kv_bytes});
  return lines;
}

/// Lengths that a planner may have assumed.
std::vector<SequenceLength> lengths_of(const spec::WorkerSpec& worker, const MemoryQuestion& q) {
  const std::uint64_t prompt = q.prompt_tokens;
  const std::uint64_t turn = std::uint64_t{q.mean_output_tokens} + q.follow_up_tokens;
  return {{"prompt", prompt},
          {"prompt and mean answer", prompt + q.mean_output_tokens},
          {"prompt and longest answer", prompt + q.max_output_tokens},
          {fmt::format("average over a chat of {} turns", q.turns),
           prompt + turn * (q.turns - 1) / 2 + q.mean_output_tokens / 2},
          {fmt::format("end of a chat of {} turns", q.turns), prompt + turn * (q.turns - 1) + q.mean_output_tokens},
          {"max_model_len", worker.max_model_len}};
}

/// Every way to count a token's KV bytes, with the lengths that give the claimed number.
std::vector<SequenceAssumption> assumptions_of(const spec::WorkerSpec& worker, const Facts& facts,
                                               const MemoryReport& report) {
  const double gpus = worker.profile->tensor_parallel;
  const double claimed = report.question.claimed_sequences;
  std::vector<SequenceAssumption> all;
  for (const spec::KvDtype dtype : {spec::KvDtype::kFp8, spec::KvDtype::kFp16}) {
    for (const bool counts_drafter : {true, false}) {
      for (const bool is_split : {true, false}) {
        if (counts_drafter && !worker.speculation.enabled) continue;
        if (!is_split && worker.profile->tensor_parallel == 1) continue;
        double bytes = facts.kv_bytes_per_token("model", dtype);
        if (counts_drafter) bytes += facts.kv_bytes_per_token("drafter", dtype);
        if (is_split) bytes /= gpus;
        SequenceAssumption a{.dtype = dtype,
                             .counts_drafter = counts_drafter,
                             .is_split = is_split,
                             .bytes_per_token = bytes,
                             .least_tokens = report.planned_kv_bytes / ((claimed + 1) * bytes),
                             .most_tokens = report.planned_kv_bytes / (claimed * bytes)};
        for (const SequenceLength& length : report.lengths) {
          const auto tokens = static_cast<double>(length.tokens);
          if (tokens > a.least_tokens && tokens <= a.most_tokens) a.lengths.push_back(length.label);
        }
        all.push_back(std::move(a));
      }
    }
  }
  return all;
}

Result<std::vector<FractionRow>> fraction_rows(const spec::WorkerSpec& worker) {
  std::vector<FractionRow> rows;
  constexpr int kPerOne = 20;  // steps of 0.05
  for (int steps = kPerOne - 1; steps >= kPerOne / 2; --steps) {
    spec::WorkerSpec other = worker;
    other.profile->memory_fraction = static_cast<double>(steps) / kPerOne;
    KVIST_TRY(const perfmodel::MemoryPlan p, perfmodel::make_memory_plan(other));
    rows.push_back({.fraction = p.fraction,
                    .kv_bytes = p.kv_bytes,
                    .kv_tokens = p.kv_tokens(),
                    .activation_room_bytes = p.total_bytes - (p.peak_bytes() - p.activation_peak_bytes),
                    .fits = p.fits()});
  }
  return rows;
}

}  // namespace

Result<MemoryReport> make_memory_report(const spec::WorkerSpec& worker, const MemoryQuestion& question) {
  if (!worker.profile) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("worker {} has no profile: `profile: {{gpu: h100, model: llama-3.1-70b-fp8, engine: trtllm, "
                    "tensor_parallel: 2}}` says whose memory is meant",
                    worker.name));
  }
  if (question.claimed_sequences == 0 || question.turns == 0) {
    return fail(ErrorCode::kInvalidArgument, "a plan is for at least one sequence and one turn");
  }
  KVIST_TRY(const perfmodel::ProfileDescription description, perfmodel::describe(worker));
  const Facts facts(description.coefficients);
  MemoryReport report;
  report.title = description.title;
  report.question = question;
  KVIST_TRY(report.plan, perfmodel::make_memory_plan(worker));
  report.planned = planned_budget(worker, facts, report);
  report.planned_kv_bytes = std::max(0.0, report.planned.back().bytes);
  report.profiled = profiled_budget(worker, report.plan);
  report.lengths = lengths_of(worker, question);
  const double planned_per_token = report.plan.kv_bytes_per_token + report.plan.drafter_kv_bytes_per_token;
  for (SequenceLength& length : report.lengths) {
    const double bytes = planned_per_token * static_cast<double>(length.tokens);
    length.planned = static_cast<std::uint64_t>(std::floor(report.planned_kv_bytes / bytes));
    length.profiled = report.plan.sequences(length.tokens);
  }
  report.assumptions = assumptions_of(worker, facts, report);
  KVIST_TRY(report.fractions, fraction_rows(worker));
  if (auto fits = perfmodel::check_memory(worker, report.plan); !fits) {
    report.out_of_memory = fits.error().message;
    KVIST_TRY(report.fraction_that_fits, perfmodel::smaller_fraction_that_fits(worker, report.plan));
  }
  for (const perfmodel::Coefficient& c : description.coefficients) {
    const bool is_weight = c.name == "model.weights" || c.name == "drafter.weights";
    const bool is_engine = c.name.starts_with("memory.") && c.unit != "switch";
    if (c.name == "gpu.memory" || is_weight || is_engine) report.sources.push_back(c);
  }
  return report;
}

}  // namespace kvist::planning
