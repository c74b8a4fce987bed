// The durations and sizes of requests, as vLLM counts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/engine/core.h"
#include "kvist/engine/request.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::worker {

/// A histogram with bounds of its own, in constant memory. Threads: one.
class Histogram {
 public:
  /// `bounds` are ascending upper bounds, inclusive.
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

  void observe(double value);
  void write(telemetry::MetricsPage& page, const std::string& name, const std::string& help,
             const telemetry::Labels& labels) const {
    page.histogram(name, help, bounds_, counts_, sum_, labels);
  }

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;  // per bucket; the last one is for all values above the bounds
  double sum_ = 0;
};

/// Counts of how requests have ended.
struct FinishCounts {
  std::uint64_t stop = 0;
  std::uint64_t length = 0;
  std::uint64_t aborted = 0;
};

/// The histograms of a vLLM server, with its names and bounds, from the engine's outputs. A request is a choice: one
/// answer to one prompt. Aborted requests are counted, but not in the times. Memory: one entry per request under way.
/// Threads: one.
class RequestMetrics {
 public:
  /// Size histograms extend to the context length.
  explicit RequestMetrics(std::uint32_t max_model_len);

  /// `prompt` is the first of the requests that answer the same prompt, possibly this one. Requires: all requests for a
  /// prompt are submitted before the first of them ends.
  void on_submitted(RequestId id, RequestId prompt, std::uint32_t max_tokens, TimePoint now);
  void on_admitted(const engine::Admission& admission);
  /// Takes all outputs of a step, at the time when they are passed on.
  void on_outputs(std::span<const engine::RequestOutput> outputs, TimePoint now);
  /// A request was refused because the queue is full.
  void on_rejected() { ++rejected_; }
  /// A stop string ended the request. Later outputs of the engine for it are ignored.
  void on_stopped(RequestId id);
  /// A stop string ended a request that ended at its limit with the same output.
  void on_stopped_at_the_limit() {
    --finished_.length;
    ++finished_.stop;
  }

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
  /// The requests for one prompt.
  struct Prompt {
    std::uint32_t answers = 0;
    std::uint32_t open = 0;
    std::uint32_t most_tokens = 0;  // 0: all that ended were aborted
  };

  void on_tokens(Request& request, const engine::RequestOutput& output, TimePoint now);
  void on_finished(const Request& request);
  void leave_prompt(const Request& request, std::uint32_t tokens);

  std::unordered_map<RequestId, Request> requests_;  // for look-up only
  std::unordered_map<RequestId, Prompt> prompts_;    // by their first request; likewise
  FinishCounts finished_;
  std::uint64_t rejected_ = 0;

  Histogram time_to_first_token_;
  Histogram inter_token_latency_;
  Histogram time_per_output_token_;
  Histogram e2e_latency_;
  Histogram queue_time_;
  Histogram inference_time_;
  Histogram prefill_time_;
  Histogram decode_time_;
  Histogram prompt_tokens_;
  Histogram generation_tokens_;
  Histogram most_generation_tokens_;
  Histogram params_n_;
  Histogram params_max_tokens_;
  Histogram prefill_computed_tokens_;
  Histogram iteration_tokens_;
};

}  // namespace kvist::worker
