// Generates traces of traffic other than chat: long prompts, retrieval, agents, code completion, short answers,
// reasoning, documents.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/workload/trace.h"

namespace kvist::workload {

/// The kinds of requests. Lengths are in tokens, including both ends.
enum class TrafficKind : std::uint8_t {
  /// Prompts that share nothing: log-normal around 4,000 (sigma 1.3), 100 to 128,000; answers log-normal around 200.
  kLongPrompts,
  /// One of 60 documents of 4,096 to 24,576, the i-th 1/i times as often as the first, then a question of 100 to 400;
  /// answers of 50 to 300.
  kRetrieval,
  /// The same questions and documents, the question before the document: nothing of a prompt was asked before.
  kRetrievalQuestionFirst,
  /// Conversations of 20 to 60 short turns after one of five instructions of 6,144: each turn adds its answer (60 to
  /// 300) and the output of a tool (200 to 3,000), 1 to 8 s later. One turn in ten begins three branches at once, as of
  /// agents that try several ways: each adds a task of 50 to 500 and goes on for one to four turns of its own; then the
  /// conversation goes on with the last answer of each. It ends at 120,000.
  kAgents,
  /// One of 200 files of 2,048 to 15,360, then 20 to 500 at the cursor; answers of 5 to 40.
  kCodeCompletion,
  /// One of four instructions of 2,048, the first one asked most, then a question of 20 to 400; answers of 1 to 16.
  kShortAnswers,
  /// Prompts of 200 to 2,000 that share nothing; answers of 6,000 to 10,000.
  kReasoning,
  /// What Mooncake's synthetic trace consists of, with its statistics. Of the starts 57 % are short prompts of their
  /// own (log-normal around 90), 23 % long ones (around 18,000), 2 % chats that grow over 2 to 8 turns, and 18 %
  /// documents (log-normal around 21,000, up to 190,000) about which a question is asked again and again, 80 s apart on
  /// average, ten times if the trace is long enough; their answers are short.
  kDocuments,
};
inline constexpr std::array<TrafficKind, 8> kTrafficKinds = {
    TrafficKind::kLongPrompts, TrafficKind::kRetrieval,      TrafficKind::kRetrievalQuestionFirst,
    TrafficKind::kAgents,      TrafficKind::kCodeCompletion, TrafficKind::kShortAnswers,
    TrafficKind::kReasoning,   TrafficKind::kDocuments};
/// long_prompts, retrieval, retrieval_question_first, agents, code_completion, short_answers, reasoning, documents.
[[nodiscard]] std::string_view to_string(TrafficKind kind);
[[nodiscard]] std::optional<TrafficKind> parse_traffic_kind(std::string_view name);

struct TrafficOptions {
  TrafficKind kind = TrafficKind::kLongPrompts;
  std::uint64_t seed = 1;
  /// The rate of a Poisson process: requests per second, for agents and documents those that begin something new.
  double starts_per_s = 1;
  Duration duration = std::chrono::minutes(10);  ///< requests after it are left out
  std::uint32_t tokens_per_hash = 512;
};

/// Generates requests in the order of their instants, which are whole milliseconds. Ids count up in the order of their
/// first appearance. The trace depends on the options alone. Errors: options that are not numbers above 0, or that lead
/// to more than 1,000,000 starts.
[[nodiscard]] Result<Trace> generate_traffic(const TrafficOptions& options);

}  // namespace kvist::workload
