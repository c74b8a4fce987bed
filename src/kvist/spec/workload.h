// The settings of a workload: the conversations, how fast they start, how many run at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/arrival_spec.h"
#include "kvist/spec/count_law.h"
#include "kvist/spec/trace_spec.h"

namespace kvist::spec {

/// What stands in the history of a conversation as the answers to its earlier turns.
enum class Replies : std::uint8_t {
  kLive,      ///< what the target answered
  kRecorded,  ///< the data set's; of drawn conversations prose of the answer's limit that follows from the seed. So
              ///< what is asked does not depend on what was answered
};

/// Multi-turn chat with shared starters, as in the published experiments. Token counts are those of the byte tokenizer
/// unless the target has its own tokenizer.
struct WorkloadSpec {
  std::uint64_t seed = 1;
  std::uint32_t turns_min = 3;
  std::uint32_t turns_max = 5;
  std::uint32_t starters = 10;  ///< shared first messages, drawn once from the seed; 0: each conversation has its own
  /// Groups of conversations whose first messages begin with one text, in front of a starter or a text of their own;
  /// 0: none.
  std::uint32_t prefix_groups = 0;
  std::uint32_t prefix_tokens = 0;  ///< length of that text
  double prefix_skew = 0;           ///< group k, from 1, is drawn with weight 1 / k^skew
  std::uint32_t starter_tokens_min = 3'500;
  std::uint32_t starter_tokens_max = 4'000;
  std::uint32_t follow_up_tokens_min = 20;  ///< text of a later user message
  std::uint32_t follow_up_tokens_max = 60;
  std::uint32_t max_tokens = 1'024;  ///< limit of one answer
  std::uint32_t max_tokens_min = 0;  ///< limits are drawn from here to max_tokens; 0: all are max_tokens
  bool ignore_eos = false;           ///< answers continue to max_tokens
  /// How the four numbers above are drawn between their bounds.
  CountLaw turns_law = {};
  CountLaw starter_law = {};
  CountLaw follow_up_law = {};
  CountLaw answer_law = {};
  std::vector<std::string> follow_ups = {};  ///< later messages are drawn from these; empty: they are made up
  Replies replies = Replies::kLive;
  ArrivalSpec arrivals = {};  ///< how conversations start; open: levels are starts per minute
  double target_rps = 10;     ///< closed: the most conversation starts per second; 0: no limit
  Duration request_timeout = std::chrono::seconds(120);  ///< the client gives a request up after this
  TraceSpec trace = {};  ///< if it names a file, its requests are driven instead of conversations

  [[nodiscard]] BoundedCount turns() const { return {turns_min, turns_max, turns_law}; }
  [[nodiscard]] BoundedCount starter_tokens() const { return {starter_tokens_min, starter_tokens_max, starter_law}; }
  [[nodiscard]] BoundedCount follow_up_tokens() const {
    return {follow_up_tokens_min, follow_up_tokens_max, follow_up_law};
  }
  /// Limits of answers.
  [[nodiscard]] BoundedCount answer_tokens() const {
    return {max_tokens_min == 0 ? max_tokens : max_tokens_min, max_tokens, answer_law};
  }
  bool operator==(const WorkloadSpec&) const = default;
};

inline constexpr std::size_t kMaxFollowUps = 10'000;
inline constexpr std::size_t kMaxFollowUpBytes = 100'000;  ///< of one
inline constexpr std::uint32_t kMaxPrefixGroups = 100'000;
inline constexpr double kMaxPrefixSkew = 10;
/// Of the beginnings of all groups together, which are kept.
inline constexpr std::uint64_t kMaxPrefixBytes = 256U << 20;

/// The path of a trace is relative to `base_directory`; "." leaves it unchanged.
[[nodiscard]] Result<WorkloadSpec> read_workload(const YamlNode& node, const std::string& base_directory = ".");
/// The YAML that read_workload() reads back to the same values, indented by `indent` spaces.
[[nodiscard]] std::string to_yaml(const WorkloadSpec& workload, int indent = 0);

/// The longest possible request of a conversation, in tokens: the last turn with every text and answer at its limit.
[[nodiscard]] std::uint64_t longest_request_tokens(const WorkloadSpec& workload);

}  // namespace kvist::spec
