#include "kvist/workload/mix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/workload/load_driver.h"

namespace kvist::workload {

Result<void> check_mix(const std::vector<WorkloadPart>& parts) {
  if (parts.empty()) return fail(ErrorCode::kInvalidArgument, "mix: no workload");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string place = fmt::format("mix: workload {}", i + 1);
    if (!std::isfinite(parts[i].weight) || parts[i].weight <= 0) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}: weight is {}; want > 0", place, parts[i].weight));
    }
    Result<void> good = check_workload(parts[i].spec);
    if (!good) return std::unexpected(std::move(good).error().in(place));
  }
  return {};
}

Mix::Mix(const std::vector<WorkloadPart>& parts, std::uint64_t run_seed) : run_seed_(run_seed) {
  KVIST_CHECK(!parts.empty(), "a mix has a part");
  double sum = 0;
  for (const WorkloadPart& part : parts) {
    const std::uint64_t seed = parts_.empty() ? run_seed : mix_seed({run_seed, seed_part("part"), parts_.size()});
    parts_.push_back({.spec = part.spec, .dataset = Dataset(part.spec, seed, part.scripts)});
    sum += part.weight;
    weights_.push_back(sum);
  }
}

const Mix::Part& Mix::part_of(ConversationId conversation) const {
  if (parts_.size() == 1) return parts_.front();
  RandomStream random(mix_seed({run_seed_, seed_part("part of"), conversation.value()}));
  const auto part = std::ranges::upper_bound(weights_, random.uniform() * weights_.back()) - weights_.begin();
  return parts_[std::min(static_cast<std::size_t>(part), parts_.size() - 1)];
}

}  // namespace kvist::workload
