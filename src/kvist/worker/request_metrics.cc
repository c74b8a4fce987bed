#include "kvist/worker/request_metrics.h"

#include <algorithm>

namespace kvist::worker {
namespace {

// vLLM's bounds, so that its dashboards and alerts work unchanged.
const std::vector<double> kFirstTokenBounds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                               1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
const std::vector<double> kTokenBounds = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                          0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
const std::vector<double> kRequestBounds = {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                                            30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
const std::vector<double> kChoiceBounds = {1, 2, 5, 10, 20};
const std::vector<double> kIterationBounds = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

/// 1, 2, 5, 10, 20, 50, ... up to `most`.
std::vector<double> bounds_1_2_5(double most) {
  std::vector<double> bounds;
  for (double decade = 1;; decade *= 10) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (digit * decade > most) return bounds;
      bounds.push_back(digit * decade);
    }
  }
}

double seconds_between(TimePoint begin, TimePoint end) {
  return to_seconds(std::max(end - begin, Duration::zero()));
}

}  // namespace

void Histogram::observe(double value) {
  ++counts_[static_cast<std::size_t>(std::ranges::lower_bound(bounds_, value) - bounds_.begin())];
  sum_ += value;
}

RequestMetrics::RequestMetrics(std::uint32_t max_model_len)
    : time_to_first_token_(kFirstTokenBounds),
      inter_token_latency_(kTokenBounds),
      time_per_output_token_(kTokenBounds),
      e2e_latency_(kRequestBounds),
      queue_time_(kRequestBounds),
      inference_time_(kRequestBounds),
      prefill_time_(kRequestBounds),
      decode_time_(kRequestBounds),
      prompt_tokens_(bounds_1_2_5(max_model_len)),
      generation_tokens_(bounds_1_2_5(max_model_len)),
      most_generation_tokens_(bounds_1_2_5(max_model_len)),
      params_n_(kChoiceBounds),
      params_max_tokens_(bounds_1_2_5(max_model_len)),
      prefill_computed_tokens_(bounds_1_2_5(max_model_len)),
      iteration_tokens_(kIterationBounds) {}

void RequestMetrics::on_submitted(RequestId id, RequestId prompt, std::uint32_t max_tokens, TimePoint now) {
  requests_.emplace(id, Request{.prompt = prompt, .max_tokens = max_tokens, .submitted = now});
  Prompt& of_prompt = prompts_[prompt];
  ++of_prompt.answers;
  ++of_prompt.open;
}

void RequestMetrics::on_admitted(const engine::Admission& admission) {
  const auto found = requests_.find(admission.id);
  if (found != requests_.end()) found->second.admitted = admission.at;
}

void RequestMetrics::on_outputs(std::span<const engine::RequestOutput> outputs, TimePoint now) {
  std::uint64_t tokens = 0;
  for (const engine::RequestOutput& output : outputs) {
    const auto found = requests_.find(output.id);
    if (found == requests_.end()) continue;
    Request& request = found->second;
    if (!output.tokens.empty()) {
      tokens += output.tokens.size() + (request.output_tokens == 0 ? output.prompt_tokens : 0);
      on_tokens(request, output, now);
    }
    if (!output.finish) continue;
    if (*output.finish == engine::FinishReason::kAborted) {
      ++finished_.aborted;
      leave_prompt(request, 0);
    } else {
      ++(*output.finish == engine::FinishReason::kStop ? finished_.stop : finished_.length);
      on_finished(request);
    }
    requests_.erase(found);
  }
  if (tokens > 0) iteration_tokens_.observe(static_cast<double>(tokens));
}

void RequestMetrics::on_tokens(Request& request, const engine::RequestOutput& output, TimePoint now) {
  if (request.output_tokens == 0) {
    request.first_token = now;
    request.prompt_tokens = output.prompt_tokens;
    request.cached_tokens = output.cached_tokens;
    time_to_first_token_.observe(seconds_between(request.submitted, now));
  } else {
    inter_token_latency_.observe(seconds_between(request.last_token, now));
  }
  request.last_token = now;
  request.output_tokens = output.output_tokens;
}

