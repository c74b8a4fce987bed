// What load is driven: the conversations, how fast they start, how many run at once.
#pragma once

#include <cstdint>
#include <string>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/arrival_spec.h"
#include "kvist/spec/trace_spec.h"

namespace kvist::spec {

/// Multi-turn chat over shared starters, as the published experiments drove it. Token counts are those of the
/// byte-level tokenizer unless the target's own tokenizer says otherwise.
struct WorkloadSpec {
  std::uint64_t seed = 1;
  std::uint32_t turns_min = 3;
  std::uint32_t turns_max = 5;
  std::uint32_t starters = 10;  ///< shared first messages, drawn once from the seed; 0: each conversation has its own
  std::uint32_t starter_tokens_min = 3'500;
  std::uint32_t starter_tokens_max = 4'000;
  std::uint32_t follow_up_tokens_min = 20;  ///< text of a later user message
  std::uint32_t follow_up_tokens_max = 60;
  std::uint32_t max_tokens = 1'024;                      ///< limit of one answer
  bool ignore_eos = false;                               ///< answers run to max_tokens, whatever the model draws
  ArrivalSpec arrivals = {};                             ///< what starts conversations; open: levels are starts/minute
  double target_rps = 10;                                ///< closed: conversation starts per second, at most
  Duration request_timeout = std::chrono::seconds(120);  ///< the client gives a request up after this
  TraceSpec trace = {};  ///< where it names a file, its requests are driven and the conversations above are not

  bool operator==(const WorkloadSpec&) const = default;
};

/// The path of a trace is relative to `base_directory`; "." leaves it as it is.
[[nodiscard]] Result<WorkloadSpec> read_workload(const YamlNode& node, const std::string& base_directory = ".");
/// The YAML that read_workload() reads back to the same values, indented by `indent` spaces.
[[nodiscard]] std::string to_yaml(const WorkloadSpec& workload, int indent = 0);

/// The longest request a conversation can come to, in tokens: the last turn with every text and answer at its limit.
[[nodiscard]] std::uint64_t longest_request_tokens(const WorkloadSpec& workload);

}  // namespace kvist::spec
