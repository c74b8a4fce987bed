#include "kvist/spec/routing_yaml.h"

#include <array>
#include <string_view>

#include "kvist/spec/fields.h"

namespace kvist::spec {
namespace {

using Form = SessionAffinitySpec::Form;
constexpr std::array<Word<Form>, 3> kForms = {{{"off", Form::kOff}, {"soft", Form::kSoft}, {"hard", Form::kHard}}};

}  // namespace

Result<void> read_tier_weights(const YamlNode& gateway, TierWeightsSpec& weights) {
  const auto node = gateway.get("tier_weights");
  if (!node) return {};
  KVIST_TRY_VOID(read_field(*node, "cpu", weights.cpu, 0, 1));
  KVIST_TRY_VOID(read_field(*node, "disk", weights.disk, 0, 1));
  KVIST_TRY_VOID(read_field(*node, "remote", weights.remote, 0, 1));
  return node->finish();
}

Result<void> read_warm_up(const YamlNode& gateway, WarmUpSpec& warm_up) {
  const auto node = gateway.get("warm_up");
  if (!node) return {};
  KVIST_TRY_VOID(read_field(*node, "requests", warm_up.requests, 0, 1'000'000));
  KVIST_TRY_VOID(read_field(*node, "until_answers", warm_up.until_answers, 1, 1'000'000));
  return node->finish();
}

Result<void> read_session_affinity(const YamlNode& gateway, SessionAffinitySpec& affinity) {
  const auto node = gateway.get("session_affinity");
  if (!node) return {};
  if (!node->is_map()) return read_word(gateway, "session_affinity", kForms, affinity.form);
  KVIST_TRY_VOID(read_word(*node, "form", kForms, affinity.form));
  KVIST_TRY_VOID(node->require("form"));
  KVIST_TRY_VOID(read_field(*node, "ttl", affinity.ttl, std::chrono::seconds(1)));
  KVIST_TRY_VOID(read_field(*node, "worth", affinity.worth, Duration(0)));
  KVIST_TRY_VOID(read_field(*node, "max_sessions", affinity.max_sessions, 1, 10'000'000));
  return node->finish();
}

Result<void> read_objective(const YamlNode& gateway, ObjectiveSpec& objective) {
  const auto node = gateway.get("objective");
  if (!node) return {};
  KVIST_TRY_VOID(read_field(*node, "ttft", objective.ttft, 0.01, 100));
  return node->finish();
}

void write_tier_weights(YamlWriter& out, const TierWeightsSpec& weights) {
  if (weights == TierWeightsSpec{}) return;
  out.begin_map("tier_weights").field("cpu", weights.cpu).field("disk", weights.disk);
  out.field("remote", weights.remote).end_map();
}

void write_warm_up(YamlWriter& out, const WarmUpSpec& warm_up) {
  if (warm_up == WarmUpSpec{}) return;
  out.begin_map("warm_up").field("requests", warm_up.requests).field("until_answers", warm_up.until_answers).end_map();
}

void write_session_affinity(YamlWriter& out, const SessionAffinitySpec& affinity) {
  if (affinity == SessionAffinitySpec{}) return;
  out.begin_map("session_affinity");
  for (const Word<Form>& word : kForms)
    if (word.value == affinity.form) out.field("form", word.text);
  out.field("ttl", affinity.ttl).field("worth", affinity.worth).field("max_sessions", affinity.max_sessions).end_map();
}

void write_objective(YamlWriter& out, const ObjectiveSpec& objective) {
  if (objective == ObjectiveSpec{}) return;
  out.begin_map("objective").field("ttft", objective.ttft).end_map();
}

}  // namespace kvist::spec