void RequestMetrics::on_stopped(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  ++finished_.stop;
  on_finished(found->second);
  requests_.erase(found);
}

void RequestMetrics::on_finished(const Request& request) {
  const TimePoint admitted = request.admitted.value_or(request.submitted);
  const double decode_s = seconds_between(request.first_token, request.last_token);
  e2e_latency_.observe(seconds_between(request.submitted, request.last_token));
  queue_time_.observe(seconds_between(request.submitted, admitted));
  prefill_time_.observe(seconds_between(admitted, request.first_token));
  inference_time_.observe(seconds_between(admitted, request.last_token));
  decode_time_.observe(decode_s);
  time_per_output_token_.observe(request.output_tokens > 1 ? decode_s / (request.output_tokens - 1) : 0);
  prompt_tokens_.observe(request.prompt_tokens);
  generation_tokens_.observe(request.output_tokens);
  params_max_tokens_.observe(request.max_tokens);
  prefill_computed_tokens_.observe(request.prompt_tokens - request.cached_tokens);
  leave_prompt(request, request.output_tokens);
}

// For a prompt with several answers, vLLM counts their number and the longest one when the last has ended.
void RequestMetrics::leave_prompt(const Request& request, std::uint32_t tokens) {
  const auto found = prompts_.find(request.prompt);
  Prompt& prompt = found->second;
  prompt.most_tokens = std::max(prompt.most_tokens, tokens);
  if (--prompt.open > 0) return;
  if (prompt.most_tokens > 0) {
    params_n_.observe(prompt.answers);
    most_generation_tokens_.observe(prompt.most_tokens);
  }
  prompts_.erase(found);
}

void RequestMetrics::write(telemetry::MetricsPage& page, const telemetry::Labels& labels) const {
  telemetry::Labels with_reason = labels;
  with_reason.emplace_back("reason", "max_num_queued_reqs");
  page.counter("vllm:admission_rejections_total", "Requests that found the queue full.", static_cast<double>(rejected_),
               with_reason);
  const auto write = [&](const Histogram& histogram, const char* name, const char* help) {
    histogram.write(page, name, help, labels);
  };
  write(time_to_first_token_, "vllm:time_to_first_token_seconds", "From a request's arrival to its first token.");
  write(inter_token_latency_, "vllm:inter_token_latency_seconds", "Between the steps that bring a request tokens.");
  write(time_per_output_token_, "vllm:request_time_per_output_token_seconds",
        "Per finished request: the mean time per token after the first.");
  write(e2e_latency_, "vllm:e2e_request_latency_seconds", "From a request's arrival to its last token.");
  write(queue_time_, "vllm:request_queue_time_seconds", "From a request's arrival to its first step.");
  write(inference_time_, "vllm:request_inference_time_seconds", "From a request's first step to its last token.");
  write(prefill_time_, "vllm:request_prefill_time_seconds", "From a request's first step to its first token.");
  write(decode_time_, "vllm:request_decode_time_seconds", "From a request's first token to its last.");
  write(prompt_tokens_, "vllm:request_prompt_tokens", "Prompt tokens of finished requests.");
  write(generation_tokens_, "vllm:request_generation_tokens", "Tokens of the answers of finished requests.");
  write(most_generation_tokens_, "vllm:request_max_num_generation_tokens",
        "Tokens of the longest of the answers to one prompt.");
  write(params_n_, "vllm:request_params_n", "Answers asked for to one prompt.");
  write(params_max_tokens_, "vllm:request_params_max_tokens", "max_tokens of finished requests.");
  write(prefill_computed_tokens_, "vllm:request_prefill_kv_computed_tokens",
        "Prompt tokens of finished requests that the prefix cache did not have.");
  write(iteration_tokens_, "vllm:iteration_tokens_total",
        "Per step with tokens: these, and the prompts whose first token is among them.");
}

}  // namespace kvist::worker
