#include "kvist/workload/dataset.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/text/prose.h"
#include "kvist/workload/drawn_count.h"

namespace kvist::workload {

Dataset::Dataset(const spec::WorkloadSpec& spec, std::uint64_t run_seed,
                 std::shared_ptr<const std::vector<ChatScript>> scripts, std::shared_ptr<const text::TokenProse> tokens)
    : run_seed_(run_seed), scripts_(std::move(scripts)), tokens_(std::move(tokens)) {
  if (scripts_) {
    KVIST_CHECK(!scripts_->empty(), "a data set without conversations");
    return;
  }
  double sum = 0;
  for (std::uint32_t group = 0; group < spec.prefix_groups; ++group) {
    RandomStream random(mix_seed({run_seed, seed_part("prefix group"), group}));
    prefixes_.push_back(text_of(random.next(), spec.prefix_tokens));
    sum += std::pow(group + 1.0, -spec.prefix_skew);
    shares_.push_back(sum);
  }
  const auto begins = prefixes_.empty() ? text::TokenProse::Begins::kAText : text::TokenProse::Begins::kBehindOne;
  starters_.reserve(spec.starters);
  for (std::uint32_t index = 0; index < spec.starters; ++index) {
    // Each starter has a stream of its own, so that more starters do not change the first ones.
    RandomStream random(mix_seed({run_seed, seed_part("starter"), index}));
    const std::uint32_t tokens_of_it = draw(spec.starter_tokens(), random);
    starters_.push_back(text_of(random.next(), tokens_of_it, begins));
  }
}

std::string Dataset::text_of(std::uint64_t seed, std::uint32_t tokens, text::TokenProse::Begins begins) const {
  return tokens_ ? tokens_->make(seed, tokens, begins) : text::prose(seed, tokens);
}

std::string_view Dataset::prefix_of(ConversationId conversation) const {
  if (prefixes_.empty()) return {};
  RandomStream random(mix_seed({run_seed_, seed_part("group of"), conversation.value()}));
  const auto group = std::ranges::upper_bound(shares_, random.uniform() * shares_.back()) - shares_.begin();
  return prefixes_[std::min(static_cast<std::size_t>(group), prefixes_.size() - 1)];
}

const ChatScript* Dataset::script_of(ConversationId conversation) const {
  if (!scripts_) return nullptr;
  const std::uint64_t n = scripts_->size();
  const std::uint64_t round = conversation.value() / n;
  // A permutation without a table of its own: cycle walking over a Feistel network on the smallest square that holds n.
  std::uint64_t side = 1;
  while (side * side < n) ++side;
  std::uint64_t place = conversation.value() % n;
  do {
    std::uint64_t left = place / side;
    std::uint64_t right = place % side;
    for (std::uint64_t step = 0; step < 4; ++step) {
      const std::uint64_t mixed = (left + mix_seed({run_seed_, seed_part("order"), round, step, right})) % side;
      left = right;
      right = mixed;
    }
    place = left * side + right;
  } while (place >= n);
  return &(*scripts_)[place];
}

}  // namespace kvist::workload
