#include "kvist/workload/dataset.h"

#include "kvist/base/random.h"
#include "kvist/text/prose.h"

namespace kvist::workload {

Dataset::Dataset(const spec::WorkloadSpec& spec, std::uint64_t run_seed) {
  starters_.reserve(spec.starters);
  for (std::uint32_t index = 0; index < spec.starters; ++index) {
    // Each starter has a stream of its own, so that more starters do not change the first ones.
    RandomStream random(mix_seed({run_seed, seed_part("starter"), index}));
    const std::int64_t bytes = random.uniform_int(spec.starter_tokens_min, spec.starter_tokens_max);
    starters_.push_back(text::prose(random.next(), static_cast<std::size_t>(bytes)));
  }
}

}  // namespace kvist::workload
