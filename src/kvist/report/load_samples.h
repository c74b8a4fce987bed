// The samples behind a run's figures, in the order in which requests were sent. Private to the exports.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "kvist/report/load_run.h"
#include "kvist/report/sample_list.h"

namespace kvist::report {

/// A value of a request; nothing where it has none.
using TurnValue = std::function<std::optional<double>(const workload::TurnSample&)>;

[[nodiscard]] inline std::optional<double> ttft_ms(const workload::TurnSample& turn) {
  return analysis::has_first_token(turn) ? std::optional(turn.ttft_ms()) : std::nullopt;
}
[[nodiscard]] inline std::optional<double> tpot_ms(const workload::TurnSample& turn) {
  return analysis::has_first_token(turn) ? turn.tpot_ms() : std::nullopt;
}
[[nodiscard]] inline std::optional<double> latency_ms(const workload::TurnSample& turn) {
  return turn.latency_ms();
}
[[nodiscard]] inline std::optional<double> output_tokens(const workload::TurnSample& turn) {
  return turn.output_tokens();
}
[[nodiscard]] inline std::optional<double> prompt_tokens(const workload::TurnSample& turn) {
  return turn.has_usage() ? std::optional<double>(turn.prompt_tokens) : std::nullopt;
}
/// Of the turns of this level.
[[nodiscard]] inline TurnValue cached_tokens_of(const results::LevelRecord& level) {
  return [known = reports_cached(level)](const workload::TurnSample& turn) {
    return known && turn.has_usage() ? std::optional<double>(turn.cached_tokens) : std::nullopt;
  };
}

/// A value of every measured request, times `factor`.
[[nodiscard]] inline SampleList samples_of(const std::vector<const workload::TurnSample*>& turns,
                                           const TurnValue& value, double factor = 1) {
  std::vector<double> samples;
  for (const workload::TurnSample* turn : turns) {
    if (const std::optional<double> one = value(*turn)) samples.push_back(*one * factor);
  }
  return SampleList(std::move(samples));
}

/// All gaps between chunks, pooled.
[[nodiscard]] inline SampleList gaps_of(const std::vector<const workload::TurnSample*>& turns, double factor = 1) {
  std::vector<double> samples;
  for (const workload::TurnSample* turn : turns) {
    for (const float gap : turn->gaps_ms) samples.push_back(static_cast<double>(gap) * factor);
  }
  return SampleList(std::move(samples));
}

/// The requests of an outcome that were sent within the window, as the totals count them.
[[nodiscard]] inline std::vector<const workload::TurnSample*> turns_with(const results::LevelRecord& level,
                                                                         workload::TurnOutcome outcome) {
  std::vector<const workload::TurnSample*> turns;
  for (const workload::TurnSample& turn : level.turns) {
    if (turn.outcome == outcome && sent_in_window(level, turn)) turns.push_back(&turn);
  }
  return turns;
}

/// Writes a number, or null if it is not known.
inline void number(JsonWriter& json, std::optional<double> value) {
  if (value && std::isfinite(*value)) {
    json.value(*value);
  } else {
    json.null();
  }
}
inline void number_field(JsonWriter& json, std::string_view key, std::optional<double> value) {
  json.key(key);
  number(json, value);
}

}  // namespace kvist::report
