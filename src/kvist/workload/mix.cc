#include "kvist/workload/mix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/workload/drawn_count.h"
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

ConversationMeans mean_conversation(const std::vector<WorkloadPart>& parts) {
  double weights = 0;
  double turns = 0;
  double tokens = 0;
  bool known = true;
  for (const WorkloadPart& part : parts) {
    const double answer = mean_of(part.spec.answer_tokens());
    double turns_of_part = mean_of(part.spec.turns());
    double tokens_of_part = turns_of_part * answer;
    if (part.scripts) {
      turns_of_part = tokens_of_part = 0;
      for (const ChatScript& script : *part.scripts) {
        turns_of_part += static_cast<double>(script.turns.size());
        for (const ChatScript::Turn& turn : script.turns)
          tokens_of_part += turn.max_tokens > 0 ? turn.max_tokens : answer;
      }
      turns_of_part /= static_cast<double>(part.scripts->size());
      tokens_of_part /= static_cast<double>(part.scripts->size());
    }
    weights += part.weight;
    turns += part.weight * turns_of_part;
    tokens += part.weight * tokens_of_part;
    known = known && part.spec.ignore_eos;
  }
  return {.turns = turns / weights, .answer_tokens = known ? std::optional(tokens / weights) : std::nullopt};
}

Mix::Mix(const std::vector<WorkloadPart>& parts, std::uint64_t run_seed,
         const std::shared_ptr<const text::TokenProse>& tokens)
    : run_seed_(run_seed) {
  KVIST_CHECK(!parts.empty(), "a mix has a part");
  double sum = 0;
  for (const WorkloadPart& part : parts) {
    const std::uint64_t seed = parts_.empty() ? run_seed : mix_seed({run_seed, seed_part("part"), parts_.size()});
    parts_.push_back({.spec = part.spec, .dataset = Dataset(part.spec, seed, part.scripts, tokens)});
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
