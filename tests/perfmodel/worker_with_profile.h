// For tests: a worker that stands for a GPU.
#pragma once

#include <string>

#include "kvist/spec/deployment.h"

namespace kvist::perfmodel {

inline spec::WorkerSpec worker_with_profile(const std::string& engine = "trtllm", const std::string& gpu = "h200",
                                            const std::string& model = "llama-3.1-70b-fp8",
                                            std::uint32_t tensor_parallel = 1) {
  spec::WorkerSpec worker;
  worker.profile = spec::ProfileSpec{};
  worker.profile->engine = engine;
  worker.profile->gpu = gpu;
  worker.profile->model = model;
  worker.profile->tensor_parallel = tensor_parallel;
  worker.open = {.kv_blocks = true,
                 .max_model_len = true,
                 .max_steps_in_flight = true,
                 .admission = true,
                 .prefix_deferral = true,
                 .prefix_when_planned = true};
  return worker;
}

template <class T>
std::string message(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

}  // namespace kvist::perfmodel
