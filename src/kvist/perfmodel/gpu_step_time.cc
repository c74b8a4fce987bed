#include "kvist/perfmodel/gpu_step_time.h"

#include <algorithm>
#include <cmath>

#include "kvist/base/random.h"
#include "kvist/perfmodel/coefficient_table.h"

namespace kvist::perfmodel {
namespace {

constexpr double kFlopPerMultiplyAdd = 2;
constexpr double kBf16Bytes = 2;
constexpr double kAllReducesPerLayer = 2;  // after attention and after the feed-forward part
constexpr std::uint64_t kTableRows = 640;  // a batch of 128 with 4 drafts each; more rows take two powers

/// The share of a ring: every byte crosses a link 2 (t - 1) / t times.
double ring_share(double gpus) {
  return 2 * (gpus - 1) / gpus;
}

/// (a^n + b^n)^(1/n), without powers of large numbers.
double smooth_maximum(double a, double b, double n) {
  const double most = std::max(a, b);
  if (most <= 0) return 0;
  return most * std::pow(1 + std::pow(std::min(a, b) / most, n), 1 / n);
}

void add_roofline(const GpuCombination& c, StepCosts& costs) {
  const GpuFacts& gpu = *c.gpu;
  const ModelFacts& model = *c.model;
  const double gpus = c.tensor_parallel;
  if (c.is_on("weight_read")) costs.weight_read = c.weight_peak_ns(model) / c.value("weight_read.efficiency");
  if (c.is_on("matrix_products")) {
    const double flops = gpu.fp8_flops * c.value("matrix_products.efficiency");
    costs.row = kFlopPerMultiplyAdd * model.parameters / gpus / flops * kNsPerSecond;
    if (c.drafter != nullptr) {
      costs.draft_row = kFlopPerMultiplyAdd * c.drafter->parameters / gpus / flops * kNsPerSecond;
    }
  }
  costs.exponent = c.value("matrix_products.exponent", 1);
  costs.first_tile = c.value("matrix_products.first_tile");
  costs.tile = c.value("matrix_products.tile");
  if (c.is_on("kv_read")) {
    const double bytes_per_ns = gpu.bandwidth * c.value("kv_read.efficiency") / kNsPerSecond;
    costs.kv_token = model.kv_bytes_per_token(c.kv_dtype) / gpus / bytes_per_ns;
    if (c.drafter != nullptr) costs.draft_kv_token = c.drafter->kv_bytes_per_token(c.kv_dtype) / gpus / bytes_per_ns;
  }
  if (c.is_on("attention")) {
    // Scores and weighted values: two products of head_dimension multiply-adds per head and layer.
    const double work = 2 * kFlopPerMultiplyAdd * model.layers * model.attention_heads * model.head_dimension;
    costs.pair = work / gpus / (gpu.bf16_flops * c.value("attention.efficiency")) * kNsPerSecond;
  }
  if (gpus > 1 && c.is_on("all_reduce")) {
    const double count = kAllReducesPerLayer * model.layers;
    const double bytes_per_ns = gpu.link_bandwidth * c.value("all_reduce.efficiency") / kNsPerSecond;
    costs.all_reduce_step = count * c.time_ns("all_reduce.latency");
    costs.all_reduce_row = count * model.hidden_size * kBf16Bytes * ring_share(gpus) / bytes_per_ns;
  }
}

void add_drafting(const GpuCombination& c, StepCosts& costs) {
  if (c.drafter == nullptr || !c.is_on("drafting")) return;
  const Coefficient* launch = c.engine.find("launch.fixed");
  const bool by_layers = launch != nullptr && launch->scales_with == ScalesWith::kLayers;
  const double share = by_layers ? c.drafter->layers / c.model->layers : 1;
  costs.draft_pass = c.time_ns("drafting.pass_fixed") + c.time_ns("launch.fixed") * share;
  if (c.tensor_parallel > 1)
    costs.draft_pass += kAllReducesPerLayer * c.drafter->layers * c.time_ns("all_reduce.latency");
  if (c.is_on("weight_read")) {
    costs.draft_weight_read = c.weight_peak_ns(*c.drafter) / c.value("weight_read.efficiency");
  }
  costs.verify_attention = c.value("drafting.verify_attention", 1);
}

}  // namespace

StepCosts StepCosts::of(const GpuCombination& c) {
  StepCosts costs;
  add_roofline(c, costs);
  add_drafting(c, costs);
  costs.launch = c.time_ns("launch.fixed");
  costs.sequence = c.time_ns("launch.per_sequence");
  if (c.is_on("tiles")) {
    for (const Coefficient& coefficient : c.engine.all()) {
      if (!coefficient.name.starts_with("tiles.above_")) continue;
      const auto rows = tile_rows(std::string_view(coefficient.name).substr(std::string_view("tiles.").size()));
      costs.tiles.emplace_back(rows.value(), c.time_ns(coefficient.name));
    }
  }
  costs.has_graphs = c.is_on("graphs");
  costs.pads = c.value("graphs.padding") != 0;
  costs.eager_extra = c.time_ns("graphs.eager_extra");
  costs.floor = c.time_ns("host_floor.fixed");
  costs.floor_sequence = c.time_ns("host_floor.per_sequence");
  costs.prefill_floor = c.time_ns("host_floor.prefill_fixed");
  costs.prefill_floor_sequence = c.time_ns("host_floor.prefill_per_sequence");
  costs.intake = c.time_ns("intake.fixed");
  costs.intake_sequence = c.time_ns("intake.per_sequence");
  costs.intake_steps = c.value("intake.steps");
  costs.intake_prompt_token = c.time_ns("intake.per_prompt_token");
  costs.intake_jitter = c.time_ns("intake.jitter");
  return costs;
}

GpuStepTime::GpuStepTime(const GpuCombination& combination) : costs_(StepCosts::of(combination)) {
  rows_table_.reserve(kTableRows);
  for (std::uint64_t rows = 0; rows < kTableRows; ++rows) rows_table_.push_back(compute_rows_ns(rows));
  const std::vector<std::uint32_t>& sizes = combination.engine.graph_sizes();
  if (!costs_.has_graphs || sizes.empty()) return;
  graph_table_.assign(sizes.back() + 1, 0);
  std::uint32_t next = 0;
  for (std::size_t batch = graph_table_.size(); batch-- > 1;) {
    if (std::ranges::binary_search(sizes, batch)) next = static_cast<std::uint32_t>(batch);
    const bool is_captured = next == batch;
    if (is_captured || costs_.pads) graph_table_[batch] = next;
  }
}

// Kernels compute complete tiles: the first size, its doubles below the tile, then multiples of the tile.
double GpuStepTime::rows_computed(double rows) const {
  if (costs_.tile <= 0 || rows <= 0) return rows;
  if (costs_.first_tile > 0) {
    for (double size = costs_.first_tile; size < costs_.tile; size *= 2) {
      if (rows <= size) return size;
    }
  }
  return std::ceil(rows / costs_.tile) * costs_.tile;
}

double GpuStepTime::compute_rows_ns(std::uint64_t rows) const {
  const double computed = rows_computed(static_cast<double>(rows));
  double ns = smooth_maximum(costs_.weight_read, costs_.row * computed, costs_.exponent);
  double extra = 0;
  for (const auto& [above, more] : costs_.tiles) {
    if (rows > above) extra = more;
  }
  ns += extra + costs_.all_reduce_step + costs_.all_reduce_row * static_cast<double>(rows);
  return ns;
}

double GpuStepTime::rows_ns(std::uint64_t rows) const {
  return rows < rows_table_.size() ? rows_table_[rows] : compute_rows_ns(rows);
}

std::uint64_t GpuStepTime::graph_size(std::uint64_t batch) const {
  return batch < graph_table_.size() ? graph_table_[batch] : 0;
}

double GpuStepTime::drafting_ns(const StepLoad& load) const {
  double ns = costs_.draft_row * static_cast<double>(load.prefill_tokens);  // the drafter computes the prompt too
  if (load.draft_passes == 0) return ns;
  const double pass =
      costs_.draft_pass +
      std::max(costs_.draft_weight_read, costs_.draft_row * static_cast<double>(load.decode_sequences)) +
      costs_.draft_kv_token * static_cast<double>(load.decode_kv_tokens);
  return ns + pass * load.draft_passes;
}

double GpuStepTime::floor_ns(const StepLoad& load) const {
  const auto sequences = static_cast<double>(load.decode_sequences);
  const bool has_own = load.prefill_tokens > 0 && costs_.prefill_floor > 0;
  return has_own ? costs_.prefill_floor + costs_.prefill_floor_sequence * sequences
                 : costs_.floor + costs_.floor_sequence * sequences;
}

Duration GpuStepTime::step_time(const StepLoad& load) const {
  if (load.sequences == 0) return Duration::zero();
  std::uint64_t rows = load.rows();
  bool has_graph = true;
  if (costs_.has_graphs) {
    const std::uint64_t size = load.prefill_tokens == 0 ? graph_size(load.decode_sequences) : 0;
    has_graph = size > 0;
    // A padded batch computes the rows of its padded size.
    if (has_graph && size != load.decode_sequences) rows = rows * size / load.decode_sequences;
  }
  const double kv_read = costs_.kv_token * static_cast<double>(load.decode_kv_tokens) *
                         (load.draft_tokens > 0 ? costs_.verify_attention : 1);
  // The attention of prefill is bound by arithmetic, so its reads are hidden by the computation of its pairs.
  double ns = costs_.launch + rows_ns(rows) + kv_read + costs_.pair * static_cast<double>(load.prefill_pairs) +
              costs_.sequence * static_cast<double>(load.sequences) + drafting_ns(load);
  if (!has_graph) ns = std::max(ns + costs_.eager_extra, floor_ns(load));
  return Duration(std::max<std::int64_t>(1, std::llround(ns)));
}

Duration GpuStepTime::intake_delay(const IntakeLoad& load) const {
  double ns = costs_.intake + costs_.intake_sequence * load.running +
              costs_.intake_steps * static_cast<double>(load.last_decode_step.count()) +
              costs_.intake_prompt_token * static_cast<double>(load.prompt_tokens);
  if (costs_.intake_jitter > 0) {
    ns += RandomStream(mix_seed({load.seed, seed_part("intake")})).exponential(costs_.intake_jitter);
  }
  return Duration(std::llround(ns));
}

}  // namespace kvist::perfmodel
