#include "kvist/spec/step_time_yaml.h"

#include "kvist/spec/fields.h"

namespace kvist::spec {

Result<void> read_step_time(const YamlNode& node, StepTimeSpec& step) {
  KVIST_TRY_VOID(read_field(node, "fixed", step.fixed, Duration(0)));
  KVIST_TRY_VOID(read_field(node, "per_prefill_token", step.per_prefill_token, Duration(0)));
  KVIST_TRY_VOID(read_field(node, "per_sequence", step.per_sequence, Duration(0)));
  if (const auto value = node.get("per_kv_token")) {
    KVIST_TRY(step.per_kv_token_ns, value->as_nanoseconds());
  }
  if (const auto value = node.get("per_prefill_pair")) {
    // A step of the largest budget and context has 10^15 pairs; more than this does not fit into a duration.
    constexpr double kMostNs = 1'000;
    KVIST_TRY(step.per_prefill_pair_ns, value->as_nanoseconds());
    if (step.per_prefill_pair_ns > kMostNs)
      return std::unexpected(value->error("a pair of tokens takes some nanoseconds; want at most 1 us"));
  }
  KVIST_TRY_VOID(node.finish());
  // With a step that takes no time the engine would spin, and the virtual clock would not advance.
  if (step.fixed + step.per_sequence <= Duration(0)) {
    return std::unexpected(node.error("fixed and per_sequence are both 0: a step must take time"));
  }
  return {};
}

void write_step_time(YamlWriter& out, std::string_view key, const StepTimeSpec& step) {
  out.begin_map(key).field("fixed", step.fixed);
  out.field("per_prefill_token", step.per_prefill_token).field("per_sequence", step.per_sequence);
  out.nanoseconds("per_kv_token", step.per_kv_token_ns);
  if (step.per_prefill_pair_ns > 0) out.nanoseconds("per_prefill_pair", step.per_prefill_pair_ns);
  out.end_map();
}

}  // namespace kvist::spec
