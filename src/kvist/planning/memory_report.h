// `kvist plan memory`: where the memory of a GPU goes, how many sequences it holds, and what was assumed for that.
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

/// What a plan made on paper says about the same worker, and the requests it had in mind. The defaults are those of the
/// published plan (four replicas of two H100, Llama 70B with an 8B drafter).
struct MemoryQuestion {
  double context_and_activation_bytes = 5e9;  ///< its lump for both
  std::uint32_t claimed_sequences = 53;       ///< that each replica is said to hold
  std::uint32_t prompt_tokens = 3'100;
  std::uint32_t max_output_tokens = 1'024;
  std::uint32_t mean_output_tokens = 840;  ///< as measured on the published deployments
  std::uint32_t follow_up_tokens = 22;     ///< of a later user message with its template
  std::uint32_t turns = 5;
};

/// One line of a budget: what is there (positive) or taken (negative), or a result.
struct BudgetLine {
  std::string label;
  double bytes = 0;
};

/// A length that a sequence may be planned with.
struct SequenceLength {
  std::string label;  ///< "prompt and mean answer"
  std::uint64_t tokens = 0;
  std::uint64_t planned = 0;   ///< sequences that fit, by the budget on paper, in tokens
  std::uint64_t profiled = 0;  ///< by the profile, in whole blocks
};

/// One way to count KV bytes, and the lengths with which the claimed number of sequences comes out.
struct SequenceAssumption {
  spec::KvDtype dtype = spec::KvDtype::kFp8;
  bool counts_drafter = false;            ///< the drafter's KV cache too
  bool is_split = false;                  ///< over the GPUs of the worker; otherwise tensor parallelism was forgotten
  double bytes_per_token = 0;             ///< of one GPU
  double least_tokens = 0;                ///< above this length fewer than claimed + 1 fit,
  double most_tokens = 0;                 ///< up to this one as many as claimed
  std::vector<std::string> lengths = {};  ///< labels of the lengths in between

  [[nodiscard]] bool holds() const { return !lengths.empty(); }
};

/// The same worker with another memory fraction.
struct FractionRow {
  double fraction = 0;
  double kv_bytes = 0;
  std::uint64_t kv_tokens = 0;
  double activation_room_bytes = 0;  ///< what the worst step may need before memory runs out
  bool fits = false;                 ///< with the peak that the profile assumes
};

/// All of one GPU of the worker; every GPU of it has the same.
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
  std::string out_of_memory;                    ///< the error the deployment would start with; empty: it fits
  std::optional<double> fraction_that_fits;     ///< where it does not
  std::vector<perfmodel::Coefficient> sources;  ///< the figures of the profile that it rests on, with their origins
};

/// Requires nothing of the worker but a profile; without one the error says what to write. Errors: unknown names. A
/// worker that does not fit gives a report that says so.
[[nodiscard]] Result<MemoryReport> make_memory_report(const spec::WorkerSpec& worker,
                                                      const MemoryQuestion& question = {});

/// For a terminal.
[[nodiscard]] std::string render_table(const MemoryReport& report);
/// One JSON document; sizes in bytes.
[[nodiscard]] std::string render_json(const MemoryReport& report);

}  // namespace kvist::planning
