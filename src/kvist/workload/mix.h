// Several kinds of conversations in one load.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/spec/workload.h"
#include "kvist/workload/dataset.h"

namespace kvist::workload {

/// One kind of conversations: drawn as `spec` says, or those of `scripts`.
struct WorkloadPart {
  double weight = 1;  ///< its share of conversations is its weight over the sum of all
  spec::WorkloadSpec spec = {};
  std::shared_ptr<const std::vector<ChatScript>> scripts = nullptr;
  std::string name = {};    ///< of its file, for the record
  std::string sha256 = {};  ///< of its file, for the record
};

/// Refuses a mix without parts, with a weight that is not above 0, or with a part that check_workload() refuses. The
/// error names the part by its place, from 1.
[[nodiscard]] Result<void> check_mix(const std::vector<WorkloadPart>& parts);

/// What a conversation of a mix has on average, if none of its turns fails.
struct ConversationMeans {
  double turns = 0;
  std::optional<double> answer_tokens = {};  ///< of all its answers; nothing where they end when they like
};
/// Requires: parts that check_mix() accepts.
[[nodiscard]] ConversationMeans mean_conversation(const std::vector<WorkloadPart>& parts);

/// Decides to which part a conversation belongs: by its id and the seed alone, so that it is the same in every run and
/// however many are in flight. Parts share no texts. Immutable. Threads: any.
class Mix {
 public:
  struct Part {
    spec::WorkloadSpec spec;
    Dataset dataset;
  };

  /// Requires: parts that check_mix() accepts. With one part its texts are those of that workload alone. `tokens`: as
  /// of Dataset.
  Mix(const std::vector<WorkloadPart>& parts, std::uint64_t run_seed,
      const std::shared_ptr<const text::TokenProse>& tokens = nullptr);

  /// The result lives as long as the mix.
  [[nodiscard]] const Part& part_of(ConversationId conversation) const;

 private:
  std::uint64_t run_seed_;
  std::vector<Part> parts_;
  std::vector<double> weights_;  // cumulative
};

}  // namespace kvist::workload
