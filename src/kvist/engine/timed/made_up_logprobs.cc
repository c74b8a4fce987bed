#include "kvist/engine/timed/made_up_logprobs.h"

#include <cmath>

#include "kvist/base/random.h"

namespace kvist::engine {

TokenLogprobs made_up_logprobs(AnswerPosition place, TokenId chosen, std::uint32_t likeliest,
                               const tokenizer::Tokenizer& tokenizer) {
  constexpr double kMost = 0.999;
  constexpr double kSpread = 0.6;
  const double uniform = RandomStream(mix_seed({place.seed, seed_part("logprobs"), place.position})).uniform();
  // Squared, because most tokens of a real answer are nearly certain.
  const double probability = kMost - kSpread * uniform * uniform;
  TokenLogprobs made{.chosen = {.token = chosen, .logprob = static_cast<float>(std::log(probability))},
                     .likeliest = {}};
  if (likeliest == 0) return made;
  made.likeliest.push_back(made.chosen);
  double rest = (1 - probability) / 2;
  const auto add = [&](std::int64_t id) {
    if (id < 0 || id >= tokenizer.vocabulary_size() || made.likeliest.size() == likeliest) return;
    const TokenId token(static_cast<std::uint32_t>(id));
    if (tokenizer.is_special(token)) return;
    made.likeliest.push_back({.token = token, .logprob = static_cast<float>(std::log(rest))});
    rest /= 2;
  };
  for (std::int64_t away = 1; away < tokenizer.vocabulary_size() && made.likeliest.size() < likeliest; ++away) {
    add(std::int64_t{chosen.value()} + away);
    add(std::int64_t{chosen.value()} - away);
  }
  return made;
}

}  // namespace kvist::engine
