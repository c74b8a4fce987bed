// What agents are told of a level of a sweep: the whole load, as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/spec/workload.h"
#include "kvist/workload/arm_texts.h"

namespace kvist::loadgen {

/// A level's load. How the target is reached (its key and certificate) is each agent's own setting.
struct LevelOrder {
  std::string target;  ///< http://host:port or https://host:port
  std::string model;
  spec::WorkloadSpec workload;
  workload::ArmTexts texts = {};
  std::uint32_t level = 0;  ///< of Load::start()
  std::uint64_t seed = 0;
};

[[nodiscard]] std::string level_order_json(const LevelOrder& order);
/// Nothing: the document orders something else. Errors: it is a level, and not a good one.
[[nodiscard]] Result<std::optional<LevelOrder>> parse_level_order(std::string_view json);

}  // namespace kvist::loadgen
