// fuzz: engine/cpu
// Headers of safetensors files: any bytes give entries that lie within the file and cover its data, or an error. The
// same bytes as config.json: a config within its bounds, or an error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/engine/cpu/llama_config.h"
#include "kvist/engine/cpu/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace cpu = kvist::engine::cpu;
  const auto entries = cpu::read_safetensors_header(std::as_bytes(std::span(data, size)), "fuzz");
  if (entries) {
    std::uint64_t sum = 0;
    for (const cpu::TensorEntry& entry : *entries) {
      KVIST_CHECK(entry.begin <= entry.end && entry.end <= size, "within the file");
      sum += entry.end - entry.begin;
    }
    KVIST_CHECK(sum <= size, "no byte belongs to two tensors");
  }
  const auto config = cpu::parse_llama_config({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (config) {
    KVIST_CHECK(config->heads % config->kv_heads == 0 && config->head_dim % cpu::kHeadDimStep == 0, "heads");
    KVIST_CHECK(config->parameters() > 0, "parameters");
  }
  return 0;
}
