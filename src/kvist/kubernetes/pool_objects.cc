#include "kvist/kubernetes/pool_objects.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace kvist::kubernetes {
namespace {

constexpr std::size_t kMostLabels = 32;
constexpr std::size_t kMostPoolPorts = 8;
constexpr std::size_t kMostConditions = 100;

/// Part of a selector: a comma or a sign in it would select something else.
bool is_label_text(std::string_view text) {
  constexpr std::size_t kMostBytes = 317;  // a prefix of 253, a slash, a name of 63
  return text.size() <= kMostBytes &&
         text.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_./") ==
             std::string_view::npos;
}

Result<void> read_labels(const JsonObject& spec, InferencePool& pool) {
  KVIST_TRY(const JsonObject selector, spec.require_object("selector"));
  KVIST_TRY(const JsonObject labels, selector.require_object("matchLabels"));
  for (const auto [key, value] : labels) {
    KVIST_TRY(const std::string_view text, value.as_string());
    if (key.empty() || !is_label_text(key) || !is_label_text(text)) return value.wrong("expected a label");
    pool.match_labels.emplace(key, text);
    if (pool.match_labels.size() > kMostLabels)
      return selector.wrong("matchLabels", fmt::format("expected at most {}", kMostLabels));
  }
  if (pool.match_labels.empty()) return selector.wrong("matchLabels", "expected at least one label");
  return {};
}

Result<bool> is_ready(const JsonObject& status) {
  KVIST_TRY(const auto phase, status.find_string("phase"));
  KVIST_TRY(const auto conditions, status.find_array("conditions"));
  if (phase != "Running" || !conditions) return false;
  if (conditions->size() > kMostConditions)
    return conditions->value().wrong(fmt::format("expected at most {}", kMostConditions));
  for (const JsonValue value : *conditions) {
    KVIST_TRY(const JsonObject condition, value.as_object());
    KVIST_TRY(const auto type, condition.find_string("type"));
    KVIST_TRY(const auto holds, condition.find_string("status"));
    if (type == "Ready") return holds == "True";
  }
  return false;
}

}  // namespace

std::string InferencePool::label_selector() const {
  std::string text;
  for (const auto& [key, value] : match_labels) text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, value);
  return text;
}

Result<InferencePool> read_inference_pool(const JsonObject& object) {
  InferencePool pool;
  KVIST_TRY(const JsonObject spec, object.require_object("spec"));
  KVIST_TRY_VOID(read_labels(spec, pool));
  KVIST_TRY(const JsonArray ports, spec.require_array("targetPorts"));
  if (ports.empty() || ports.size() > kMostPoolPorts)
    return ports.value().wrong(fmt::format("expected 1 to {} ports", kMostPoolPorts));
  for (const JsonValue value : ports) {
    KVIST_TRY(const JsonObject port, value.as_object());
    KVIST_TRY(const std::uint64_t number, port.require_unsigned("number", 1, 65'535));
    pool.ports.push_back(static_cast<std::uint16_t>(number));
  }
  return pool;
}

Result<Pod> read_pod(const JsonObject& object) {
  Pod pod;
  KVIST_TRY(pod.metadata, read_pod_metadata(object));
  KVIST_TRY(const JsonObject metadata, object.require_object("metadata"));
  KVIST_TRY(const auto deleted, metadata.find_string("deletionTimestamp"));
  pod.terminating = deleted.has_value();
  KVIST_TRY(const auto status, object.find_object("status"));
  if (!status) return pod;
  KVIST_TRY(const auto address, status->find("podIP"));
  if (address) {
    KVIST_TRY(pod.address, read_address(*address));
  }
  KVIST_TRY(pod.ready, is_ready(*status));
  return pod;
}

}  // namespace kvist::kubernetes
