#include "kvist/perfmodel/coefficient_table.h"

#include <array>
#include <charconv>

namespace kvist::perfmodel {
namespace {

constexpr double kMaxMs = 10'000;

constexpr std::array kWeightRead = {
    CoefficientKind{"efficiency", "1", "share of the peak bandwidth at which a step reads the weights", 0.1, 1.2}};
constexpr std::array kKvRead = {
    CoefficientKind{"efficiency", "1", "share of the peak bandwidth at which decoding reads the KV cache", 0.05, 1.2}};
constexpr std::array kMatrixProducts = {
    CoefficientKind{"efficiency", "1", "share of the FP8 peak that matrix products of many rows reach", 0.05, 1.2},
    CoefficientKind{"exponent", "1", "of the smooth maximum of reading the weights and multiplying: (a^n + b^n)^(1/n)",
                    1, 64},
    CoefficientKind{"first_tile", "rows",
                    "fewest rows that a matrix product computes; then its doubles, up to the tile", 0, 4'096, 0.0},
    CoefficientKind{"tile", "rows", "from there on rows are computed in multiples of this; 0: rows as they are", 0,
                    4'096, 0.0}};
constexpr std::array kAttention = {
    CoefficientKind{"efficiency", "1", "share of the BF16 peak that the attention of prefill reaches", 0.05, 2}};
constexpr std::array kAllReduce = {
    CoefficientKind{"efficiency", "1", "share of the link bandwidth that all-reduces reach", 0.05, 1.2},
    CoefficientKind{"latency", "ms", "of one all-reduce, two per layer", 0, 10}};
constexpr std::array kLaunch = {
    CoefficientKind{"fixed", "ms", "of every step: launches, sampling, scheduling", 0, kMaxMs},
    CoefficientKind{"per_sequence", "ms", "of every step, for each sequence in it", 0, kMaxMs, 0.0}};
constexpr std::array kGraphs = {
    CoefficientKind{"padding", kSwitchUnit, "a batch runs as the next captured size", 0, 1},
    CoefficientKind{"eager_extra", "ms", "more GPU time of a step without a graph", 0, kMaxMs, 0.0}};
constexpr std::array kHostFloor = {
    CoefficientKind{"fixed", "ms", "least time of a decode step without a graph: the host launches every kernel", 0,
                    kMaxMs},
    CoefficientKind{"per_sequence", "ms", "the same, for each decoding sequence", 0, kMaxMs, 0.0},
    CoefficientKind{"prefill_fixed", "ms", "least time of a step with a prefill; 0: as without", 0, kMaxMs, 0.0},
    CoefficientKind{"prefill_per_sequence", "ms", "the same, for each decoding sequence", 0, kMaxMs, 0.0}};
constexpr std::array kDrafting = {
    CoefficientKind{"pass_fixed", "ms", "of each draft pass, beside what the drafter reads and computes", 0, kMaxMs},
    CoefficientKind{"verify_attention", "1", "factor on the KV read of a step that verifies drafts", 0.5, 10, 1.0}};
constexpr std::array kIntake = {
    CoefficientKind{"fixed", "ms", "from a request's arrival to the engine's queue", 0, kMaxMs},
    CoefficientKind{"per_sequence", "ms", "the same, for each sequence running on the worker", 0, kMaxMs, 0.0},
    CoefficientKind{"steps", "1",
                    "the same, as a multiple of the worker's last step without prefill: hops that the "
                    "engine's loop clocks",
                    0, 100, 0.0},
    CoefficientKind{"per_prompt_token", "ms", "the same, for each token of the prompt", 0, 1, 0.0},
    CoefficientKind{"jitter", "ms", "mean of an exponential part that scatters from request to request", 0, kMaxMs,
                    0.0}};
constexpr std::array kMemory = {
    CoefficientKind{"context", "B", "CUDA context, graphs, workspaces, communication buffers of each GPU", 0, 1e12},
    CoefficientKind{"activations", "1", "factor on the computed activations of a step with a full token budget", 0,
                    100},
    CoefficientKind{"activation_peak", "1", "the worst step's activations, as a multiple of what was planned", 0, 100,
                    1.0}};

constexpr std::array kMechanisms = {Mechanism{"weight_read", true, kWeightRead},
                                    Mechanism{"kv_read", true, kKvRead},
                                    Mechanism{"matrix_products", true, kMatrixProducts},
                                    Mechanism{"tiles", false, {}},
                                    Mechanism{"attention", true, kAttention},
                                    Mechanism{"all_reduce", true, kAllReduce},
                                    Mechanism{"launch", true, kLaunch},
                                    Mechanism{"graphs", false, kGraphs},
                                    Mechanism{"host_floor", false, kHostFloor},
                                    Mechanism{"drafting", true, kDrafting},
                                    Mechanism{"intake", false, kIntake},
                                    Mechanism{"memory", true, kMemory}};

constexpr CoefficientKind kTile{"above", "ms",
                                "more GPU time of a step with more rows than in its name, up to the next", 0, kMaxMs};

}  // namespace

std::span<const Mechanism> mechanisms() {
  return kMechanisms;
}

std::optional<std::uint32_t> tile_rows(std::string_view name) {
  constexpr std::string_view kPrefix = "above_";
  constexpr std::uint32_t kMostRows = 1'000'000;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  std::uint32_t rows = 0;
  const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), rows);
  const bool is_number = status == std::errc() && end == name.data() + name.size() && (name[0] != '0' || name == "0");
  if (!is_number || rows > kMostRows) return std::nullopt;
  return rows;
}

const CoefficientKind& tile_kind() {
  return kTile;
}

}  // namespace kvist::perfmodel
