// `kvist plan memory`: the use of a GPU's memory, how many sequences fit, and the assumptions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/perfmodel/coefficients.h"
#include "kvist/perfmodel/memory_plan.h"
#include "kvist/spec/deployment.h"

namespace kvist::planning {

inline constexpr double kGb = 1e9;  ///< bytes, as memory is sold

/// A plan on paper for the same worker, with its assumed requests. The defaults are those of the published plan (four
/// replicas of two H100, Llama 70B with an 8B drafter).
struct MemoryQuestion {
  double context_and_activation_bytes = 5e9;  ///< its estimate for both together
  std::uint32_t claimed_sequences = 53;       ///< the number that each replica is said to hold
  std::uint32_t prompt_tokens = 3'100;
  std::uint32_t max_output_tokens = 1'024;
  std::uint32_t mean_output_tokens = 840;  ///< as measured on the published deployments
  std::uint32_t follow_up_tokens = 22;     ///< of a later user message with its template
  std::uint32_t turns = 5;
};

/// One line of a budget: available memory (positive), used memory (negative), or a result.
struct BudgetLine {
  std::string label;
  double bytes = 0;
};

/// A length of sequences for planning.
struct SequenceLength {
  std::string label;  ///< "prompt and mean answer"
  std::uint64_t tokens = 0;
  std::uint64_t planned = 0;   ///< sequences that fit, by the budget on paper, in tokens
  std::uint64_t profiled = 0;  ///< by the profile, in whole blocks
};

/// One way to count KV bytes, and the lengths with which the claimed number of sequences comes out.
struct SequenceAssumption {
  spec::KvDtype dtype = spec::KvDtype::kFp8;
  bool counts_drafter = false;  ///< includes the drafter's KV cache
  bool is_split = false;        ///< divided by the GPUs of the worker; otherwise tensor parallelism is ignored
  double bytes_per_token = 0;   ///< of one GPU
  double least_tokens = 0;      ///< above this length fewer than claimed + 1 fit,
  double most_tokens = 0;       ///< up to this one as many as claimed
  std::vector<std::string> lengths = {};  ///< labels of the lengths in between

  [[nodiscard]] bool holds() const { return !lengths.empty(); }
};

/// The same worker with another memory fraction.
struct FractionRow {
  double fraction = 0;
  double kv_bytes = 0;
  std::uint64_t kv_tokens = 0;
  double activation_room_bytes = 0;  ///< memory that the largest step may use
  bool fits = false;                 ///< with the peak that the profile assumes
};

/// The budget of one GPU of the worker; all its GPUs have the same.
struct MemoryReport {
  std::string title;
  MemoryQuestion question;
  std::vector<BudgetLine> planned;  ///< round figures: 1 byte per parameter, memory as it is sold
  double planned_kv_bytes = 0;
  std::vector<BudgetLine> profiled;
  perfmodel::MemoryPlan plan;
  std::vector<SequenceLength> lengths;
  std::vector<SequenceAssumption> assumptions;
  std::vector<FractionRow> fractions;           ///< descending
  std::string out_of_memory;                    ///< the error at the deployment's start; empty if it fits
  std::optional<double> fraction_that_fits;     ///< set if it does not fit
  std::vector<perfmodel::Coefficient> sources;  ///< the figures of the profile that were used, with their origins
};

/// Only the worker's profile is used. A worker that does not fit gives a report with the error. Errors: no profile (the
/// error says what to write), unknown names.
[[nodiscard]] Result<MemoryReport> make_memory_report(const spec::WorkerSpec& worker,
                                                      const MemoryQuestion& question = {});

/// For a terminal.
[[nodiscard]] std::string render_table(const MemoryReport& report);
/// One JSON document; sizes in bytes.
[[nodiscard]] std::string render_json(const MemoryReport& report);

}  // namespace kvist::planning
