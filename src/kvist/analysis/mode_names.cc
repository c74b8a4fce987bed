#include "kvist/analysis/mode_names.h"

namespace kvist::analysis {

using spec::RoutingMode;

namespace {

std::string_view long_name_of(RoutingMode mode) {
  switch (mode) {
    case RoutingMode::kRoundRobin:
      return "Round-robin";
    case RoutingMode::kRandom:
      return "Random";
    case RoutingMode::kLeastLoaded:
      return "Least-loaded";
    case RoutingMode::kKv:
      return "KV cache-aware";
    case RoutingMode::kDynamo:
      return "Dynamo KV cost";
    case RoutingMode::kPowerOfTwo:
      return "Power-of-two";
    case RoutingMode::kSglang:
      return "SGLang cache-aware";
    case RoutingMode::kBoundedHash:
      return "Bounded-load hashing";
    case RoutingMode::kSession:
      return "Session-sticky";
    case RoutingMode::kVllmKvAware:
      return "vLLM router's kv_aware";
    case RoutingMode::kSmg:
      return "smg cache-aware";
    case RoutingMode::kLlmD:
      return "llm-d scorers";
    case RoutingMode::kLmetric:
      return "LMetric";
    case RoutingMode::kSmetric:
      return "SMetric";
    case RoutingMode::kPreble:
      return "Preble E2";
    case RoutingMode::kClairvoyant:
      return "Clairvoyant";
  }
  return "Unknown";
}

std::string_view title_name_of(RoutingMode mode) {
  switch (mode) {
    case RoutingMode::kRoundRobin:
      return "Round-Robin";
    case RoutingMode::kRandom:
      return "Random Routing";
    case RoutingMode::kLeastLoaded:
      return "Least-Loaded Routing";
    case RoutingMode::kKv:
      return "KV Cache Routing";
    case RoutingMode::kDynamo:
      return "Dynamo KV Cost Routing";
    case RoutingMode::kPowerOfTwo:
      return "Power-of-Two Routing";
    case RoutingMode::kSglang:
      return "SGLang Cache-Aware Routing";
    case RoutingMode::kBoundedHash:
      return "Bounded-Load Hash Routing";
    case RoutingMode::kSession:
      return "Session-Sticky Routing";
    case RoutingMode::kVllmKvAware:
      return "vLLM Router's kv_aware Routing";
    case RoutingMode::kSmg:
      return "smg Cache-Aware Routing";
    case RoutingMode::kLlmD:
      return "llm-d Scorer Routing";
    case RoutingMode::kLmetric:
      return "LMetric Routing";
    case RoutingMode::kSmetric:
      return "SMetric Routing";
    case RoutingMode::kPreble:
      return "Preble E2 Routing";
    case RoutingMode::kClairvoyant:
      return "Clairvoyant Routing";
  }
  return "Unknown";
}

}  // namespace

std::string short_name(const spec::Arm& arm) {
  if (arm == RoutingMode::kRoundRobin) return "RR";
  if (arm == RoutingMode::kKv) return "KV";
  return arm.name();
}

std::string_view long_name(const spec::Arm& arm) {
  const std::optional<RoutingMode> mode = arm.mode();
  return mode ? long_name_of(*mode) : spec::to_string(arm);
}

std::string_view title_name(const spec::Arm& arm) {
  const std::optional<RoutingMode> mode = arm.mode();
  return mode ? title_name_of(*mode) : spec::to_string(arm);
}

std::string_view single_mode_name(const spec::Arm& arm) {
  return arm == RoutingMode::kKv ? std::string_view("KV-aware") : long_name(arm);
}

std::string_view json_key(const spec::Arm& arm) {
  const std::optional<RoutingMode> mode = arm.mode();
  if (mode == RoutingMode::kKv) return "kv_aware";
  return mode ? spec::to_string(*mode) : spec::to_string(arm);
}

}  // namespace kvist::analysis
