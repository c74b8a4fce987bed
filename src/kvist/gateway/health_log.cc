#include "kvist/gateway/health_log.h"

#include <fmt/format.h>

namespace kvist::gateway {

std::optional<std::string> HealthLog::next_line(const dispatch::Fleet::Worker& worker, TimePoint now) {
  // Removals have lines of their own.
  if (worker.retired) return std::nullopt;
  const std::uint64_t changes = worker.changes - changes_;
  const bool failed_at_once = !said_ && !worker.last_failure.empty();
  if ((changes == 0 && !failed_at_once) || (said_ && now - last_ < kPause)) return std::nullopt;
  said_ = true;
  last_ = now;
  changes_ = worker.changes;
  std::string line = fmt::format("{} is {}", worker.name, to_string(worker.health));
  const bool is_healthy = worker.health == dispatch::WorkerHealth::kHealthy;
  if (!is_healthy) line += ": " + worker.last_failure;
  if (changes > 1) line += fmt::format(" (after {} changes{}", changes, is_healthy ? "; its last failure: " : ")");
  if (changes > 1 && is_healthy) line += worker.last_failure + ")";
  return line;
}

}  // namespace kvist::gateway
