#include "kvist/engine/timed/answer_length.h"

#include <algorithm>
#include <cmath>

#include "kvist/base/random.h"

namespace kvist::engine {

std::uint64_t answer_length(const spec::OutputLengthSpec& spec, const Request& request) {
  if (request.ignore_eos) return kEndlessAnswer;
  RandomStream random(mix_seed({request.seed, seed_part("output length")}));
  const double drawn = std::round(random.normal(spec.mean_tokens, spec.standard_deviation_tokens));
  // At least one token besides the end of the turn, because an answer without content is a failure to the client. The
  // core cuts at max_tokens; the upper bound here only keeps the conversion defined.
  auto length = static_cast<std::uint64_t>(std::clamp(drawn, 2.0, 1e12));
  if (request.sampling) length = std::max(length, std::uint64_t{request.sampling->min_tokens} + 1);
  return length > request.resumed ? length - request.resumed : 1;
}

}  // namespace kvist::engine
