#include "kvist/spec/resilience_yaml.h"

#include <fmt/format.h>

#include "kvist/spec/fields.h"

namespace kvist::spec {

Result<void> read_admission(const YamlNode& gateway, AdmissionSpec& admission) {
  const auto node = gateway.get("admission");
  if (!node) return {};
  constexpr Duration kLeast = std::chrono::milliseconds(1);
  if (node->get("enabled")) {
    bool enabled = true;
    KVIST_TRY_VOID(read_field(*node, "enabled", enabled));
    admission.enabled = enabled;
  }
  KVIST_TRY_VOID(read_field(*node, "max_wait", admission.max_wait, kLeast));
  if (const auto standing = node->get("standing_wait")) {
    Duration wait{};
    KVIST_TRY_VOID(read_field(*node, "standing_wait", wait, kLeast));
    admission.standing_wait = wait;
    if (wait > admission.max_wait) {
      return std::unexpected(standing->error(fmt::format("({}) is above max_wait ({}), which bounds every wait",
                                                         seconds_text(wait), seconds_text(admission.max_wait))));
    }
  }
  return node->finish();
}

Result<void> read_hold(const YamlNode& gateway, HoldSpec& hold) {
  const auto node = gateway.get("hold");
  if (!node) return {};
  if (node->get("enabled")) {
    bool enabled = true;
    KVIST_TRY_VOID(read_field(*node, "enabled", enabled));
    hold.enabled = enabled;
  }
  KVIST_TRY_VOID(read_field(*node, "max_wait", hold.max_wait, std::chrono::milliseconds(1)));
  return node->finish();
}

Result<void> read_scaling(const YamlNode& gateway, ScalingSpec& scaling) {
  const auto node = gateway.get("scaling");
  if (!node) return {};
  KVIST_TRY_VOID(read_field(*node, "utilisation", scaling.utilisation, 0.05, 1));
  KVIST_TRY_VOID(read_field(*node, "window", scaling.window, std::chrono::seconds(1)));
  return node->finish();
}

Result<void> read_retry_budget(const YamlNode& gateway, RetryBudgetSpec& budget) {
  const auto node = gateway.get("retry_budget");
  if (!node) return {};
  constexpr double kMost = 1e9;
  KVIST_TRY_VOID(read_field(*node, "per_request", budget.per_request, 0, 100));
  KVIST_TRY_VOID(read_field(*node, "per_second", budget.per_second, 0, kMost));
  KVIST_TRY_VOID(read_field(*node, "most", budget.most, 0, kMost));
  KVIST_TRY_VOID(read_field(*node, "at_start", budget.at_start, 0, kMost));
  KVIST_TRY_VOID(node->finish());
  if (budget.at_start > budget.most) {
    return std::unexpected(node->error(
        fmt::format("at_start ({}) is above most ({}), which bounds the balance", budget.at_start, budget.most)));
  }
  return {};
}

Result<void> read_ejection(const YamlNode& gateway, EjectionSpec& ejection) {
  const auto node = gateway.get("ejection");
  if (!node) return {};
  constexpr Duration kLeast = std::chrono::milliseconds(1);
  KVIST_TRY_VOID(read_field(*node, "failures_in_a_row", ejection.failures_in_a_row, 0, kMaxCount));
  KVIST_TRY_VOID(read_field(*node, "failure_share", ejection.failure_share, 0.01, 1));
  KVIST_TRY_VOID(read_field(*node, "least_answers", ejection.least_answers, 1, kMaxCount));
  KVIST_TRY_VOID(read_field(*node, "window", ejection.window, kLeast));
  KVIST_TRY_VOID(read_field(*node, "time", ejection.time, kLeast));
  KVIST_TRY_VOID(read_field(*node, "longest_time", ejection.longest_time, kLeast));
  KVIST_TRY_VOID(read_field(*node, "most_of_fleet", ejection.most_of_fleet, 0, 1));
  KVIST_TRY_VOID(node->finish());
  if (ejection.time > ejection.longest_time) {
    return std::unexpected(node->error(fmt::format("time ({}) is above longest_time ({})", seconds_text(ejection.time),
                                                   seconds_text(ejection.longest_time))));
  }
  return {};
}

Result<void> read_migration(const YamlNode& gateway, MigrationSpec& migration) {
  const auto node = gateway.get("migration");
  if (!node) return {};
  constexpr std::uint32_t kMostTimes = 100;
  constexpr std::uint32_t kMostTokens = 1U << 20;  // openai::kMaxResumedTokens
  KVIST_TRY_VOID(read_field(*node, "enabled", migration.enabled));
  KVIST_TRY_VOID(read_field(*node, "max", migration.max, 1, kMostTimes));
  KVIST_TRY_VOID(read_field(*node, "max_tokens", migration.max_tokens, 1, kMostTokens));
  if (const auto bytes = node->get("max_request")) {
    KVIST_TRY(migration.max_request_bytes, bytes->as_bytes());
    if (migration.max_request_bytes < 1'024) return std::unexpected(bytes->error("must be at least 1 KiB"));
  }
  return node->finish();
}

void write_admission(YamlWriter& out, const AdmissionSpec& admission) {
  if (admission == AdmissionSpec{}) return;
  out.begin_map("admission");
  if (admission.enabled) out.field("enabled", *admission.enabled);
  out.field("max_wait", admission.max_wait);
  if (admission.standing_wait) out.field("standing_wait", *admission.standing_wait);
  out.end_map();
}

void write_hold(YamlWriter& out, const HoldSpec& hold) {
  if (hold == HoldSpec{}) return;
  out.begin_map("hold");
  if (hold.enabled) out.field("enabled", *hold.enabled);
  out.field("max_wait", hold.max_wait).end_map();
}

void write_scaling(YamlWriter& out, const ScalingSpec& scaling) {
  if (scaling == ScalingSpec{}) return;
  out.begin_map("scaling").field("utilisation", scaling.utilisation).field("window", scaling.window).end_map();
}

void write_retry_budget(YamlWriter& out, const RetryBudgetSpec& budget) {
  if (budget == RetryBudgetSpec{}) return;
  out.begin_map("retry_budget").field("per_request", budget.per_request).field("per_second", budget.per_second);
  out.field("most", budget.most).field("at_start", budget.at_start).end_map();
}

void write_ejection(YamlWriter& out, const EjectionSpec& ejection) {
  if (ejection == EjectionSpec{}) return;
  out.begin_map("ejection").field("failures_in_a_row", ejection.failures_in_a_row);
  out.field("failure_share", ejection.failure_share).field("least_answers", ejection.least_answers);
  out.field("window", ejection.window).field("time", ejection.time).field("longest_time", ejection.longest_time);
  out.field("most_of_fleet", ejection.most_of_fleet).end_map();
}

void write_migration(YamlWriter& out, const MigrationSpec& migration) {
  if (migration == MigrationSpec{}) return;
  out.begin_map("migration").field("enabled", migration.enabled).field("max", migration.max);
  out.field("max_tokens", migration.max_tokens);
  out.raw("max_request", fmt::format("{} B", migration.max_request_bytes)).end_map();
}

}  // namespace kvist::spec
