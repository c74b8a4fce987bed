#include "kvist/loadgen/agents/level_order.h"

#include <limits>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/base/yaml.h"

namespace kvist::loadgen {
namespace {

constexpr std::string_view kLevelKey = "level_of_sweep";
constexpr std::uint32_t kMostOfLevel = 1'000'000;

Result<LevelOrder> read_level(const JsonObject& object) {
  LevelOrder order;
  KVIST_TRY(const std::string_view target, object.require_string("target"));
  KVIST_TRY(const std::string_view model, object.require_string("model"));
  KVIST_TRY(const std::string_view workload, object.require_string("workload"));
  KVIST_TRY(const std::string_view opening, object.require_string("opening"));
  KVIST_TRY(const auto frozen, object.find_bool("frozen_replies"));
  KVIST_TRY(const std::uint64_t level, object.require_unsigned("level", 1, kMostOfLevel));
  KVIST_TRY(order.seed, object.require_unsigned("seed", 0, std::numeric_limits<std::uint64_t>::max()));
  KVIST_TRY_VOID(object.finish());
  if (!opening.empty() && opening.size() != workload::kOpeningBytes) return object.wrong("opening", "is none");
  order.target = target;
  order.model = model;
  order.texts = {.opening = std::string(opening), .frozen_replies = frozen.value_or(false)};
  order.level = static_cast<std::uint32_t>(level);
  KVIST_TRY(const YamlNode node, YamlNode::parse(std::string(workload), "workload of the order"));
  KVIST_TRY(order.workload, spec::read_workload(node));
  return order;
}

}  // namespace

std::string level_order_json(const LevelOrder& order) {
  JsonWriter json;
  json.begin_object().key(kLevelKey).begin_object();
  json.field("target", order.target).field("model", order.model);
  json.field("workload", spec::to_yaml(order.workload)).field("opening", order.texts.opening);
  json.field("frozen_replies", order.texts.frozen_replies).field("level", order.level).field("seed", order.seed);
  json.end_object().end_object();
  return json.take();
}

Result<std::optional<LevelOrder>> parse_level_order(std::string_view json) {
  JsonDocument document({.root = "order", .wrong = ErrorCode::kInvalidArgument});
  KVIST_TRY(const JsonObject object, document.parse_object(json));
  KVIST_TRY(const auto level, object.find_object(kLevelKey));
  if (!level) return std::optional<LevelOrder>();
  KVIST_TRY_VOID(object.finish());
  KVIST_TRY(LevelOrder order, read_level(*level));
  return std::optional(std::move(order));
}

}  // namespace kvist::loadgen
