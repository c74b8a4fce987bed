// How long requests took and how large they were, as vLLM counts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/engine/core.h"
#include "kvist/engine/request.h"
#include "kvist/telemetry/histogram.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::worker {

/// How requests have ended so far.
struct FinishCounts {
  std::uint64_t stop = 0;
  std::uint64_t length = 0;
  std::uint64_t aborted = 0;
};

/// The histograms of a vLLM server, with its names and bounds, from what the engine puts out. Told the time. A request
/// is a choice: one answer to one prompt. Aborted ones are counted and leave no times. Memory: a line per request under
/// way. One thread.
class RequestMetrics {
 public:
  /// Sizes are counted up to the context's length.
  explicit RequestMetrics(std::uint32_t max_model_len);

  /// `prompt`: the first of the requests that answer the same prompt, be it this one. All of a prompt are submitted
  /// before the first of them ends.
  void on_submitted(RequestId id, RequestId prompt, std::uint32_t max_tokens, TimePoint now);
  void on_admitted(const engine::Admission& admission);
  /// All outputs of a step, at the time at which they are handed on.
  void on_outputs(std::span<const engine::RequestOutput> outputs, TimePoint now);
  /// One that found the queue full.
  void on_rejected() { ++rejected_; }
  /// A stop string ended it, of which the engine knows nothing: what it puts out of it later is ignored.
  void on_stopped(RequestId id);

  [[nodiscard]] const FinishCounts& finish_counts() const { return finished_; }
  void write(telemetry::MetricsPage& page, const telemetry::Labels& labels) const;

 private:
  struct Request {
    RequestId prompt;
    std::uint32_t max_tokens = 0;
    TimePoint submitted;
    std::optional<TimePoint> admitted = {};
    TimePoint first_token = {};
    TimePoint last_token = {};
    std::uint32_t prompt_tokens = 0;
    std::uint32_t cached_tokens = 0;
    std::uint32_t output_tokens = 0;
  };
  /// Of the requests to one prompt.
  struct Prompt {
    std::uint32_t answers = 0;
    std::uint32_t open = 0;
    std::uint32_t most_tokens = 0;  // 0: none ended but by being aborted
  };

  void on_tokens(Request& request, const engine::RequestOutput& output, TimePoint now);
  void on_finished(const Request& request);
  void leave_prompt(const Request& request, std::uint32_t tokens);

  std::unordered_map<RequestId, Request> requests_;  // for look-up only
  std::unordered_map<RequestId, Prompt> prompts_;    // by their first request; likewise
  FinishCounts finished_;
  std::uint64_t rejected_ = 0;

  telemetry::Histogram time_to_first_token_;
  telemetry::Histogram inter_token_latency_;
  telemetry::Histogram time_per_output_token_;
  telemetry::Histogram e2e_latency_;
  telemetry::Histogram queue_time_;
  telemetry::Histogram inference_time_;
  telemetry::Histogram prefill_time_;
  telemetry::Histogram decode_time_;
  telemetry::Histogram prompt_tokens_;
  telemetry::Histogram generation_tokens_;
  telemetry::Histogram most_generation_tokens_;
  telemetry::Histogram params_n_;
  telemetry::Histogram params_max_tokens_;
  telemetry::Histogram prefill_computed_tokens_;
  telemetry::Histogram iteration_tokens_;
};

}  // namespace kvist::worker
